"""Verdicts: does a level meet its objectives, and may the numbers be believed?

methods.md section 5. Of one level:

* An objective is `passed` when its one-sided bound at `slo.confidence` lies on the right side of
  the SLO's bound, `failed` when the other one lies on the wrong side, else `undecided`. A level
  passes only if every objective does (an intersection-union test, so no correction is needed);
  which ones failed is corrected by Holm over the objectives of the level.
* Quantiles: time blocks of whole episodes on the exceedance indicator (`stats.clusters`).
  Rates: Clopper-Pearson on the number of distinct items, because the same question asked twice at
  temperature 0 is one observation; the error rate on episodes.
* Every attempt counts: a call or an episode that failed, was cut, or never gave an answer lies
  beyond every bound. A value that cannot be had from a good answer (a collapsed stream, TPOT of
  one token) is left out and counted.
* Gates say whether the numbers may be believed. One that trips makes the level not valid, and
  every objective undecided. One that cannot be checked says why, and does not. What should be
  known and is not (client CPU, lag) trips: gates fail closed.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from scipy import stats

from bench.episode import Workload
from bench.fit.level import Level
from bench.quality.selection import AnswerRow, SelectionRow
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.scenario import QUANTILE_METRICS, Direction, Objective, Slo
from bench.stats.clusters import MIN_EXCEEDANCES, QuantileBounds, quantile_bounds

NEVER = 1e12  # seconds: stands for "did not happen"; beyond every bound
UNBOUNDED = 1e9  # what lies above it is shown as None
MIN_SERVER_REQUESTS = 200
OK = "ok"
NOT_CHECKED = "not checked: "

IdleTtft = Callable[[str, float, float], float | None]
"""(engine name, prompt tokens, cached tokens) -> TTFT of an idle engine in seconds, if known."""


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
    observed: float | None
    low: float | None
    high: float | None
    n: int
    needed: int | None  # further episodes until it could be decided
    verdict: str
    valid: bool
    infeasible: bool
    reasons: list[str]


class LevelVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-off of one level: passed only if every objective is (intersection-union)."""

    engine: str
    run: str
    users: int
    verdict: str
    valid: bool
    objectives: list[ObjectiveVerdict]
    gates: dict[str, str]  # gate -> "ok" or its reason


class Values(NamedTuple):
    """Values of one metric at one level, seconds, with the episode each belongs to.

    A failed attempt is there as NEVER. `missing` attempts gave no value, though they were good.
    """

    values: list[float]
    start_ns: list[int]
    episode: list[int]
    missing: int


class _Evidence(NamedTuple):
    """What is known about one objective. `bounds` gives (low, high) at a confidence.

    `reasons` not empty: the data do not allow a verdict. `growth`: how many times as many
    episodes would allow one, as far as the data say.
    """

    observed: float | None
    n: int
    bounds: Callable[[float], tuple[float | None, float | None]]
    reasons: list[str]
    notes: list[str]
    growth: float


def judge(
    levels: Sequence[Level],
    slo: Slo,
    selection: Sequence[SelectionRow],
    answers: Sequence[AnswerRow],
    idle: IdleTtft | None = None,
    planned_hit_rate: float | None = None,
) -> list[LevelVerdict]:
    """One verdict per level, in the order of `levels` (methods.md section 5).

    selection, answers: rows of the same levels, found by engine, run and users. idle: TTFT of an
    idle engine, for `infeasible`. planned_hit_rate: share of prompt tokens that the plan wants
    from the prefix cache; None: nothing was planned.
    """
    verdicts = []
    for level in levels:
        evidence = [
            _evidence(level, objective, slo, selection, answers) for objective in slo.objectives
        ]
        gates = check_gates(level, slo, planned_hit_rate)
        verdicts.append(_level_verdict(level, slo, evidence, gates, idle))
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
    evidence: list[_Evidence],
    gates: dict[str, str],
    idle: IdleTtft | None,
) -> LevelVerdict:
    tripped = [f"not_valid: {name}: {reason}" for name, reason in gates.items() if _trips(reason)]
    failed = _holm(slo, evidence)
    rows = [
        _objective_verdict(level, objective, slo.confidence, one, number in failed, tripped, idle)
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
        verdict=verdict,
        valid=not tripped,
        objectives=rows,
        gates=gates,
    )


def _objective_verdict(
    level: Level,
    objective: Objective,
    confidence: float,
    evidence: _Evidence,
    failed: bool,
    tripped: list[str],
    idle: IdleTtft | None,
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
    impossible = "" if verdict == "passed" else _infeasible(level, objective, idle)
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
        observed=_shown(evidence.observed),
        low=_shown(low),
        high=_shown(high),
        n=evidence.n,
        needed=needed,
        verdict=verdict,
        valid=not tripped,
        infeasible=bool(impossible),
        reasons=reasons + evidence.notes,
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


def _holm(slo: Slo, evidence: list[_Evidence]) -> set[int]:
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
    evidence: _Evidence,
    low: float | None,
    high: float | None,
) -> int | None:
    """Further episodes until it could be decided, if the estimate stays where it is.

    A bound's distance from the estimate falls with the square root of n. None: not estimable.
    """
    growth = evidence.growth
    if evidence.observed is None or evidence.n == 0:
        return None
    gap = abs(evidence.observed - objective.bound)
    side = high if evidence.observed <= objective.bound else low
    if side is not None and gap > 0:
        growth = max(growth, (abs(side - evidence.observed) / gap) ** 2)
    episodes = len(_members(level, objective.workload, objective.metric))
    if growth <= 1 or growth > UNBOUNDED or episodes == 0:
        return None
    return int(np.ceil(episodes * (growth - 1)))


def _infeasible(level: Level, objective: Objective, idle: IdleTtft | None) -> str:
    """Why the bound cannot be met by an idle engine, or nothing (methods.md section 4).

    An answer never ends before its first token, so the idle TTFT bounds the latency too.
    """
    if idle is None or objective.direction is not Direction.below:
        return ""
    if objective.metric not in ("ttft_s", "ttfat_s", "latency_s"):
        return ""
    if objective.quantile is None or objective.quantile < 0.5:
        return ""
    calls = _calls(level, objective)
    prompts = [call.prompt_tokens for call in calls if call.prompt_tokens is not None]
    cached = [call.cached_tokens or 0 for call in calls if call.prompt_tokens is not None]
    if not prompts:
        return ""
    prompt_tokens, cached_tokens = float(np.median(prompts)), float(np.median(cached))
    least_s = idle(level.engine, prompt_tokens, cached_tokens)
    if least_s is None or least_s <= objective.bound:
        return ""
    return (
        f"infeasible: an idle engine needs {least_s:.3g} s to the first token of the median "
        f"prompt ({prompt_tokens:.0f} tokens, {cached_tokens:.0f} of them cached), the bound is "
        f"{objective.bound:g} s"
    )


# Evidence


def _evidence(
    level: Level,
    objective: Objective,
    slo: Slo,
    selection: Sequence[SelectionRow],
    answers: Sequence[AnswerRow],
) -> _Evidence:
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
    of every tool execution (refused and unknown calls never reached a tool and do not count).
    workload: only its episodes; empty: all but selection.
    """
    members = _members(level, workload, metric)
    number = {key: index for index, key in enumerate(members)}
    found: list[tuple[tuple[int, int], float | None]] = []
    if metric in ("latency_s", "ttfat_s"):
        found = [(key, _episode_value(episode, metric)) for key, episode in members.items()]
    elif metric == "tool_s":
        found = [
            ((tool.user, tool.episode), _tool_value(tool))
            for tool in level.tools
            if tool.outcome not in (ToolOutcome.refused, ToolOutcome.unknown)
        ]
    else:
        found = [((call.user, call.episode), _call_value(call, metric)) for call in level.llm]
    kept = [(key, value) for key, value in found if key in number]
    good = [(key, value) for key, value in kept if value is not None]
    return Values(
        values=[value for _, value in good],
        start_ns=[members[key].scheduled_ns for key, _ in good],
        episode=[number[key] for key, _ in good],
        missing=len(kept) - len(good),
    )


def _quantile_evidence(level: Level, objective: Objective, slo: Slo) -> _Evidence:
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
    if objective.metric != "tpot_s" and share > slo.gate_error_rate:
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
    return _Evidence(at.value, at.n, bounds, reasons, notes, growth)


def _tsa_evidence(level: Level, slo: Slo, selection: Sequence[SelectionRow]) -> _Evidence:
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
    evidence = _rate_evidence(rows[0].tsa_attempts.value, items, share.n)
    if items >= slo.min_items:
        return evidence
    reason = f"n_too_small: {items} of {slo.min_items} distinct selection items"
    return evidence._replace(reasons=[reason], growth=slo.min_items / max(items, 1))


def _answer_evidence(level: Level, objective: Objective, answers: Sequence[AnswerRow]) -> _Evidence:
    """Right answers over the attempted gradable episodes; n counts distinct tasks."""
    workload = objective.workload or "all"
    rows = [row for row in answers if _same_level(row, level) and row.workload == workload]
    if not rows or rows[0].correct.value is None:
        return _nothing("no_data: no gradable episode was asked at this level")
    members = _members(level, objective.workload, objective.metric).values()
    asked = {
        episode.task
        for episode in members
        if episode.task not in level.tasks or level.tasks[episode.task].facts
    }
    share = rows[0].correct
    return _rate_evidence(
        rows[0].correct.value, min(share.n, len(asked)) if asked else share.n, share.n
    )


def _rate_evidence(rate: float, independent: int, n: int) -> _Evidence:
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
    return _Evidence(rate, independent, bounds, [], notes, 1.0)


def _nothing(reason: str) -> _Evidence:
    return _Evidence(None, 0, lambda _: (None, None), [reason], [], 1.0)


def _call_value(call: LLMRecord, metric: str) -> float | None:
    value = call.ttft_s if metric == "ttft_s" else call.tpot_s
    broken = call.outcome in (LLMOutcome.transport_error, LLMOutcome.stream_error, LLMOutcome.cut)
    return NEVER if value is None and broken and not call.collapsed else value


def _episode_value(episode: EpisodeRecord, metric: str) -> float | None:
    if episode.outcome not in (EpisodeOutcome.answered, EpisodeOutcome.chosen):
        return NEVER
    return episode.latency_s if metric == "latency_s" else episode.ttfat_s


def _tool_value(tool: ToolRecord) -> float | None:
    return NEVER if tool.outcome in (ToolOutcome.timeout, ToolOutcome.cut) else tool.latency_s


def _members(level: Level, workload: str, metric: str) -> dict[tuple[int, int], EpisodeRecord]:
    """Members by (user, episode): of one workload; "": all but selection; "tsa": selection."""
    wanted = "selection" if metric == "tsa" else workload
    return {
        (episode.user, episode.episode): episode
        for episode in level.episodes
        if (
            episode.workload.value == wanted
            if wanted not in ("", "all")
            else episode.workload is not Workload.selection
        )
    }


def _calls(level: Level, objective: Objective) -> list[LLMRecord]:
    members = _members(level, objective.workload, objective.metric)
    return [call for call in level.llm if (call.user, call.episode) in members]


def _same_level(row: SelectionRow | AnswerRow, level: Level) -> bool:
    return (row.engine, row.run, row.users) == (level.engine, level.run, level.users)


def count_errors(level: Level, workload: str = "") -> tuple[int, int]:
    """(episodes in error, episodes attempted). workload: "": every member; "all": no selection.

    An error is an episode that was cut, or failed because a model call got no whole answer
    (transport or stream). What the model said wrongly (an unparseable or truncated call) is
    quality, counted in TSA and in the answer rate.
    """
    last: dict[tuple[int, int], LLMRecord] = {}
    for call in level.llm:
        key = (call.user, call.episode)
        if key not in last or call.turn >= last[key].turn:
            last[key] = call
    errors = attempts = 0
    for episode in level.episodes:
        if workload == "all" and episode.workload is Workload.selection:
            continue
        if workload not in ("", "all", episode.workload.value):
            continue
        attempts += 1
        call_made = last.get((episode.user, episode.episode))
        said = call_made is not None and call_made.outcome in (
            LLMOutcome.parse_failure,
            LLMOutcome.truncated,
        )
        broken = episode.outcome is EpisodeOutcome.failed and not said
        errors += broken or episode.outcome is EpisodeOutcome.cut
    return errors, attempts


# Gates


def check_gates(level: Level, slo: Slo, planned_hit_rate: float | None = None) -> dict[str, str]:
    """Every gate of a level: "ok", "not checked: why", or "code: sentence" when it trips."""
    return {
        "complete": gate_complete(level),
        "issued_equals_scheduled": gate_issued(level),
        "client_cpu": gate_client_cpu(level, slo),
        "lag": gate_lag(level, slo),
        "error_rate": gate_error_rate(level, slo),
        "steady_state": gate_steady_state(level),
        "server_agreement": gate_server_agreement(level, slo),
        "cache_hits": gate_cache_hits(level, slo, planned_hit_rate),
        "self_test": gate_self_test(),
    }


def _trips(reason: str) -> bool:
    return reason != OK and not reason.startswith(NOT_CHECKED)


def gate_complete(level: Level) -> str:
    """The point ended by itself, without an error, and every member left its record."""
    if level.point.error:
        return f"point_error: the point ended with: {level.point.error}"
    return (
        OK
        if level.complete
        else "incomplete: the point was cut short, or records of it are missing"
    )


def gate_issued(level: Level) -> str:
    """Every episode that was scheduled left a record."""
    if level.scheduled == level.attempted:
        return OK
    return (
        f"issued_not_scheduled: {level.scheduled} members were scheduled, {level.attempted} "
        "recorded"
    )


def gate_client_cpu(level: Level, slo: Slo) -> str:
    """The measuring client was not the bottleneck (share of one core)."""
    used = level.point.client_cpu
    if used is None:
        return "client_cpu_unknown: the client's CPU time was not recorded"
    if used <= slo.gate_client_cpu:
        return OK
    limit = slo.gate_client_cpu
    return f"client_cpu_high: the client used {used:.0%} of a core, {limit:.0%} is the limit"


def gate_lag(level: Level, slo: Slo) -> str:
    """Requests were sent when the plan wanted them (p99 of sent - scheduled)."""
    lags_s = [call.lag_s for call in level.llm if call.lag_s is not None]
    if not lags_s:
        return "lag_unknown: no model call has both stamps"
    lag_s = float(np.quantile(lags_s, 0.99))
    if lag_s <= slo.gate_lag_s_p99:
        return OK
    return (
        f"lag_high: p99 of the schedule lag is {lag_s:.4f} s, {slo.gate_lag_s_p99:g} s is the limit"
    )


def gate_error_rate(level: Level, slo: Slo) -> str:
    """Errors over every attempt, selection items included (see `count_errors`)."""
    errors, attempts = count_errors(level)
    if attempts == 0:
        return "no_members: no episode is a member of this level"
    if errors <= slo.gate_error_rate * attempts:
        return OK
    return (
        f"error_rate_high: {errors} of {attempts} episodes ended in an error "
        f"({errors / attempts:.1%}), {slo.gate_error_rate:.1%} is the limit"
    )


def gate_steady_state(level: Level) -> str:
    """MSER-5 found a warm-up that ends within the first half."""
    if level.settled:
        return OK
    why = level.unsettled or "more than half of the point would have to be cut as warm-up"
    return f"not_settled: no steady state was found ({why})"


def gate_self_test() -> str:
    """The load lies within what the self-test proved; there is no self-test record yet."""
    return NOT_CHECKED + "no self-test record says what load this client can carry"


def gate_cache_hits(level: Level, slo: Slo, planned: float | None) -> str:
    """The server's prefix cache gave what the plan wanted (share of prompt tokens)."""
    if planned is None:
        return NOT_CHECKED + "no hit rate was planned for this level"
    scrapes = [
        (scrape.prefix_hits, scrape.prefix_queries)
        for scrape in sorted(level.engine_samples, key=lambda scrape: scrape.ns)
    ]
    known = [(hits, queries) for hits, queries in scrapes if hits is not None and queries]
    if len(known) < 2 or known[-1][1] <= known[0][1]:
        return NOT_CHECKED + "the engine shows no prefix-cache counters"
    rate = (known[-1][0] - known[0][0]) / (known[-1][1] - known[0][1])
    if abs(rate - planned) <= slo.gate_hit_rate_gap:
        return OK
    return (
        f"cache_hits_off: the prefix cache gave {rate:.3f} of the tokens, {planned:.3f} was planned"
    )


def gate_server_agreement(level: Level, slo: Slo) -> str:
    """The server's sum of request times equals the client's within the gate (`server_gap`)."""
    compared = _compare_with_server(level)
    if isinstance(compared, str):
        return NOT_CHECKED + compared
    gap = compared.gap
    if gap <= slo.gate_server_gap:
        return OK
    return (
        f"server_disagrees: the server counts {compared.server_s:.1f} s of requests, the client "
        f"{compared.client_s:.1f} s, {gap:.1%} apart, {slo.gate_server_gap:.0%} is the limit"
    )


def server_gap(level: Level) -> float | None:
    """|server - client| / client of the summed request times; None when they cannot be compared.

    Compared between two scrapes between which every request that ended is a member's: after each
    user's first member began and before any user's last one ended (the whole point when nothing
    was cut). The server adds a request to `e2e_request_latency_seconds` when it ends. At least
    200 requests are needed.
    """
    compared = _compare_with_server(level)
    return None if isinstance(compared, str) else compared.gap


class _Compared(NamedTuple):
    server_s: float
    client_s: float

    @property
    def gap(self) -> float:
        return abs(self.server_s - self.client_s) / self.client_s


def _compare_with_server(level: Level) -> _Compared | str:
    """Both sums of request times, or why there are none."""
    window = _member_window(level)
    if window is None:
        return "there is no time in which every request is a member's"
    scrapes = [
        (scrape.ns, scrape.e2e_sum_s)
        for scrape in sorted(level.engine_samples, key=lambda scrape: scrape.ns)
        if window[0] <= scrape.ns <= window[1]
    ]
    known = [(ns, total_s) for ns, total_s in scrapes if total_s is not None]
    if len(known) < 2:
        return "fewer than two scrapes of the engine's request times in the window"
    (first_ns, first_s), (last_ns, last_s) = known[0], known[-1]
    latencies_s = [
        call.latency_s
        for call in level.llm
        if call.latency_s is not None
        and call.done_ns is not None
        and first_ns < call.done_ns <= last_ns
    ]
    if len(latencies_s) < MIN_SERVER_REQUESTS:
        return f"{len(latencies_s)} requests between two scrapes, {MIN_SERVER_REQUESTS} are needed"
    return _Compared(last_s - first_s, sum(latencies_s))


def _member_window(level: Level) -> tuple[float, float] | None:
    """(from, to) in ns between which only members' requests end; None if there is no such time."""
    begin: dict[int, float] = {}
    end: dict[int, float] = defaultdict(float)
    for episode in level.episodes:
        begin[episode.user] = min(begin.get(episode.user, np.inf), episode.started_ns)
    for call in level.llm:
        end[call.user] = max(end[call.user], _last_stamp(call))
    first, last = -np.inf, np.inf
    if level.warmup > 0 or level.tail > 0:
        if len(begin) < level.users or len(end) < level.users:
            return None
        first = max(begin.values()) if level.warmup > 0 else first
        last = min(end.values()) if level.tail > 0 else last
    return (first, last) if first < last else None


def _last_stamp(call: LLMRecord) -> float:
    stamps: Iterable[int | None] = (call.done_ns, call.last_delta_ns, call.sent_ns)
    return float(next((stamp for stamp in stamps if stamp is not None), call.scheduled_ns))


def _shown(value: float | None) -> float | None:
    return None if value is None or abs(value) > UNBOUNDED else value


def _number(value: float | None, missing: str) -> str:
    shown = _shown(value)
    return missing if shown is None else f"{shown:.4g}"
