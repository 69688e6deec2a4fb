"""The seed's latency accounting beside the measured one (methods.md section 3).

Of one answered episode, in milliseconds:

    seed accounting = sum over tool turns (TTFT + tool time) + whole final call
    measured        = episode latency, from the scheduled start to the last delta of the answer
    omitted         = measured - seed accounting

Tool time of a turn = last observation - first call sent, so parallel calls count their maximum and
a retry counts in full. Whole final call = last delta - sent, its TTFT and its decode included. A
naive RAG episode retrieves before its only call: its accounting is retrieval + whole final call.
What is omitted is the decode of thoughts and calls, and the client's own waits. A row holds the
medians of the three quantities, each over the same episodes; the median of a difference is not
exactly the difference of medians.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from bench.episode import Workload
from bench.fit.level import Level, by_episode, episode_key
from bench.record import NS_PER_S, EpisodeRecord, LLMRecord, ToolRecord

MS_PER_S = 1e3

ROWS: Final = (
    Workload.naive_rag,
    Workload.react_1,
    Workload.react_2,
    Workload.react_3,
    Workload.parallel,
    Workload.web,
)

# A citation, not a setting: Llama-3.1-70B FP8 on 4 x H100 SXM, TP=4. Source: "Total latency by
# number of iterations" and "Comparison with a naive RAG" in the seed 000_def5d358b8822ad0.txt of
# ../shared/seeds (also ../shared/reference/published.json, seed_latency.episode_ms). For naive_rag
# and web the seed gives the total only.
STATED_EPISODE_MS: Final[dict[str, float]] = {
    "naive_rag": 300.0,
    "react_1": 500.0,
    "react_2": 800.0,
    "react_3": 1100.0,
    "parallel": 600.0,
    "web": 1500.0,
}


class AccountingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One workload: stated by the seed, counted its way, and measured (milliseconds, p50).

    `stated_ms` is None where the seed states nothing for this workload.
    `omitted_ms` is what the seed's accounting leaves out (decoding thought and call, client wait).
    """

    row: str
    engine: str
    users: int
    rate_per_s: float | None = None
    n: int
    stated_ms: float | None
    seed_accounting_ms: float
    measured_ms: float
    omitted_ms: float


class _Counted(NamedTuple):
    """One episode, milliseconds."""

    accounting_ms: float
    measured_ms: float


def accounting_rows(levels: Sequence[Level], stated: dict[str, float]) -> list[AccountingRow]:
    """One row per engine, users and workload of the seed's table, in that order.

    Levels of several runs with the same engine and users are pooled. Episodes that were not
    answered, or whose stamps do not give every part, are left out; a row without any episode is
    not made. `stated`: workload -> milliseconds, usually STATED_EPISODE_MS.
    """
    found: dict[tuple[str, int, float, Workload], list[_Counted]] = defaultdict(list)
    for level in levels:
        for workload, counted in _counted_episodes(level):
            rate_per_s = level.point.rate_per_s or 0.0
            found[level.engine, level.users, rate_per_s, workload].append(counted)
    order = {workload: number for number, workload in enumerate(ROWS)}
    keys = sorted(found, key=lambda key: (*key[:3], order[key[3]]))
    return [_row(*key, found[key], stated.get(key[3].value)) for key in keys]


def tools_time_s(tools: Iterable[ToolRecord]) -> float | None:
    """Tool time of one episode, seconds: the sum over its turns; None when a call never ended."""
    by_turn: defaultdict[int, list[ToolRecord]] = defaultdict(list)
    for tool in tools:
        by_turn[tool.turn].append(tool)
    spent_s = [tool_time_s(turn) for turn in by_turn.values()]
    known_s = [turn_s for turn_s in spent_s if turn_s is not None]
    return sum(known_s) if len(known_s) == len(spent_s) else None


def tool_time_s(tools: Iterable[ToolRecord]) -> float | None:
    """Tool time of one turn, seconds: last observation - first call sent (methods.md section 1).

    0.0 without any call; None when a call never ended.
    """
    sent_ns: list[int] = []
    done_ns: list[int] = []
    for tool in tools:
        if tool.done_ns is None:
            return None
        sent_ns.append(tool.sent_ns)
        done_ns.append(tool.done_ns)
    return (max(done_ns) - min(sent_ns)) / NS_PER_S if sent_ns else 0.0


def seed_accounting_s(calls: Sequence[LLMRecord], tools: Sequence[ToolRecord]) -> float | None:
    """The seed's latency of one answered episode, seconds; None when a part is not known.

    calls: its model calls; the last turn is the final call. tools: its tool executions.
    """
    if not calls:
        return None
    *earlier, final = sorted(calls, key=lambda call: call.turn)
    if final.sent_ns is None or final.last_delta_ns is None:
        return None
    total_s = (final.last_delta_ns - final.sent_ns) / NS_PER_S
    for call in earlier:
        if call.ttft_s is None:
            return None
        total_s += call.ttft_s
    spent_s = tools_time_s(tools)
    return None if spent_s is None else total_s + spent_s


def _counted_episodes(level: Level) -> Iterable[tuple[Workload, _Counted]]:
    calls, tools = by_episode(level.llm), by_episode(level.tools)
    for episode in level.episodes:
        key = episode_key(episode)
        counted = _count(episode, calls.get(key, []), tools.get(key, []))
        if counted is not None:
            yield episode.workload, counted


def _count(
    episode: EpisodeRecord, calls: Sequence[LLMRecord], tools: Sequence[ToolRecord]
) -> _Counted | None:
    if episode.workload not in ROWS:
        return None
    accounting_s = seed_accounting_s(calls, tools)
    if accounting_s is None or episode.latency_s is None:
        return None
    return _Counted(accounting_s * MS_PER_S, episode.latency_s * MS_PER_S)


def _row(
    engine: str,
    users: int,
    rate_per_s: float,
    workload: Workload,
    episodes: list[_Counted],
    stated_ms: float | None,
) -> AccountingRow:
    omitted_ms = [one.measured_ms - one.accounting_ms for one in episodes]
    return AccountingRow(
        row=workload.value,
        engine=engine,
        users=users,
        rate_per_s=rate_per_s or None,
        n=len(episodes),
        stated_ms=stated_ms,
        seed_accounting_ms=statistics.median(one.accounting_ms for one in episodes),
        measured_ms=statistics.median(one.measured_ms for one in episodes),
        omitted_ms=statistics.median(omitted_ms),
    )
