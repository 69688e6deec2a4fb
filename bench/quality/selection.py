"""Tool selection accuracy (TSA) and answer correctness per level (methods.md section 6)."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import linear_sum_assignment

from bench.episode import PlannedCall, Task, ToolCall, ToolDescription, Workload
from bench.errors import AnalysisError
from bench.fit.level import EpisodeKey, Level, episode_key
from bench.quality.arguments import same_arguments
from bench.record import LLMOutcome, LLMRecord
from bench.stats.interval import Interval
from bench.stats.quantiles import wilson

NONE = "none"
OTHER = "other"


class SelectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """TSA of one level over answered requests; `tsa_attempts` over every attempt.

    `outcomes` counts correct, wrong_tool, missed_call, false_call, parse_failure, truncated,
    transport_error. `confusion[expected][chosen]` counts items with one expected call
    ("none": no call).
    """

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    descriptions: str
    items: int
    tsa: Interval
    tsa_attempts: Interval
    tsa_strict: Interval  # arguments too, where expected arguments exist
    abstention: Interval  # right abstentions among items that expect none
    outcomes: dict[str, int]
    confusion: dict[str, dict[str, int]]
    by_stratum: dict[str, Interval]


class AnswerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that contain every expected fact, over the attempted gradable episodes."""

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    workload: str
    correct: Interval
    completed: Interval  # answered at all


class Outcome(enum.Enum):
    """What became of a turn whose choice is graded."""

    correct = "correct"
    wrong_tool = "wrong_tool"
    missed_call = "missed_call"
    false_call = "false_call"
    parse_failure = "parse_failure"
    truncated = "truncated"
    transport_error = "transport_error"


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one turn.

    `expected`, `chosen`: canonical tools, in order of the call; `chosen` is None when nothing
    readable came. `strict`: the arguments match too; None where none are expected.
    """

    outcome: Outcome
    expected: tuple[str, ...]
    chosen: tuple[str, ...] | None
    strict: bool | None


UNREADABLE = {
    LLMOutcome.transport_error: Outcome.transport_error,
    LLMOutcome.stream_error: Outcome.transport_error,
    LLMOutcome.cut: Outcome.transport_error,
    LLMOutcome.parse_failure: Outcome.parse_failure,
    LLMOutcome.truncated: Outcome.truncated,
}


class Faces(msgspec.Struct, frozen=True):
    """Which canonical tool a name means under one set of descriptions, and its parameters."""

    canonical: dict[str, str]
    parameters: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, tools: Sequence[ToolDescription], descriptions: str) -> Faces:
        """The strong or the weak faces. Raises AnalysisError for another word."""
        if descriptions not in ("strong", "weak"):
            raise AnalysisError(
                f"descriptions={descriptions}", "is no set of descriptions", "use strong or weak"
            )
        strong = descriptions == "strong"
        return cls(
            {(tool.strong_name if strong else tool.weak_name): tool.tool for tool in tools},
            {tool.tool: tool.parameters for tool in tools},
        )

    def tool(self, call: ToolCall) -> str:
        """The canonical tool of a call; "other" for a name that was not offered."""
        return self.canonical.get(call.name, OTHER)


def grade(expected: Sequence[PlannedCall], record: LLMRecord, faces: Faces) -> Grade:
    """Grade one turn against the calls it should have made (methods.md section 6).

    Names only: every expected call must be matched by a call of its own and none be left over, in
    any order. A real subset is a missed call, any other difference a wrong tool, a call where none
    is expected a false call. A request that failed, or that we cut, is a transport error; a parse
    failure or a truncated answer is never an abstention.
    """
    names = tuple(call.tool for call in expected)
    failed = UNREADABLE.get(record.outcome)
    asks_arguments = any(call.arguments is not None for call in expected)
    if failed is not None:
        strict = False if asks_arguments else None
        return Grade(outcome=failed, expected=names, chosen=None, strict=strict)
    chosen = tuple(faces.tool(call) for call in record.calls)
    outcome = _outcome(Counter(names), Counter(chosen))
    strict = None
    if asks_arguments:
        strict = outcome is Outcome.correct and _all_match(expected, record.calls, faces)
    return Grade(outcome=outcome, expected=names, chosen=chosen, strict=strict)


def selection_rows(
    levels: Iterable[Level],
    tools: Sequence[ToolDescription],
    descriptions: str,
    confidence: float = 0.95,
) -> list[SelectionRow]:
    """One row per level that has selection items; `items` counts every attempt.

    TSA = right / turns with an expected call, over answered requests (a parse failure or a
    truncated answer is answered) and over all attempts. `tsa_strict` over answered requests whose
    task states arguments. `abstention` over answered requests that expect no call; a false call is
    no part of TSA. Intervals are Wilson's: items are independent.

    Raises AnalysisError for a scripted level: its calls are not the model's.
    """
    faces = Faces.of(tools, descriptions)
    rows = []
    for level in levels:
        grades = list(_graded(level, faces))
        if grades:
            rows.append(_row(level, descriptions, grades, confidence))
    return rows


def _outcome(expected: Counter[str], chosen: Counter[str]) -> Outcome:
    if expected == chosen:
        return Outcome.correct
    if not expected:
        return Outcome.false_call
    return Outcome.missed_call if chosen < expected else Outcome.wrong_tool


def _all_match(expected: Sequence[PlannedCall], calls: Sequence[ToolCall], faces: Faces) -> bool:
    """Whether a bipartite matching gives every expected call a call with its arguments."""
    fits = np.array([[_fits(plan, call, faces) for call in calls] for plan in expected])
    rows, columns = linear_sum_assignment(fits, maximize=True)
    return bool(fits[rows, columns].sum() == len(expected))


def _fits(plan: PlannedCall, call: ToolCall, faces: Faces) -> bool:
    if faces.tool(call) != plan.tool:
        return False
    if plan.arguments is None:
        return True
    parameters = faces.parameters.get(plan.tool, {})
    return same_arguments(plan.tool, parameters, plan.arguments, call.arguments)


def _graded(level: Level, faces: Faces) -> Iterator[tuple[Task, Grade]]:
    """Each selection episode of the level with its grade; without a record it never got through."""
    items = [episode for episode in level.episodes if episode.workload is Workload.selection]
    if any(item.control != "live" for item in items):
        raise AnalysisError(
            f"level={level.run}/{level.point.point}",
            "its records are scripted, so the model chose nothing that could be graded",
            "run with workload.control=live",
        )
    first: dict[EpisodeKey, LLMRecord] = {
        episode_key(record): record for record in level.llm if record.turn == 0
    }
    for item in items:
        task = level.tasks.get(item.task)
        if task is None:
            continue
        expected = task.turns[0].calls if task.turns else []
        record = first.get(episode_key(item))
        if record is None:
            names = tuple(call.tool for call in expected)
            asks = any(call.arguments is not None for call in expected)
            yield (
                task,
                Grade(
                    outcome=Outcome.transport_error,
                    expected=names,
                    chosen=None,
                    strict=False if asks else None,
                ),
            )
        else:
            yield task, grade(expected, record, faces)


def _row(
    level: Level, descriptions: str, grades: list[tuple[Task, Grade]], confidence: float
) -> SelectionRow:
    answered = [g for _, g in grades if g.outcome is not Outcome.transport_error]
    counts = Counter(g.outcome.value for _, g in grades)
    strata: defaultdict[str, list[Grade]] = defaultdict(list)
    for task, one in grades:
        if one.expected and one.outcome is not Outcome.transport_error:
            strata[task.stratum].append(one)
    strict = [g.strict for g in answered if g.strict is not None]
    return SelectionRow(
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        descriptions=descriptions,
        items=len(grades),
        tsa=_share([g for g in answered if g.expected], confidence),
        tsa_attempts=_share([g for _, g in grades if g.expected], confidence),
        tsa_strict=wilson(sum(strict), len(strict), confidence),
        abstention=_share([g for g in answered if not g.expected], confidence),
        outcomes={outcome.value: counts[outcome.value] for outcome in Outcome},
        confusion=_confusion(g for _, g in grades),
        by_stratum={name: _share(strata[name], confidence) for name in sorted(strata)},
    )


def _share(grades: Sequence[Grade], confidence: float) -> Interval:
    right = sum(one.outcome is Outcome.correct for one in grades)
    return wilson(right, len(grades), confidence)


def _confusion(grades: Iterable[Grade]) -> dict[str, dict[str, int]]:
    """Expected against chosen, readable answers to items with at most one expected call."""
    table: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in grades:
        if one.chosen is None or len(one.expected) > 1:
            continue
        kinds = set(one.chosen)
        chosen = kinds.pop() if len(kinds) == 1 else (OTHER if kinds else NONE)
        table[one.expected[0] if one.expected else NONE][chosen] += 1
    return {expected: dict(sorted(table[expected].items())) for expected in sorted(table)}
