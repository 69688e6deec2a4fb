"""Verdicts: does a level meet its objectives?

An objective is decided by one-sided bounds, a level by all of its objectives, an exit code by all
levels (methods.md section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from bench.fit.law import Law
from bench.fit.level import Level
from bench.quality.selection import AnswerRow, SelectionRow
from bench.scenario import RATE_METRICS, Direction, Objective, Slo
from bench.slo.evidence import Evidence, evidence_of, members_of
from bench.slo.gates import check_gates, trips
from bench.slo.infeasible import infeasible

UNBOUNDED = 1e9  # what lies above it is shown as None


class ObjectiveVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One objective at one level. `verdict`: passed | failed | undecided.

    `low`, `high` are one-sided bounds at the SLO's confidence; None is unbounded.
    `reasons` are codes with a colon and a sentence, e.g. "n_too_small: 40 of 59 episodes".
    """

    name: str
    metric: str
    quantile: float | None
    bound: float
    direction: str
    workload: str
    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    observed: float | None
    low: float | None
    high: float | None
    n: int
    needed: int | None  # further episodes (tsa, answer_rate: distinct tasks) to decide it
    verdict: str
    valid: bool
    infeasible: bool
    reasons: list[str]
    available: int | None = None  # of `needed`: tasks that the material holds and were not asked


class LevelVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-off of one level: passed only if every objective is (intersection-union)."""

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    verdict: str
    valid: bool
    objectives: list[ObjectiveVerdict]
    gates: dict[str, str]  # gate -> "ok" or its reason


def judge(
    levels: Sequence[Level],
    slo: Slo,
    selection: Sequence[SelectionRow],
    answers: Sequence[AnswerRow],
    laws: Sequence[Law] = (),
    planned_hit_rate: Callable[[Level], float | None] | None = None,
) -> list[LevelVerdict]:
    """One verdict per level, in the order of `levels` (methods.md section 5).

    selection, answers: rows of the same levels, found by engine, run, users and point. laws: TTFT
    and TPOT laws of the engines, for `infeasible`. planned_hit_rate: the share of a level's prompt
    tokens that the plan wants from the prefix cache; None: it is not known.
    """
    verdicts = []
    for level in levels:
        evidence = [
            evidence_of(level, objective, slo, selection, answers) for objective in slo.objectives
        ]
        planned = planned_hit_rate(level) if planned_hit_rate else None
        gates = check_gates(level, slo, planned)
        verdicts.append(_level_verdict(level, slo, evidence, gates, laws))
    return verdicts


def check_exit_code(verdicts: Sequence[LevelVerdict]) -> int:
    """0: every level passed, 1: one failed, 2: one is undecided, 3: one is not valid.

    The larger concern wins: not valid, then failed, then undecided. Without any level nothing
    was measured, which is not valid.
    """
    if not verdicts or not all(level.valid for level in verdicts):
        return 3
    if any(level.verdict == "failed" for level in verdicts):
        return 1
    return 0 if all(level.verdict == "passed" for level in verdicts) else 2


def _level_verdict(
    level: Level,
    slo: Slo,
    evidence: list[Evidence],
    gates: dict[str, str],
    laws: Sequence[Law],
) -> LevelVerdict:
    tripped = [f"not_valid: {name}: {reason}" for name, reason in gates.items() if trips(reason)]
    failed = _holm(slo, evidence)
    rows = [
        _objective_verdict(level, objective, slo.confidence, one, number in failed, tripped, laws)
        for number, (objective, one) in enumerate(zip(slo.objectives, evidence, strict=True))
    ]
    found = {row.verdict for row in rows}
    verdict = "failed" if "failed" in found else "undecided"
    if found == {"passed"}:
        verdict = "passed"
    return LevelVerdict(
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        verdict=verdict,
        valid=not tripped,
        objectives=rows,
        gates=gates,
    )


def _objective_verdict(
    level: Level,
    objective: Objective,
    confidence: float,
    evidence: Evidence,
    failed: bool,
    tripped: list[str],
    laws: Sequence[Law],
) -> ObjectiveVerdict:
    low, high = evidence.bounds(confidence)
    reasons = tripped + evidence.reasons
    verdict = "undecided"
    if not reasons:
        verdict, reasons = _decide(objective, confidence, low, high, failed)
    needed = None
    if verdict == "undecided" and not tripped:
        needed = _needed(level, objective, evidence, low, high)
    # What passes is feasible, whatever a fitted law says.
    impossible = "" if verdict == "passed" else infeasible(level, objective, laws)
    if impossible:
        reasons = [*reasons, impossible]
    return ObjectiveVerdict(
        name=objective.name,
        metric=objective.metric,
        quantile=objective.quantile,
        bound=objective.bound,
        direction=objective.direction.value,
        workload=objective.workload,
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        observed=_shown(evidence.observed),
        low=_shown(low),
        high=_shown(high),
        n=evidence.n,
        needed=needed,
        verdict=verdict,
        valid=not tripped,
        infeasible=bool(impossible),
        reasons=reasons + evidence.notes,
        available=evidence.available,
    )


def _decide(
    objective: Objective, confidence: float, low: float | None, high: float | None, failed: bool
) -> tuple[str, list[str]]:
    if failed:
        return "failed", []
    if _inside(objective, low, high):
        return "passed", []
    limits = f"{_number(low, '-inf')} to {_number(high, 'inf')}"
    if _outside(objective, low, high):
        return "undecided", [
            f"holm: the one-sided {confidence:.0%} bounds {limits} miss {objective.bound:g}, but "
            "not after Holm's correction for the number of objectives"
        ]
    return "undecided", [
        f"bound_within: the one-sided {confidence:.0%} bounds {limits} leave {objective.bound:g} "
        "open"
    ]


def _holm(slo: Slo, evidence: list[Evidence]) -> set[int]:
    """The objectives that failed, with a family-wise error of 1 - confidence (Holm 1979).

    All that are outside at level alpha/(those left) are rejected; repeated until none is.
    """
    alpha = 1 - slo.confidence
    left = {number for number, one in enumerate(evidence) if not one.reasons}
    family = len(evidence)
    failed: set[int] = set()
    while left:
        confidence = 1 - alpha / (family - len(failed))
        rejected = {
            number
            for number in left
            if _outside(slo.objectives[number], *evidence[number].bounds(confidence))
        }
        if not rejected:
            break
        failed |= rejected
        left -= rejected
    return failed


def _inside(objective: Objective, low: float | None, high: float | None) -> bool:
    if objective.direction is Direction.below:
        return high is not None and high <= objective.bound
    return low is not None and low >= objective.bound


def _outside(objective: Objective, low: float | None, high: float | None) -> bool:
    if objective.direction is Direction.below:
        return low is not None and low > objective.bound
    return high is not None and high < objective.bound


def _needed(
    level: Level,
    objective: Objective,
    evidence: Evidence,
    low: float | None,
    high: float | None,
) -> int | None:
    """Further observations until it could be decided, if the estimate stays where it is.

    Episodes; of a rate over distinct items (`evidence.n`), items.

    A bound's distance from the estimate falls with the square root of n. None: not estimable.
    """
    growth = evidence.growth
    if evidence.observed is None or evidence.n == 0:
        return None
    gap = abs(evidence.observed - objective.bound)
    side = high if evidence.observed <= objective.bound else low
    if side is not None and gap > 0:
        growth = max(growth, (abs(side - evidence.observed) / gap) ** 2)
    counted = evidence.n
    if objective.metric not in RATE_METRICS:
        counted = len(members_of(level, objective.workload, objective.metric))
    if growth <= 1 or growth > UNBOUNDED or counted == 0:
        return None
    return int(np.ceil(counted * (growth - 1) - 1e-9))


def _shown(value: float | None) -> float | None:
    return None if value is None or abs(value) > UNBOUNDED else value


def _number(value: float | None, missing: str) -> str:
    shown = _shown(value)
    return missing if shown is None else f"{shown:.4g}"
