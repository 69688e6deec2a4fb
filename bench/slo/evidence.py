"""Evidence: what the records of a level say about one objective, and how sure that is.

Values of a quantile metric, bounded by time blocks of whole episodes; rates, bounded by
Clopper-Pearson on distinct items (methods.md section 5).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from bench.episode import Workload
from bench.fit.level import EpisodeKey, Level, episode_key
from bench.quality.selection import AnswerRow, SelectionRow
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.scenario import QUANTILE_METRICS, Objective, Slo
from bench.stats.clusters import MIN_EXCEEDANCES, QuantileBounds, quantile_bounds

NEVER = 1e12  # seconds: stands for "did not happen"; beyond every bound


class Values(NamedTuple):
    """Values of one metric at one level, seconds, with the episode each belongs to.

    A failed attempt is there as NEVER. `missing` attempts gave no value, though they were good.
    """

    values: list[float]
    start_ns: list[int]
    episode: list[int]
    missing: int


class Evidence(NamedTuple):
    """What is known about one objective. `bounds` gives (low, high) at a confidence.

    `reasons` not empty: the data do not allow a verdict. `growth`: how many times as many
    episodes would allow one, as far as the data say. `available`: distinct tasks that the material
    holds and that were not asked, for a rate that counts distinct tasks.
    """

    observed: float | None
    n: int
    bounds: Callable[[float], tuple[float | None, float | None]]
    reasons: list[str]
    notes: list[str]
    growth: float
    available: int | None = None


def evidence_of(
    level: Level,
    objective: Objective,
    slo: Slo,
    selection: Sequence[SelectionRow],
    answers: Sequence[AnswerRow],
) -> Evidence:
    """What a level says about one objective; selection, answers: rows of this and other levels."""
    if objective.metric in QUANTILE_METRICS:
        return _quantile_evidence(level, objective, slo)
    if objective.metric == "tsa":
        return _tsa_evidence(level, slo, selection)
    if objective.metric == "answer_rate":
        return _answer_evidence(level, objective, answers)
    errors, attempts = count_errors(level, objective.workload or "all")
    if attempts == 0:
        return _nothing("no_data: there is no episode of this workload")
    return _rate_evidence(errors / attempts, attempts, attempts)


def metric_values(level: Level, metric: str, workload: str = "") -> Values:
    """The values of a quantile metric at a level, seconds.

    metric: ttft_s and tpot_s of every model call, latency_s and ttfat_s of every episode, tool_s
    of every tool execution: only one that ended well took a time, any other that reached the tool
    is a failed attempt (refused and unknown calls never did: the model's fault, not counted).
    A call of one output token has no time per token, and is not counted in tpot_s.
    workload: only its episodes; empty: all but selection.
    """
    members = members_of(level, workload, metric)
    number = {key: index for index, key in enumerate(members)}
    found: list[tuple[EpisodeKey, float | None]] = []
    if metric in ("latency_s", "ttfat_s"):
        found = [(key, _episode_value(episode, metric)) for key, episode in members.items()]
    elif metric == "tool_s":
        found = [
            (episode_key(tool), _tool_value(tool))
            for tool in level.tools
            if tool.outcome not in (ToolOutcome.refused, ToolOutcome.unknown)
        ]
    else:
        found = [
            (episode_key(call), _call_value(call, metric))
            for call in level.llm
            if not (metric == "tpot_s" and call.output_tokens == 1)
        ]
    kept = [(key, value) for key, value in found if key in number]
    good = [(key, value) for key, value in kept if value is not None]
    return Values(
        values=[value for _, value in good],
        start_ns=[members[key].scheduled_ns for key, _ in good],
        episode=[number[key] for key, _ in good],
        missing=len(kept) - len(good),
    )


def count_errors(level: Level, workload: str = "") -> tuple[int, int]:
    """(episodes in error, episodes issued). workload: "": every one; "all": no selection.

    Everything that was issued at the point counts, the warm-up too: an engine that fails while it
    warms up fails.

    An error is an episode that was cut, or failed because a model call got no whole answer
    (transport or stream). What the model said wrongly (an unparseable or truncated call) is
    quality, counted in TSA and in the answer rate.
    """
    last: dict[EpisodeKey, LLMRecord] = {}
    for call in [*level.cut.llm, *level.llm]:
        key = episode_key(call)
        if key not in last or call.turn >= last[key].turn:
            last[key] = call
    errors = attempts = 0
    for episode in [*level.cut.episodes, *level.episodes]:
        if workload == "all" and episode.workload is Workload.selection:
            continue
        if workload not in ("", "all", episode.workload.value):
            continue
        attempts += 1
        call_made = last.get(episode_key(episode))
        said = call_made is not None and call_made.outcome in (
            LLMOutcome.parse_failure,
            LLMOutcome.truncated,
        )
        broken = episode.outcome is EpisodeOutcome.failed and not said
        errors += broken or episode.outcome is EpisodeOutcome.cut
    return errors, attempts


def members_of(level: Level, workload: str, metric: str) -> dict[EpisodeKey, EpisodeRecord]:
    """Members by (user, episode): of one workload; "": all but selection; "tsa": selection."""
    wanted = "selection" if metric == "tsa" else workload
    return {
        episode_key(episode): episode
        for episode in level.episodes
        if (
            episode.workload.value == wanted
            if wanted not in ("", "all")
            else episode.workload is not Workload.selection
        )
    }


def _quantile_evidence(level: Level, objective: Objective, slo: Slo) -> Evidence:
    found = metric_values(level, objective.metric, objective.workload)
    q = objective.quantile
    if q is None or not found.values:
        return _nothing(f"no_data: no member gave {objective.metric}")

    @functools.cache
    def at_confidence(confidence: float) -> QuantileBounds:
        return quantile_bounds(
            found.start_ns, found.episode, found.values, q, confidence, slo.min_blocks
        )

    def bounds(confidence: float) -> tuple[float | None, float | None]:
        return at_confidence(confidence).low, at_confidence(confidence).high

    at = at_confidence(slo.confidence)
    reasons = [] if at.decidable else [at.reason]
    notes = []
    share = found.missing / (found.missing + len(found.values))
    if share > slo.gate_error_rate:
        reasons.append(
            f"values_missing: {found.missing} good attempts gave no {objective.metric}, "
            f"{share:.1%} of all"
        )
    never = sum(value >= NEVER for value in found.values)
    if never:
        notes.append(f"failures_counted: {never} failed attempts lie beyond every bound")
    growth = slo.min_blocks / max(at.episodes, 1)
    if at.n_eff > 0:
        growth = max(growth, MIN_EXCEEDANCES / (at.n_eff * (1 - q)))
    return Evidence(at.value, at.n, bounds, reasons, notes, growth)


def _tsa_evidence(level: Level, slo: Slo, selection: Sequence[SelectionRow]) -> Evidence:
    """TSA over all attempts; n counts distinct items that expect a call."""
    rows = [row for row in selection if _same_level(row, level)]
    if not rows or rows[0].tsa_attempts.value is None:
        return _nothing("no_data: no selection item was asked at this level")
    asked = {
        episode.task
        for episode in level.episodes
        if episode.workload is Workload.selection
        and (episode.task not in level.tasks or level.tasks[episode.task].turns)
    }
    share = rows[0].tsa_attempts
    items = min(share.n, len(asked)) if asked else share.n
    known = sum(bool(t.workload is Workload.selection and t.turns) for t in level.tasks.values())
    evidence = _rate_evidence(rows[0].tsa_attempts.value, items, share.n)
    evidence = evidence._replace(available=max(known - items, 0))
    if items >= slo.min_items:
        return evidence
    reason = f"n_too_small: {items} of {slo.min_items} distinct selection items"
    return evidence._replace(reasons=[reason], growth=slo.min_items / max(items, 1))


def _answer_evidence(level: Level, objective: Objective, answers: Sequence[AnswerRow]) -> Evidence:
    """Right answers over the attempted gradable episodes; n counts distinct tasks."""
    workload = objective.workload or "all"
    rows = [row for row in answers if _same_level(row, level) and row.workload == workload]
    if not rows or rows[0].correct.value is None:
        return _nothing("no_data: no gradable episode was asked at this level")
    members = members_of(level, objective.workload, objective.metric).values()
    asked = {
        episode.task
        for episode in members
        if episode.task not in level.tasks or level.tasks[episode.task].facts
    }
    share = rows[0].correct
    tasks = min(share.n, len(asked)) if asked else share.n
    known = sum(
        bool(task.facts) and objective.workload in ("", task.workload.value)
        for task in level.tasks.values()
        if task.workload is not Workload.selection
    )
    evidence = _rate_evidence(rows[0].correct.value, tasks, share.n)
    return evidence._replace(available=max(known - tasks, 0))


def _rate_evidence(rate: float, independent: int, n: int) -> Evidence:
    """Clopper-Pearson bounds of a rate that rests on `independent` observations.

    The number of hits is taken down for the lower and up for the upper bound.
    """

    def bounds(confidence: float) -> tuple[float | None, float | None]:
        hits = rate * independent
        few, many = int(np.floor(hits + 1e-9)), int(np.ceil(hits - 1e-9))
        low = stats.beta.ppf(1 - confidence, few, independent - few + 1) if few > 0 else 0.0
        high = 1.0
        if many < independent:
            high = stats.beta.ppf(confidence, many + 1, independent - many)
        return float(low), float(high)

    notes = []
    if independent < n:
        notes.append(f"items_repeated: {n} attempts of {independent} distinct tasks count as those")
    return Evidence(rate, independent, bounds, [], notes, 1.0)


def _nothing(reason: str) -> Evidence:
    return Evidence(None, 0, lambda _: (None, None), [reason], [], 1.0)


def _call_value(call: LLMRecord, metric: str) -> float | None:
    value = call.ttft_s if metric == "ttft_s" else call.tpot_s
    broken = call.outcome in (LLMOutcome.transport_error, LLMOutcome.stream_error, LLMOutcome.cut)
    return NEVER if value is None and broken and not call.collapsed else value


def _episode_value(episode: EpisodeRecord, metric: str) -> float | None:
    if episode.outcome not in (EpisodeOutcome.answered, EpisodeOutcome.chosen):
        return NEVER
    return episode.latency_s if metric == "latency_s" else episode.ttfat_s


def _tool_value(tool: ToolRecord) -> float | None:
    return tool.latency_s if tool.outcome is ToolOutcome.ok else NEVER


def _same_level(row: SelectionRow | AnswerRow, level: Level) -> bool:
    same = (row.engine, row.run, row.users) == (level.engine, level.run, level.users)
    return same and row.point in ("", level.point.point)
