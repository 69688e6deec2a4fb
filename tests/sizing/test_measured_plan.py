"""From records to hardware: an engine that states no coefficients is planned as one that does.

The truth is the simulator's step-time law on the virtual clock: an idle grid and three loads are
simulated, the laws fitted, the plan made of them held against the plan with the true coefficients.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bench.episode import Workload
from bench.fit.law import Law
from bench.fit.level import Level, levels_of
from bench.fit.tpot import fit_tpot, points_of
from bench.fit.ttft import fit_ttft, grid_records
from bench.record import GRID_POINT, PointKind, ScheduledRecord
from bench.run import Run
from bench.scenario import Engine, EngineKind, Objective, Slo, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.coefficients import measured_step
from bench.sizing.plan import PlanRow, plan
from bench.sizing.replay import EpisodeShape, TurnShape, idle_grid, replay
from makers import H100_TP2, H100_TP4, make_facts, make_point, make_run, make_scenario

HOST_MS, REQUEST_MS = 2.0, 30.0
MIX = [
    EpisodeShape(
        workload=Workload.react_2,
        weight=1.0,
        system_tokens=800,
        question_tokens=100,
        turns=[TurnShape(call_tokens=30, tools=["sql_query"], observation_tokens=400)] * 2,
        answer_tokens=60,
    ),
    EpisodeShape(
        workload=Workload.react_1,
        weight=1.0,
        system_tokens=800,
        question_tokens=1200,
        turns=[TurnShape(call_tokens=30, tools=["sql_query"], observation_tokens=2500)],
        answer_tokens=90,
    ),
]
GOALS = [
    Objective(name="tpot", metric="tpot_s", quantile=0.95, bound=0.04),
    Objective(name="latency", metric="latency_s", quantile=0.95, bound=8.0),
]


def known(step: StepTime, tensor_parallel: int) -> Engine:
    whole = dataclasses.replace(step, host=HOST_MS, request=REQUEST_MS, jitter_cv=0.03)
    return Engine(
        name=f"tp{tensor_parallel}",
        tensor_parallel=tensor_parallel,
        kv_tokens=444_000 * (3 * tensor_parallel // 2 - 2),
        step=whole,
    )


def sql_s(rng: np.random.Generator) -> float:
    return float(rng.lognormal(-4.0, 0.5))


def measured(engine: Engine) -> Run:
    """The demo's grid (3 x 3, 3 repeats) and loads, on the virtual clock."""
    points = [make_point(point=GRID_POINT, kind=PointKind.grid)]
    run = make_run(make_facts(make_scenario(engine)), points)
    run.llm += idle_grid(engine, [512, 4096, 10240], [0.0, 0.5, 0.9], 3, 8, seed=1)
    for users in (4, 8, 16):
        part = replay(engine, MIX, users, 0.0, {"sql_query": sql_s}, duration_s=60.0, seed=users)
        assert part.cut == 0
        run.points[part.point.point] = part.point
        run.llm += part.llm
        run.tools += part.tools
        run.episodes += part.episodes
        run.scheduled += [
            ScheduledRecord(
                point=e.point, user=e.user, episode=e.episode, scheduled_ns=e.scheduled_ns
            )
            for e in part.episodes
        ]
    return run


def laws_of(run: Run, engine: Engine) -> list[Law]:
    ttft = fit_ttft(grid_records(run), engine.name, engine.max_num_batched_tokens)
    tpot = fit_tpot(points_of([run]), engine.name)
    assert ttft is not None and tpot is not None
    assert ttft.accepted and tpot.accepted
    return [ttft, tpot]


def planned(engine: Engine, levels: list[Level], laws: list[Law]) -> PlanRow:
    (row,) = plan([engine], levels, Slo(objectives=GOALS), 100, 8, 0.0, 0.9, laws).rows
    return row


@pytest.mark.parametrize(("step", "tensor_parallel"), [(H100_TP2, 2), (H100_TP4, 4)])
def test_an_attached_engine_gets_the_plan_of_its_true_coefficients(
    step: StepTime, tensor_parallel: int
) -> None:
    engine = known(step, tensor_parallel)
    run = measured(engine)
    levels, laws = levels_of(run), laws_of(run, engine)
    attached = dataclasses.replace(
        engine, kind=EngineKind.attached, gpu="H100", url="http://x/v1", step=StepTime()
    )
    found = measured_step(attached, laws)
    assert found is not None
    decode_ms = step_ms(engine.step, (), 0, 0)
    assert step_ms(found, (), 0, 0) == pytest.approx(decode_ms, rel=0.03)
    truth, mine = planned(engine, levels, []), planned(attached, levels, laws)
    assert not truth.rejected and not mine.rejected
    assert truth.users_per_group is not None and mine.users_per_group is not None
    assert mine.users_per_group == pytest.approx(truth.users_per_group, rel=0.15)
    assert mine.latency_s_p50 == pytest.approx(truth.latency_s_p50, rel=0.05)
