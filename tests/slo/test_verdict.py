"""Verdicts on levels whose truth is known: objectives, Holm, whole levels, exit codes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bench.fit.law import Law
from bench.scenario import Direction, Objective, Slo
from bench.slo import LevelVerdict, check_exit_code, judge
from makers import make_law
from slo.levels import level_of, lognormal, one, ttft


def test_far_inside_passes_far_outside_fails_and_between_is_undecided() -> None:
    level = level_of(lognormal(800))
    assert one(level, ttft(0.3)).verdict == "passed"
    assert one(level, ttft(0.1)).verdict == "failed"
    middle = one(level, ttft(float(np.median(lognormal(800))) * 1.001))
    assert middle.verdict == "undecided"
    assert any(reason.startswith("bound_within: ") for reason in middle.reasons)
    assert middle.needed is not None and middle.needed > 800


def test_above_is_the_mirror_of_below() -> None:
    level = level_of(lognormal(800))
    objective = ttft(0.1)
    objective.direction = Direction.above
    assert one(level, objective).verdict == "passed"
    objective.bound = 0.3
    assert one(level, objective).verdict == "failed"


# Holm, and the level as a whole


def test_a_level_passes_only_if_every_objective_does() -> None:
    level = level_of(lognormal(800))
    middle = float(np.median(lognormal(800)))
    for bounds, expected in (
        ([0.3, 0.4], "passed"),
        ([0.3, middle], "undecided"),
        ([0.3, 0.1], "failed"),
        ([middle, 0.1], "failed"),
    ):
        slo = Slo(objectives=[ttft(bound, name=str(bound)) for bound in bounds])
        (verdict,) = judge([level], slo, [], [])
        assert verdict.verdict == expected
    (nothing,) = judge([level], Slo(), [], [])
    assert nothing.verdict == "undecided"


def test_which_failed_is_corrected_by_holm() -> None:
    """A bound that one test at 95 % misses by a hair is not called failed among five."""
    level = level_of(lognormal(800))
    low = one(level, ttft(0.1)).low
    assert low is not None
    hair = low * 0.9999
    assert one(level, ttft(hair)).verdict == "failed"
    slo = Slo(objectives=[ttft(hair, name="hair"), *[ttft(9.0, name=f"o{i}") for i in range(4)]])
    (verdict,) = judge([level], slo, [], [])
    first = verdict.objectives[0]
    assert first.verdict == "undecided"
    assert first.reasons[0].startswith("holm: ")
    # Once the others have clearly failed, the last one is tested at the plain level again.
    slo = Slo(objectives=[ttft(hair, name="hair"), *[ttft(0.01, name=f"o{i}") for i in range(4)]])
    (verdict,) = judge([level], slo, [], [])
    assert [row.verdict for row in verdict.objectives] == ["failed"] * 5


def test_error_rates_at_the_bound_itself() -> None:
    """At the true median, 400 independent campaigns: at most 5 % (plus 3 SE) of either error."""
    rng = np.random.default_rng(11)
    slo = Slo(objectives=[ttft(0.2)])
    found = []
    for _ in range(400):
        values = rng.lognormal(np.log(0.2), 0.3, 100)
        (verdict,) = judge([level_of([float(v) for v in values], 4)], slo, [], [])
        found.append(verdict.objectives[0].verdict)
    limit = 400 * (0.05 + 3 * np.sqrt(0.05 * 0.95 / 400))
    assert found.count("passed") <= limit
    assert found.count("failed") <= limit
    assert found.count("passed") > 0 and found.count("failed") > 0


# Infeasible


def idle_laws(ttft_ms: float = 150.0, tpot_ms: float = 9.0) -> list[Law]:
    """Of the engine "tp4": every first token after ttft_ms, every further one after tpot_ms."""
    flat = {"a": ttft_ms, "b": 0.0, "c": 0.0, "token_budget": 8192.0}
    return [make_law("ttft", "tp4", flat), make_law("tpot", "tp4", {"c0": tpot_ms})]


def impossible(objective: Objective, laws: list[Law]) -> list[str]:
    found = one(level_of(lognormal(400)), objective, laws=laws)
    reasons = [reason for reason in found.reasons if reason.startswith("infeasible: ")]
    assert found.infeasible == bool(reasons)
    return reasons


def test_a_bound_below_the_idle_engine_is_infeasible() -> None:
    (reason,) = impossible(ttft(0.1), idle_laws())
    assert "at least 0.15 s" in reason
    assert "extrapolated for 100% of the calls" in reason  # these laws state no range
    ranged = [
        msgspec.structs.replace(
            law, range={"uncached_tokens": [1, 9000], "cached_tokens": [0, 9000]}
        )
        for law in idle_laws()
    ]
    (reason,) = impossible(ttft(0.1), ranged)
    assert "extrapolated" not in reason
    assert impossible(ttft(0.16, 0.05), idle_laws()) == []
    assert impossible(ttft(0.1), []) == []


def test_an_idle_episode_is_the_sum_of_its_idle_parts() -> None:
    """One call of 51 tokens: 150 ms and 50 times 9 ms."""
    latency = Objective(name="l", metric="latency_s", bound=0.59, quantile=0.5)
    (reason,) = impossible(latency, idle_laws())
    assert "at least 0.6 s" in reason
    latency.bound = 0.601
    assert impossible(latency, idle_laws()) == []
    (reason,) = impossible(
        Objective(name="f", metric="ttfat_s", bound=0.1, quantile=0.5), idle_laws()
    )
    assert "at least 0.15 s" in reason
    (reason,) = impossible(
        Objective(name="t", metric="tpot_s", bound=0.008, quantile=0.5), idle_laws()
    )
    assert "at least 0.009 s" in reason


def test_a_law_that_is_not_accepted_makes_nothing_infeasible() -> None:
    poor = [msgspec.structs.replace(law, accepted=False) for law in idle_laws()]
    assert impossible(ttft(0.1), poor) == []


def test_sizes_that_are_not_known_make_nothing_infeasible() -> None:
    level = level_of(lognormal(400))
    for call in level.llm:
        call.cached_tokens = None
    assert not one(level, ttft(0.1), laws=idle_laws()).infeasible


def test_what_passed_is_not_infeasible() -> None:
    found = one(level_of(lognormal(400)), ttft(0.3), laws=idle_laws(310.0))
    assert (found.verdict, found.infeasible) == ("passed", False)


# Exit code


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([("passed", True), ("passed", True)], 0),
        ([("passed", True), ("failed", True)], 1),
        ([("undecided", True), ("failed", True)], 1),
        ([("passed", True), ("undecided", True)], 2),
        ([("failed", True), ("undecided", False)], 3),
        ([], 3),
    ],
)
def test_exit_code(found: list[tuple[str, bool]], code: int) -> None:
    verdicts = [
        LevelVerdict(
            engine="e", run="r", users=1, verdict=verdict, valid=valid, objectives=[], gates={}
        )
        for verdict, valid in found
    ]
    assert check_exit_code(verdicts) == code
