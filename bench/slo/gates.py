"""Gates: may the numbers of a level be believed?

Each gate says "ok", "not checked: why", or "code: sentence" when it trips. One that trips makes
the level not valid. What should be known and is not trips too: gates fail closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bench.fit.level import Level
from bench.record import NS_PER_S, LLMRecord, ToolOutcome
from bench.scenario import Slo
from bench.slo.evidence import count_errors

MIN_SERVER_REQUESTS = 200
OK = "ok"
NOT_CHECKED = "not checked: "


def check_gates(level: Level, slo: Slo, planned_hit_rate: float | None = None) -> dict[str, str]:
    """Every gate of a level: "ok", "not checked: why", or "code: sentence" when it trips."""
    return {
        "complete": gate_complete(level),
        "issued_equals_scheduled": gate_issued(level),
        "client_cpu": gate_client_cpu(level, slo),
        "lag": gate_lag(level, slo),
        "error_rate": gate_error_rate(level, slo),
        "tool_errors": gate_tool_errors(level, slo),
        "steady_state": gate_steady_state(level),
        "server_agreement": gate_server_agreement(level, slo),
        "cache_hits": gate_cache_hits(level, slo, planned_hit_rate),
        "self_test": gate_self_test(level),
    }


def trips(reason: str) -> bool:
    """True when a gate's answer makes the level not valid."""
    return reason != OK and not reason.startswith(NOT_CHECKED)


def gate_complete(level: Level) -> str:
    """The point ended by itself, without an error, and every member left its record."""
    if level.point.error:
        return f"point_error: the point ended with: {level.point.error}"
    why = level.incomplete or "the point was cut short, or records of it are missing"
    return OK if level.complete else f"incomplete: {why}"


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
    """Errors over everything issued, selection and warm-up included (see `count_errors`)."""
    errors, attempts = count_errors(level)
    if attempts == 0:
        return "no_members: no episode is a member of this level"
    if errors <= slo.gate_error_rate * attempts:
        return OK
    return (
        f"error_rate_high: {errors} of {attempts} episodes ended in an error "
        f"({errors / attempts:.1%}), {slo.gate_error_rate:.1%} is the limit"
    )


def gate_tool_errors(level: Level, slo: Slo) -> str:
    """Tools answered: a tool that fails at once makes an episode short and its prompts small.

    Over every execution that reached a tool, warm-up included; timeouts are failures too.
    """
    outcomes = [tool.outcome for tool in [*level.cut.tools, *level.tools]]
    failed = sum(one in (ToolOutcome.error, ToolOutcome.timeout) for one in outcomes)
    reached = failed + outcomes.count(ToolOutcome.ok)
    if failed <= slo.gate_tool_error_rate * reached:
        return OK
    return (
        f"tool_errors_high: {failed} of {reached} tool executions failed ({failed / reached:.1%}), "
        f"{slo.gate_tool_error_rate:.1%} is the limit (a query that the model wrote wrongly is "
        "among them; the table of errors tells)"
    )


def gate_steady_state(level: Level) -> str:
    """MSER-5 found a warm-up that ends within the first half."""
    if level.settled:
        return OK
    why = level.unsettled or "more than half of the point would have to be cut as warm-up"
    return f"not_settled: no steady state was found ({why})"


def gate_self_test(level: Level) -> str:
    """The load lies within what the self-test proved for prompts at least as long."""
    test = level.selftest
    if test is None:
        return NOT_CHECKED + "the run holds no self-test; run `bench selftest` before it"
    load = level_load(level)
    tested = [tokens for tokens in test.prompt_lengths if tokens >= load.prompt_tokens]
    if not tested:
        longest = max(test.prompt_lengths, default=0)
        return NOT_CHECKED + (
            f"prompts have up to {load.prompt_tokens:,.0f} tokens (p95), the self-test's "
            f"{longest:,} at most"
        )
    proved = test.largest(tested[0])
    if proved is None:
        return (
            f"self_test_failed: with prompts of {tested[0]:,} tokens the self-test carried no "
            "load on this machine"
        )
    if load.streams <= proved.streams and load.events_per_s <= proved.events_per_s:
        return OK
    return (
        f"above_self_test: {load.streams} streams and {load.events_per_s:,.0f} events/s, the "
        f"self-test proved {proved.streams} and {proved.events_per_s:,.0f}"
    )


class LevelLoad(NamedTuple):
    """What a level asked of the client: most streams at once, mean events/s, p95 of prompts."""

    streams: int
    events_per_s: float
    prompt_tokens: float


def level_load(level: Level) -> LevelLoad:
    """The load of a level's members. A prompt without a usage counts as none."""
    edges: list[tuple[int, int]] = []
    for call in level.llm:
        if call.sent_ns is not None:
            edges += [(call.sent_ns, 1), (int(_last_stamp(call)), -1)]
    streams = most = 0
    for _, step in sorted(edges):
        streams += step
        most = max(most, streams)
    prompts = [call.prompt_tokens for call in level.llm if call.prompt_tokens is not None]
    span_s = (max(edges)[0] - min(edges)[0]) / NS_PER_S if edges else 0.0
    events = sum(call.chunks for call in level.llm)
    return LevelLoad(
        streams=most,
        events_per_s=events / span_s if span_s > 0 else 0.0,
        prompt_tokens=float(np.quantile(prompts, 0.95)) if prompts else 0.0,
    )


def gate_cache_hits(level: Level, slo: Slo, planned: float | None) -> str:
    """The server's prefix cache gave what the plan wanted (share of prompt tokens)."""
    if planned is None:
        return NOT_CHECKED + "no hit rate is known from the plan of this level"
    scrapes = [
        (scrape.prefix_hits, scrape.prefix_queries)
        for scrape in sorted(level.engine_samples, key=lambda scrape: scrape.ns)
    ]
    known = [
        (hits, queries) for hits, queries in scrapes if hits is not None and queries is not None
    ]
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
    """(from, to) in ns between which only members' requests end; None if there is no such time.

    Arrivals of an open load do not follow one another, so there what is no member says it itself.
    """
    if level.point.rate_per_s is not None:
        after, until = level.warmup_ended_ns, level.tail_ended_ns
        window = (-np.inf if after is None else after, np.inf if until is None else until - 1)
        return window if window[0] < window[1] else None
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
