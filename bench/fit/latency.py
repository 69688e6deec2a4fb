"""Latency tables of a level: quantiles with intervals, the critical path of an episode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from bench.episode import Workload
from bench.fit.level import EpisodeKey, Level, by_episode, calls_tool, episode_key
from bench.record import (
    NS_PER_S,
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.stats.clusters import clustered_interval
from bench.stats.interval import Interval

ALL = "all"
PARTS = ("client_wait", "ttft", "call_decode", "tools", "answer_decode")
PATH_TOLERANCE_S = 1e-6


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles of one metric at one level for one workload ("all": every one but selection)."""

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    workload: str
    metric: str  # ttft_s.call | ttft_s.answer | tpot_s | latency_s | ttfat_s | tool_s.sql_query ...
    n: int
    missing: int  # attempts without this metric
    p50: Interval
    p95: Interval
    p99: Interval


class PathRow(msgspec.Struct, frozen=True, kw_only=True):
    """Mean seconds of each part of the answered episodes; the parts sum to the whole.

    Parts, in order: client_wait, ttft, call_decode, tools, answer_decode.
    `turns`: the same parts per turn, for the waterfall.
    """

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    workload: str
    n: int
    total_s: float
    parts_s: dict[str, float]
    shares: dict[str, float]
    turns: list[dict[str, float]]


class TurnGrowth(msgspec.Struct, frozen=True, kw_only=True):
    """TTFT by turn of the episode: how the growing prompt shows."""

    engine: str
    users: int
    rate_per_s: float | None = None
    turn: int
    n: int
    prompt_tokens_p50: float
    uncached_tokens_p50: float | None  # None: the engine did not report it for every call
    ttft_s_p50: Interval


class Sample(msgspec.Struct):
    """The attempts of one metric: known values (seconds) with episode and start, and missing ones.

    `start_ns` is the episode's, so that time blocks hold whole episodes.
    """

    values: list[float] = []
    episodes: list[int] = []
    start_ns: list[int] = []
    missing: int = 0

    def add(self, value: float | None, episode: int, start_ns: int) -> None:
        """Take one attempt; None counts as missing."""
        if value is None:
            self.missing += 1
        else:
            self.values.append(value)
            self.episodes.append(episode)
            self.start_ns.append(start_ns)

    def interval(self, q: float, confidence: float) -> Interval:
        """The q-quantile with two-sided bounds that allow for dependence (stats.clusters)."""
        return clustered_interval(self.start_ns, self.episodes, self.values, q, confidence)


class _Episode(NamedTuple):
    number: int
    start_ns: int
    workload: Workload | None


def samples_of(level: Level) -> dict[str, dict[str, Sample]]:
    """Workload -> metric -> Sample of one level; workload "all" is every one but selection.

    Metrics, all in seconds: ttft_s.call (turns that call a tool) and ttft_s.answer (completions
    without a call), of calls that ended or were cut by max_tokens; tpot_s of the same; latency_s
    and ttfat_s of episodes; tool_s.<tool> of executions that ended well, each attempt for itself.
    Missing counts the attempts without the metric: a model call that failed is missing from
    every metric of its turn, because its kind is not known.
    """
    found: defaultdict[str, defaultdict[str, Sample]] = defaultdict(lambda: defaultdict(Sample))
    known = _episodes_of(level)

    def add(metric: str, value: float | None, key: EpisodeKey) -> None:
        episode = known[key]
        workload = episode.workload
        if workload is not Workload.selection:
            found[ALL][metric].add(value, episode.number, episode.start_ns)
        if workload is not None:
            found[workload.value][metric].add(value, episode.number, episode.start_ns)

    for record in level.llm:
        key = episode_key(record)
        if record.outcome in (LLMOutcome.ok, LLMOutcome.truncated):
            add("ttft_s.call" if calls_tool(record) else "ttft_s.answer", record.ttft_s, key)
            # One token has no time per token: not missing, undefined.
            if record.output_tokens != 1:
                add("tpot_s", record.tpot_s, key)
        else:
            for metric in ("ttft_s.call", "ttft_s.answer", "tpot_s"):
                add(metric, None, key)
    for tool in level.tools:
        ok = tool.outcome is ToolOutcome.ok
        add(f"tool_s.{tool.tool}", tool.latency_s if ok else None, episode_key(tool))
    for episode in level.episodes:
        add("latency_s", episode.latency_s, episode_key(episode))
        if episode.workload is not Workload.selection:
            add("ttfat_s", episode.ttfat_s, episode_key(episode))
    return {workload: dict(metrics) for workload, metrics in found.items()}


def latency_rows(level: Level, confidence: float = 0.95) -> list[LatencyRow]:
    """p50, p95, p99 of each metric of `samples_of`, for "all" and each workload present."""
    rows = []
    for workload, metrics in sorted(samples_of(level).items()):
        for metric, sample in sorted(metrics.items()):
            p50, p95, p99 = (sample.interval(q, confidence) for q in (0.5, 0.95, 0.99))
            rows.append(
                LatencyRow(
                    engine=level.engine,
                    run=level.run,
                    users=level.users,
                    point=level.point.point,
                    rate_per_s=level.point.rate_per_s,
                    workload=workload,
                    metric=metric,
                    n=len(sample.values),
                    missing=sample.missing,
                    p50=p50,
                    p95=p95,
                    p99=p99,
                )
            )
    return rows


def path_rows(level: Level) -> list[PathRow]:
    """The mean critical path of the answered episodes of each workload, seconds.

    An episode is walked in time: each model call from sent to done (TTFT, then decode; the last
    call decodes the answer until its last delta), each turn's tools from the first call sent to
    the last observation. What lies between is client wait. Episodes with a stamp missing or with
    parts that overlap are left out, so the parts of those left sum to the whole.
    `turns` are divided by the same number of episodes: they sum to the parts.
    """
    llm = by_episode(level.llm)
    tools = by_episode(level.tools)
    paths: defaultdict[str, list[list[dict[str, float]]]] = defaultdict(list)
    totals: defaultdict[str, float] = defaultdict(float)
    for episode in level.episodes:
        if episode.outcome is not EpisodeOutcome.answered or episode.latency_s is None:
            continue
        key = episode_key(episode)
        path = critical_path(episode, llm.get(key, []), tools.get(key, []))
        if path is not None:
            paths[episode.workload.value].append(path)
            totals[episode.workload.value] += episode.latency_s
    return [
        _path_row(level, workload, totals[workload], paths[workload]) for workload in sorted(paths)
    ]


def critical_path(
    episode: EpisodeRecord, llm: Sequence[LLMRecord], tools: Sequence[ToolRecord]
) -> list[dict[str, float]] | None:
    """Seconds per part (PARTS) and turn of one answered episode; None when it cannot be told.

    The parts sum to done - scheduled within a microsecond, else None.
    """
    if episode.done_ns is None or not llm:
        return None
    segments = list(_segments(episode, llm, tools))
    turns = [dict.fromkeys(PARTS, 0.0) for _ in range(max(s.turn for s in segments) + 1)]
    now_ns = episode.scheduled_ns
    for segment in sorted(segments, key=lambda segment: segment.start_ns or 0):
        if segment.start_ns is None or segment.end_ns is None:
            return None
        wait_s = (segment.start_ns - now_ns) / NS_PER_S
        if wait_s < -PATH_TOLERANCE_S or segment.end_ns < segment.start_ns:
            return None
        turn = turns[segment.turn]
        turn["client_wait"] += wait_s
        turn[segment.part] += (segment.end_ns - segment.start_ns) / NS_PER_S
        now_ns = segment.end_ns
    total_s = (episode.done_ns - episode.scheduled_ns) / NS_PER_S
    whole_s = sum(sum(turn.values()) for turn in turns)
    return turns if abs(whole_s - total_s) < PATH_TOLERANCE_S else None


def growth(levels: Iterable[Level], confidence: float = 0.95) -> list[TurnGrowth]:
    """TTFT by turn for each engine and number of users (or rate): how the growing prompt shows.

    Only turns that call a tool, so that the kinds of section 1 are not mixed: a server withholds
    a call until its name is complete, an answer it does not. Selection items are left out.
    Token medians are over the same calls as the TTFT.
    """
    found: defaultdict[tuple[str, int, float, int], list[tuple[LLMRecord, int, int]]] = defaultdict(
        list
    )
    for number, level in enumerate(levels):
        known = _episodes_of(level)
        for record in level.llm:
            ended = record.outcome in (LLMOutcome.ok, LLMOutcome.truncated)
            if ended and calls_tool(record) and record.workload is not Workload.selection:
                if record.ttft_s is None or record.prompt_tokens is None:
                    continue
                episode = known[episode_key(record)]
                # Two levels of one engine and load: their episodes are numbered apart.
                identity = number << 40 | episode.number
                found[level.engine, level.users, level.point.rate_per_s or 0.0, record.turn].append(
                    (record, identity, episode.start_ns)
                )
    return [_growth_row(*key, found[key], confidence) for key in sorted(found)]


class _Segment(NamedTuple):
    part: str
    turn: int
    start_ns: int | None
    end_ns: int | None


def _segments(
    episode: EpisodeRecord, llm: Sequence[LLMRecord], tools: Sequence[ToolRecord]
) -> Iterator[_Segment]:
    last = max(llm, key=lambda record: record.turn)
    for record in llm:
        yield _Segment("ttft", record.turn, record.sent_ns, record.first_delta_ns)
        answers = record is last
        yield _Segment(
            "answer_decode" if answers else "call_decode",
            record.turn,
            record.first_delta_ns,
            episode.done_ns if answers else record.done_ns,
        )
    groups: defaultdict[int, list[ToolRecord]] = defaultdict(list)
    for tool in tools:
        groups[tool.turn].append(tool)
    for turn, group in groups.items():
        ends = [tool.done_ns for tool in group]
        done = [ns for ns in ends if ns is not None]
        yield _Segment(
            "tools",
            turn,
            min(tool.sent_ns for tool in group),
            max(done) if len(done) == len(ends) else None,
        )


def _path_row(
    level: Level, workload: str, total_s: float, paths: list[list[dict[str, float]]]
) -> PathRow:
    n = len(paths)
    turns = [dict.fromkeys(PARTS, 0.0) for _ in range(max(map(len, paths)))]
    for path in paths:
        for mean, turn in zip(turns, path, strict=False):
            for part in PARTS:
                mean[part] += turn[part] / n
    parts = {part: sum(turn[part] for turn in turns) for part in PARTS}
    return PathRow(
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        workload=workload,
        n=n,
        total_s=total_s / n,
        parts_s=parts,
        shares={part: seconds * n / total_s for part, seconds in parts.items()},
        turns=turns,
    )


def _growth_row(
    engine: str,
    users: int,
    rate_per_s: float,
    turn: int,
    calls: list[tuple[LLMRecord, int, int]],
    confidence: float,
) -> TurnGrowth:
    records = [record for record, _, _ in calls]
    uncached = [r.uncached_tokens for r in records if r.uncached_tokens is not None]
    return TurnGrowth(
        engine=engine,
        users=users,
        rate_per_s=rate_per_s or None,
        turn=turn,
        n=len(calls),
        prompt_tokens_p50=float(np.median([record.prompt_tokens or 0 for record in records])),
        uncached_tokens_p50=float(np.median(uncached)) if len(uncached) == len(records) else None,
        ttft_s_p50=clustered_interval(
            [start_ns for _, _, start_ns in calls],
            [identity for _, identity, _ in calls],
            [record.ttft_s or 0.0 for record in records],
            0.5,
            confidence,
        ),
    )


def _episodes_of(level: Level) -> dict[EpisodeKey, _Episode]:
    """Number, start and workload of each episode, also of those whose record is missing."""
    known: dict[EpisodeKey, _Episode] = {}
    for episode in level.episodes:
        key = episode_key(episode)
        known[key] = _Episode(len(known), episode.scheduled_ns, episode.workload)
    for record in level.llm:
        key = episode_key(record)
        if key not in known:
            known[key] = _Episode(len(known), record.scheduled_ns, record.workload)
    for tool in level.tools:
        key = episode_key(tool)
        if key not in known:
            known[key] = _Episode(len(known), tool.sent_ns, None)
    return known
