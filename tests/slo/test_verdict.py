"""Verdicts on levels whose truth is known: objectives, Holm, whole levels, exit codes."""

from __future__ import annotations

import numpy as np
import pytest

from bench.scenario import Direction, Slo
from bench.slo import LevelVerdict, check_exit_code, judge
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


def test_a_bound_below_the_idle_engine_is_infeasible() -> None:
    level = level_of(lognormal(400))
    asked: list[tuple[str, float, float]] = []

    def idle(engine: str, prompt_tokens: float, cached_tokens: float) -> float | None:
        asked.append((engine, prompt_tokens, cached_tokens))
        return 0.15

    slo = Slo(objectives=[ttft(0.1), ttft(0.3, name="wide")])
    (verdict,) = judge([level], slo, [], [], idle)
    tight, wide = verdict.objectives
    assert (tight.infeasible, tight.verdict) == (True, "failed")
    assert any(reason.startswith("infeasible: ") for reason in tight.reasons)
    assert (wide.infeasible, wide.verdict) == (False, "passed")
    assert asked[0] == ("tp4", 2000.0, 500.0)
    (unknown,) = judge([level], slo, [], [], lambda *_: None)
    assert not unknown.objectives[0].infeasible


def test_what_passed_is_not_infeasible() -> None:
    slo = Slo(objectives=[ttft(0.3)])
    (verdict,) = judge([level_of(lognormal(400))], slo, [], [], lambda *_: 0.31)
    assert (verdict.objectives[0].verdict, verdict.objectives[0].infeasible) == ("passed", False)


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
