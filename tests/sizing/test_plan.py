"""The sizing table, on levels that the network itself produced and on levels that allow nothing."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fit.level import Level
from bench.record import EpisodeRecord, LLMRecord, ToolRecord
from bench.scenario import Engine, EngineKind, Objective, Slo, StepTime
from bench.sizing.demand import Call, Demand
from bench.sizing.network import Network
from bench.sizing.plan import PlanRow, SizingPlan, plan
from makers import (
    H100_TP2,
    H100_TP4,
    S,
    make_call,
    make_episode,
    make_level,
    make_point,
    make_step_laws,
    make_tool,
)

SAFETY = 0.9
TP2 = Engine(
    name="h100-tp2",
    tensor_parallel=2,
    kv_tokens=444_000,
    step=H100_TP2,
)
TP4 = Engine(
    name="h100-tp4",
    tensor_parallel=4,
    kv_tokens=1_330_000,
    step=H100_TP4,
)
DEMAND = Demand(
    calls=[Call(uncached=600, cached=1400, output=40)], calls_per_episode=2, tool_s=0.1, episodes=1
)


def measured(engine: Engine, users: int, episodes: int = 40) -> Level:
    """A level whose every episode took the mean that the network predicts: anchors are 1."""
    state = Network(engine, DEMAND).solve(users)
    ttft_ns = int(state.ttft_ms * 1e6)
    decode_ns = int(39 * state.itl_ms * 1e6)
    done: list[EpisodeRecord] = []
    calls: list[LLMRecord] = []
    tools: list[ToolRecord] = []
    for number in range(episodes):
        now = 0
        for turn in range(2):
            calls.append(
                make_call(
                    episode=number,
                    turn=turn,
                    sent_ns=now,
                    first_delta_ns=now + ttft_ns,
                    done_ns=now + ttft_ns + decode_ns,
                    prompt_tokens=2000,
                    cached_tokens=1400,
                    output_tokens=40,
                )
            )
            now += ttft_ns + decode_ns
            if turn == 0:
                tools.append(make_tool(episode=number, sent_ns=now, done_ns=now + S // 10))
                now += S // 10
        done.append(make_episode(episode=number, first_answer_ns=now - decode_ns, done_ns=now))
    return make_level(done, calls, tools, engine=engine.name, point=make_point(users=users))


def objective(metric: str, bound: float, quantile: float = 0.95) -> Objective:
    return Objective(name=f"{metric} goal", metric=metric, bound=bound, quantile=quantile)


def planned(
    objectives: list[Objective],
    target: int = 100,
    levels: list[Level] | None = None,
    engines: tuple[Engine, ...] = (TP2, TP4),
    gpus_per_node: int = 8,
) -> SizingPlan:
    if levels is None:
        levels = [measured(TP2, 8), measured(TP4, 8)]
    return plan(
        list(engines), levels, Slo(objectives=objectives), target, gpus_per_node, 0.0, SAFETY
    )


def rows(found: SizingPlan) -> dict[str, PlanRow]:
    return {row.layout: row for row in found.rows}


def test_the_three_layouts() -> None:
    found = rows(planned([objective("latency_s", 4.0)]))
    assert list(found) == ["TP=2", "TP=4", "2 x TP=2"]
    two, four, pair = found.values()
    assert two.users_per_group is not None and four.users_per_group is not None
    assert four.users_per_group > two.users_per_group
    assert pair.users_per_group == 2 * two.users_per_group
    assert (two.gpus_per_replica_group, four.gpus_per_replica_group) == (2, 4)
    assert pair.gpus_per_replica_group == 4
    assert pair.latency_s_p50 == two.latency_s_p50
    assert pair.gpus is not None and pair.gpus_n_plus_1 == pair.gpus + 2


def test_users_are_the_largest_number_that_keeps_the_bound() -> None:
    """The anchors are 1, so the table must agree with the network alone."""
    bound_s = 4.0
    row = rows(planned([objective("latency_s", bound_s)]))["TP=2"]
    assert row.users_per_group is not None
    network = Network(TP2, DEMAND)
    at, beyond = (network.solve(row.users_per_group + more).latency_ms for more in (0, 1))
    assert at <= SAFETY * bound_s * 1e3 < beyond
    assert row.latency_s_p50 == pytest.approx(at / 1e3, rel=1e-6)
    assert row.tpot_s_p50 == pytest.approx(
        network.solve(row.users_per_group).itl_ms / 1e3, rel=1e-3
    )
    assert row.limiting.startswith("Latency objective latency_s goal: ")


def test_gpus_nodes_and_one_replica_more() -> None:
    row = rows(planned([objective("latency_s", 4.0)], target=1000))["TP=2"]
    assert row.users_per_group is not None
    assert row.groups == -(-1000 // row.users_per_group)
    assert row.gpus == 2 * row.groups
    assert row.nodes == -(-row.groups // 4)
    assert row.gpus_n_plus_1 == row.gpus + 2


def test_a_replica_does_not_span_nodes() -> None:
    found = planned([objective("latency_s", 4.0)], gpus_per_node=2)
    by_layout = rows(found)
    assert by_layout["TP=4"].gpus is not None and by_layout["TP=4"].nodes is None
    assert by_layout["2 x TP=2"].nodes == 2 * (by_layout["2 x TP=2"].groups or 0)
    assert any(note.startswith("node_too_small: TP=4 ") for note in found.notes)


@pytest.mark.parametrize(
    ("metric", "bound", "words"),
    [("ttft_s", 0.12, "TTFT"), ("tpot_s", 0.025, "TPOT"), ("latency_s", 2.5, "Latency")],
)
def test_the_limiting_objective_is_named(metric: str, bound: float, words: str) -> None:
    loose = [objective(name, 99.0) for name in ("ttft_s", "tpot_s", "latency_s") if name != metric]
    row = rows(planned([*loose, objective(metric, bound)]))["TP=2"]
    assert row.users_per_group is not None
    assert row.limiting.startswith(f"{words} objective {metric} goal: ")


def test_without_a_tight_objective_the_kv_cache_limits() -> None:
    row = rows(planned([objective("latency_s", 9999.0)]))["TP=2"]
    assert row.limiting.startswith("KV cache: ")
    assert row.users_per_group is not None
    running = Network(TP2, DEMAND).solve(row.users_per_group).running
    assert running <= 444_000 // 2048 < Network(TP2, DEMAND).solve(row.users_per_group + 1).running


def test_a_bound_that_one_user_misses_gives_no_users() -> None:
    found = rows(planned([objective("ttft_s", 0.001)]))
    for row in found.values():
        assert (row.users_per_group, row.groups, row.gpus, row.nodes) == (None, None, None, None)
        assert row.gpus_n_plus_1 is None
        assert "1 users give" in row.limiting or "TTFT objective" in row.limiting


@settings(max_examples=15, deadline=None)
@given(tight=st.floats(0.05, 1.0), looser=st.floats(1.0, 4.0))
def test_a_looser_bound_never_gives_fewer_users(tight: float, looser: float) -> None:
    levels = [measured(TP2, 8, 20), measured(TP4, 8, 20)]
    for metric in ("ttft_s", "latency_s"):
        few = rows(planned([objective(metric, tight)], levels=levels))
        many = rows(planned([objective(metric, tight * looser)], levels=levels))
        for layout, row in few.items():
            assert (row.users_per_group or 0) <= (many[layout].users_per_group or 0)
        assert (few["TP=2"].users_per_group or 0) <= (few["TP=4"].users_per_group or 0)


def test_the_measured_quantile_scales_the_prediction() -> None:
    """One call in ten is twice as slow: p95 is then about twice the mean, and fewer users fit."""
    level = measured(TP2, 8)
    even = rows(planned([objective("ttft_s", 0.15)], levels=[level], engines=(TP2,)))["TP=2"]
    for call in level.llm[::10]:
        assert call.sent_ns is not None and call.first_delta_ns is not None
        call.first_delta_ns += call.first_delta_ns - call.sent_ns
    uneven = rows(planned([objective("ttft_s", 0.15)], levels=[level], engines=(TP2,)))["TP=2"]
    assert even.users_per_group is not None and uneven.users_per_group is not None
    assert uneven.users_per_group < even.users_per_group


def test_an_unmeasured_engine_borrows_and_says_so() -> None:
    found = rows(planned([objective("latency_s", 4.0)], levels=[measured(TP2, 8)]))
    own = rows(planned([objective("latency_s", 4.0)]))  # every anchor here is 1
    assert found["TP=4"].users_per_group == own["TP=4"].users_per_group
    assert "was not measured" in found["TP=4"].source
    assert "extrapolated" in found["TP=2"].source
    assert "simulated engine" in found["TP=2"].source


def test_what_the_network_cannot_predict_is_named() -> None:
    found = planned(
        [
            objective("latency_s", 4.0),
            objective("tool_s", 0.001),
            Objective(name="TSA", metric="tsa", bound=0.85),
            Objective(name="web", metric="latency_s", bound=0.001, quantile=0.5, workload="web"),
        ]
    )
    assert rows(found)["TP=2"].users_per_group is not None
    named = [note for note in found.notes if note.startswith("not_planned: ")]
    assert len(named) == 3


def test_predictions_are_shown_beside_measurements() -> None:
    checks = [note for note in planned([]).notes if note.startswith("check: ")]
    assert len(checks) == 2
    assert all(note.endswith("(+0%)") or note.endswith("(-0%)") for note in checks)


def test_a_model_that_does_not_reproduce_the_measurement_plans_nothing() -> None:
    """Coefficients 30 % too slow: no users and no GPUs, and no anchor for the others either."""
    slow = dataclasses.replace(
        TP2, step=StepTime(**{k: 1.3 * v for k, v in dataclasses.asdict(TP2.step).items()})
    )
    goals = [objective("latency_s", 4.0)]
    found = planned(goals, levels=[measured(TP2, 8)], engines=(slow, TP4))
    two, four, pair = found.rows
    for row in (two, four, pair):
        assert (row.users_per_group, row.groups, row.gpus, row.nodes) == (None, None, None, None)
        assert (row.gpus_n_plus_1, row.nodes_n_plus_1, row.latency_s_p50) == (None, None, None)
    assert two.rejected.startswith("the model does not reproduce the measurement: ")
    assert "15% is the tolerance" in two.rejected
    assert four.rejected.startswith("no objective has enough measured values")
    tolerant = Slo(objectives=goals, plan_tolerance=0.5)
    kept = plan([slow], [measured(TP2, 8)], tolerant, 100, 8, 0.0, SAFETY)
    assert kept.rows[0].users_per_group is not None and not kept.rows[0].rejected


def test_one_replica_more_may_need_one_node_more() -> None:
    found = planned([objective("latency_s", 4.0)], target=1, gpus_per_node=4)
    by_layout = rows(found)
    assert (by_layout["TP=4"].nodes, by_layout["TP=4"].nodes_n_plus_1) == (1, 2)
    assert (by_layout["TP=2"].nodes, by_layout["TP=2"].nodes_n_plus_1) == (1, 1)
    assert found.covered == ["latency_s goal"]


def test_a_plan_without_levels_or_engines_still_exists() -> None:
    nothing = planned([objective("latency_s", 4.0)], levels=[])
    assert nothing.rows == []
    assert any(note.startswith("no_demand: ") for note in nothing.notes)
    preset = Engine(name="seed", kv_tokens=444_000, preset_ttft_ms=[150.0])
    bare = Engine(name="bare", kv_tokens=444_000)
    found = planned([objective("latency_s", 4.0)], engines=(preset, bare))
    assert found.rows == []
    codes = {note.partition(":")[0] for note in found.notes}
    assert {"preset", "no_coefficients"} <= codes
    assert found.assumptions["demand"].startswith("2.00 model calls per episode")


def test_an_attached_engine_is_sized_by_its_measured_laws() -> None:
    attached = Engine(
        name=TP2.name,
        kind=EngineKind.attached,
        url="http://x/v1",
        gpu=TP2.gpu or "H100",
        tensor_parallel=2,
        kv_tokens=0,
    )
    slo = Slo(objectives=[objective("latency_s", 4.0)])
    levels = [measured(TP2, 8)]
    bare = plan([attached], levels, slo, 100, 8, 0.0, SAFETY)
    assert bare.rows == []
    found = plan([attached], levels, slo, 100, 8, 0.0, SAFETY, make_step_laws(TP2.name, TP2.step))
    (row,) = found.rows
    # The laws are those of TP2, so its users are TP2's.
    assert row.users_per_group == rows(planned(slo.objectives))["TP=2"].users_per_group
    assert row.source.startswith("predicted from measured laws; ")
    assert any(note.startswith("kv_unknown: ") for note in found.notes)


def test_engines_of_one_size_are_told_apart_by_name() -> None:
    twin = Engine(name="twin", tensor_parallel=2, kv_tokens=444_000, step=TP2.step)
    found = rows(planned([objective("latency_s", 4.0)], engines=(TP2, twin)))
    assert list(found) == ["TP=2 h100-tp2", "TP=2 twin"]
