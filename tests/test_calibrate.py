"""A run of a known engine gives back a profile that behaves like it."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bench.calibrate import Calibration, calibration_of, jitter_cv, profile_text
from bench.episode import Workload
from bench.errors import AnalysisError
from bench.record import GRID_POINT, PointKind, PointRecord
from bench.run import Run
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.replay import EpisodeShape, TurnShape, idle_grid, replay
from makers import H100_TP4, make_facts, make_run, make_scenario, make_step_laws

STEP = dataclasses.replace(H100_TP4, request=20.0, jitter_cv=0.03)
ENGINE = Engine(name="tp4", step=STEP, kv_tokens=1_330_000)


def tool_s(rng: np.random.Generator) -> float:
    return float(rng.lognormal(-1, 0.3))


@cache
def run() -> Run:
    grid = idle_grid(ENGINE, [256, 1024, 2048, 4096, 8000, 12288, 15872], [0.0, 0.5, 0.9], 6, 8, 1)
    shapes = [
        EpisodeShape(
            workload=Workload.react_1,
            weight=1,
            system_tokens=system,
            question_tokens=500,
            turns=[TurnShape(call_tokens=30, tools=["sql"], observation_tokens=800)],
            answer_tokens=60,
        )
        for system in (500, 9000)
    ]
    facts = make_facts(make_scenario(ENGINE), id="known")
    points = [PointRecord(point=GRID_POINT, kind=PointKind.grid, users=1, started_ns=0)]
    llm = list(grid)
    for users in (1, 8, 32):
        part = replay(ENGINE, shapes, users, 0.0, {"sql": tool_s}, 60.0, users)
        points.append(part.point)
        llm += part.llm
    return make_run(facts, points, llm=llm)


def test_the_calibrated_engine_is_as_fast_as_the_one_measured() -> None:
    found = calibration_of([run()])
    for chunks, decoding, kv_tokens in (
        ([(2000, 0)], 0, 0),
        ([(1000, 3000)], 0, 0),
        ([], 1, 4000),
        ([], 16, 64_000),
    ):
        want, got = (
            step_ms(step, chunks, decoding, kv_tokens) + bool(chunks) * step.request
            for step in (STEP, found.step)
        )  # with few repeats, a and the cost of a request are known in their sum only
        assert got == pytest.approx(want, rel=0.04)
    assert found.step.jitter_cv == pytest.approx(0.03, rel=0.4)
    assert found.simulated


def read(found: Calibration) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(profile_text(found))
    return loaded


def test_the_file_is_a_choice_of_conf_engine_with_intervals() -> None:
    found = calibration_of([run()])
    text = profile_text(found)
    assert "simulated engine" in text.splitlines()[0]
    assert "b: " in text and " to " in text
    body = read(found)
    assert body.pop("defaults") == ["simulated", "_self_"]
    step = StepTime(**body.pop("step"))
    engine = Engine(**body, step=step)
    assert engine.name == "tp4-calibrated"
    assert engine.kv_tokens == ENGINE.kv_tokens
    assert "run known" in engine.provenance
    assert step.b == pytest.approx(found.step.b, rel=1e-4)


def test_an_unknown_kv_capacity_stays_unknown() -> None:
    laws = {law.name: law for law in make_step_laws("x", STEP)}
    engine = Engine(name="x", kv_tokens=16384)
    engine.kv_tokens = 0
    found = Calibration(engine=engine, step=STEP, laws=laws, runs=["r"], simulated=False)
    assert read(found)["kv_tokens"] == 0
    assert "not known: write what the engine logs" in profile_text(found)
    assert "a measured engine" in read(found)["provenance"]


def test_a_run_without_an_idle_grid_is_refused() -> None:
    no_grid = make_run(run().facts, [], llm=[r for r in run().llm if not r.cell])
    with pytest.raises(AnalysisError, match=r"no accepted law of ttft; measure an idle grid"):
        calibration_of([no_grid])
    other = make_run(make_facts(make_scenario(Engine(name="b", kv_tokens=20_000))), [])
    with pytest.raises(AnalysisError, match="engines=b, tp4"):
        calibration_of([run(), other])


def test_no_repeats_tell_no_jitter() -> None:
    assert jitter_cv([], 0.0) == 0.0


def test_the_command_needs_a_run(tmp_path: Path) -> None:
    from bench.__main__ import main

    assert main(["calibrate", str(tmp_path)]) >= 64
