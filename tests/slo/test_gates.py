"""Gates: each is tripped by one change of a level that passes them all."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bench.fit.level import Level, WarmUp
from bench.record import EngineSample, EpisodeOutcome, ToolOutcome
from bench.scenario import Slo
from bench.slo import OK, check_gates, judge, server_gap
from bench.slo.gates import level_load
from makers import S, make_proof_level, make_selftest, make_tool
from slo.levels import level_of, lognormal, ttft


def incomplete(level: Level) -> None:
    level.complete = False


def died(level: Level) -> None:
    level.point.error = "the engine died"


def lost(level: Level) -> None:
    level.scheduled += 1


def busy_client(level: Level) -> None:
    level.point.client_cpu = 0.81


def unknown_client(level: Level) -> None:
    level.point.client_cpu = None


def late(level: Level) -> None:
    for call in level.llm[::10]:
        call.scheduled_ns -= 20_000_000


def unsent(level: Level) -> None:
    for call in level.llm:
        call.sent_ns = None


def failing(level: Level) -> None:
    for episode in level.episodes[:5]:
        episode.outcome = EpisodeOutcome.failed


def failed_warming_up(level: Level) -> None:
    """The members are well; what was cut as warm-up failed."""
    broken = [msgspec.structs.replace(e, outcome=EpisodeOutcome.failed) for e in level.episodes[:5]]
    level.cut = WarmUp(episodes=broken)


def broken_tools(level: Level) -> None:
    """One execution in ten failed at once; what the model asked wrongly does not count."""
    for number in range(40):
        outcome = ToolOutcome.error if number % 10 == 0 else ToolOutcome.ok
        level.tools.append(make_tool(episode=number, done_ns=1, outcome=outcome))
    for number in range(400):
        level.tools.append(make_tool(episode=number, done_ns=1, outcome=ToolOutcome.refused))


def empty(level: Level) -> None:
    level.episodes, level.scheduled = [], 0


def drifting(level: Level) -> None:
    level.settled = False


def disagreeing(level: Level) -> None:
    last = level.engine_samples[-1]
    assert last.e2e_sum_s is not None
    last.e2e_sum_s = 100.0 + (last.e2e_sum_s - 100.0) * 1.06


def above(level: Level) -> None:
    level.selftest = make_selftest(make_proof_level(7, prompt_tokens=16_000))


def too_many_events(level: Level) -> None:
    level.llm[0].chunks = 1_000_000


def unproved(level: Level) -> None:
    level.selftest = make_selftest(make_proof_level(50, 5.1, prompt_tokens=16_000))


@pytest.mark.parametrize(
    ("change", "gate", "code"),
    [
        (incomplete, "complete", "incomplete"),
        (died, "complete", "point_error"),
        (lost, "issued_equals_scheduled", "issued_not_scheduled"),
        (busy_client, "client_cpu", "client_cpu_high"),
        (unknown_client, "client_cpu", "client_cpu_unknown"),
        (late, "lag", "lag_high"),
        (unsent, "lag", "lag_unknown"),
        (failing, "error_rate", "error_rate_high"),
        (failed_warming_up, "error_rate", "error_rate_high"),
        (broken_tools, "tool_errors", "tool_errors_high"),
        (empty, "error_rate", "no_members"),
        (drifting, "steady_state", "not_settled"),
        (disagreeing, "server_agreement", "server_disagrees"),
        (above, "self_test", "above_self_test"),
        (too_many_events, "self_test", "above_self_test"),
        (unproved, "self_test", "self_test_failed"),
    ],
)
def test_each_gate_trips_and_makes_the_level_undecided(
    change: Callable[[Level], None], gate: str, code: str
) -> None:
    level = level_of(lognormal(400))
    level.selftest = make_selftest(
        make_proof_level(1000), make_proof_level(8, prompt_tokens=16_000)
    )
    slo = Slo(objectives=[ttft(0.5)])
    (before,) = judge([level], slo, [], [])
    assert (before.gates[gate], before.valid, before.verdict) == (OK, True, "passed")
    change(level)
    (after,) = judge([level], slo, [], [])
    assert after.gates[gate].startswith(f"{code}: ")
    assert (after.valid, after.verdict) == (False, "undecided")
    row = after.objectives[0]
    assert (row.valid, row.verdict, row.needed) == (False, "undecided", None)
    assert any(reason.startswith(f"not_valid: {gate}: {code}: ") for reason in row.reasons)


def test_what_cannot_be_checked_is_shown_and_does_not_invalidate() -> None:
    level = level_of(lognormal(400))
    level.engine_samples = []
    (verdict,) = judge([level], Slo(objectives=[ttft(0.5)]), [], [])
    unchecked = {name for name, reason in verdict.gates.items() if reason.startswith("not checked")}
    assert unchecked == {"self_test", "cache_hits", "server_agreement"}
    assert (verdict.valid, verdict.verdict) == (True, "passed")


def test_prompts_longer_than_the_self_tests_are_not_checked() -> None:
    level = level_of(lognormal(400))
    level.selftest = make_selftest(make_proof_level(1000))
    assert check_gates(level, Slo())["self_test"] == (
        "not checked: prompts have up to 2,000 tokens (p95), the self-test's 500 at most"
    )


def test_the_load_of_a_level() -> None:
    load = level_load(level_of([0.1] * 40))
    assert (load.streams, load.prompt_tokens) == (8, 2000.0)


def test_a_planned_hit_rate_is_checked_against_the_server() -> None:
    level = level_of(lognormal(400))
    first, last = level.engine_samples
    first.prefix_queries, first.prefix_hits = 1000.0, 500.0
    last.prefix_queries, last.prefix_hits = 2000.0, 900.0  # 0.4 of what came in between
    slo = Slo()
    assert check_gates(level, slo, 0.41)["cache_hits"] == OK
    assert check_gates(level, slo, 0.45)["cache_hits"].startswith("cache_hits_off: ")
    last.prefix_queries = None
    assert check_gates(level, slo, 0.45)["cache_hits"].startswith("not checked: ")


def test_each_levels_own_hit_rate_is_planned() -> None:
    levels = [level_of(lognormal(100)), level_of(lognormal(100), users=4)]
    for level in levels:
        first, last = level.engine_samples
        first.prefix_queries, first.prefix_hits = 0.0, 0.0
        last.prefix_queries, last.prefix_hits = 1000.0, 400.0
    planned = {8: 0.4, 4: None}
    verdicts = judge(levels, Slo(), [], [], (), lambda level: planned[level.users])
    assert [v.gates["cache_hits"].split(":")[0] for v in verdicts] == [OK, "not checked"]


def test_server_agreement_of_arrivals_uses_the_time_of_members_alone() -> None:
    """Arrivals overlap, so what is no member says itself when its calls ended."""
    level = level_of([0.5] * 800)
    level.point.rate_per_s, level.point.users = 8.0, 0
    level.warmup, level.tail = 3, 3
    ends = sorted(call.done_ns or 0 for call in level.llm)
    level.warmup_ended_ns, level.tail_ended_ns = ends[100], ends[700]
    first, last = level.engine_samples
    first.ns, last.ns = ends[100], ends[700] - 1
    inside_s = sum(
        call.latency_s or 0.0 for call in level.llm if first.ns < (call.done_ns or 0) <= last.ns
    )
    last.e2e_sum_s = (first.e2e_sum_s or 0.0) + inside_s
    assert check_gates(level, Slo())["server_agreement"] == OK
    level.tail_ended_ns = level.warmup_ended_ns
    assert "no time in which every request" in check_gates(level, Slo())["server_agreement"]


def test_server_agreement_asks_for_200_requests() -> None:
    level = level_of(lognormal(199))
    disagreeing(level)
    assert check_gates(level, Slo())["server_agreement"].startswith("not checked: 199 requests")


def test_server_agreement_leaves_out_what_members_did_not_do() -> None:
    """Warm-up and tail load the server too; only the time between them is compared."""
    whole = level_of([0.5] * 800)  # 100 s, 8 requests end at each whole second
    members = {
        (episode.user, episode.episode)
        for episode in whole.episodes
        # User 0 is late: it was in a warm-up episode until its 50th second.
        if (50 if episode.user == 0 else 20) <= episode.episode < 80
    }
    level = msgspec.structs.replace(
        whole,
        episodes=[e for e in whole.episodes if (e.user, e.episode) in members],
        llm=[c for c in whole.llm if (c.user, c.episode) in members],
        warmup=190,
        tail=160,
        scheduled=450,
        engine_samples=[
            EngineSample(point="u1", ns=int(second * S) + 1, e2e_sum_s=8.0 * second)
            for second in range(101)
        ],
    )
    assert check_gates(level, Slo())["server_agreement"] == OK
    assert server_gap(level) == pytest.approx(0, abs=1e-6)
    for sample in level.engine_samples:
        assert sample.e2e_sum_s is not None
        sample.e2e_sum_s *= 1.2  # someone else uses the engine
    assert check_gates(level, Slo())["server_agreement"].startswith("server_disagrees: ")
    assert server_gap(level) == pytest.approx(0.2)
    level.episodes = [episode for episode in level.episodes if episode.user > 0]
    assert check_gates(level, Slo())["server_agreement"].startswith("not checked: ")
    assert server_gap(level) is None
