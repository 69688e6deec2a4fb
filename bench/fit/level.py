"""Level: the members of one load point after warm-up, the unit of all analysis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from typing import Protocol, TypeVar

import msgspec

from bench.episode import Task
from bench.proof import SelfTest
from bench.record import (
    NS_PER_S,
    EngineSample,
    EpisodeRecord,
    LLMRecord,
    PointKind,
    PointRecord,
    ScheduledRecord,
    ToolRecord,
)
from bench.run import Run
from bench.stats.steady import Steady, mser5

EpisodeKey = tuple[int, int]  # user, episode: unique within a point


class WarmUp(msgspec.Struct, kw_only=True):
    """Records of the episodes that were cut off at the front of a level.

    No latency is taken from them; their errors count, and what of them ended later did so in the
    window.
    """

    episodes: list[EpisodeRecord] = []
    llm: list[LLMRecord] = []
    tools: list[ToolRecord] = []


class Level(msgspec.Struct, kw_only=True):
    """Records of the episodes that started in [start_ns, end_ns) of one point of one run.

    `attempted` counts every member, whatever its outcome; `tail` the episodes that only held the
    load. `settled` is False when MSER-5 would cut more than half, or has too few values to say;
    `unsettled` then tells which. `incomplete` says why `complete` is False.
    """

    engine: str
    run: str
    point: PointRecord
    simulated: bool
    control: str
    start_ns: int
    end_ns: int
    settled: bool
    unsettled: str = ""
    complete: bool
    incomplete: str = ""
    episodes: list[EpisodeRecord]
    llm: list[LLMRecord]
    tools: list[ToolRecord]
    engine_samples: list[EngineSample]
    tasks: dict[str, Task]
    scheduled: int  # members that Locust asked for
    warmup: int  # episodes cut off at the front
    tail: int
    warmup_s: float
    cut: WarmUp = msgspec.field(default_factory=WarmUp)
    warmup_ended_ns: int | None = None  # when the last call of the warm-up ended; None: none
    tail_ended_ns: int | None = None  # when the first call of the tail ended; None: none
    selftest: SelfTest | None = None  # of the client that drove it

    @property
    def users(self) -> int:
        """The planned number of users."""
        return self.point.users

    @property
    def attempted(self) -> int:
        """Members, whatever became of them."""
        return len(self.episodes)


class _OfPoint(Protocol):
    @property
    def point(self) -> str: ...


class _OfEpisode(_OfPoint, Protocol):
    @property
    def user(self) -> int: ...
    @property
    def episode(self) -> int: ...


PointT = TypeVar("PointT", bound=_OfPoint)
EpisodeT = TypeVar("EpisodeT", bound=_OfEpisode)


class _PointRecords(msgspec.Struct):
    """Everything that was recorded under one point's name."""

    scheduled: list[ScheduledRecord]
    episodes: list[EpisodeRecord]
    llm: list[LLMRecord]
    tools: list[ToolRecord]
    samples: list[EngineSample]


def levels_of(run: Run) -> list[Level]:
    """The load points of a run as levels, in order of their start (methods.md section 5).

    Members are the episodes scheduled in [start, issued_until): issued_until is the end of the
    load, or one nanosecond past the last schedule when the run was killed before it was written.
    The start is where MSER-5 on the TTFT of turn 0, ordered by schedule, ends the warm-up; what
    started before is cut, whatever its outcome, and what started after issued_until is the tail.
    A load point without a PointRecord (killed) gets one from its records; one without a record
    of any kind is a level without members. The idle grid is no level.
    """
    gathered = _gather(run)
    points = dict(run.points)
    for name, records in gathered.items():
        if name not in points and (records.scheduled or records.episodes):
            points[name] = _recovered_point(name, records)
    load = [point for point in points.values() if point.kind is PointKind.load]
    load.sort(key=lambda point: point.started_ns)
    return [_level(run, point, gathered[point.point]) for point in load]


def calls_tool(record: LLMRecord) -> bool:
    """True for a turn that calls a tool: its TTFT is not prefill alone (methods.md section 1)."""
    return bool(record.calls) or record.finish_reason == "tool_calls"


def episode_key(record: _OfEpisode) -> EpisodeKey:
    """(user, episode): tells the episodes of one point apart."""
    return record.user, record.episode


def by_episode(records: Iterable[EpisodeT]) -> dict[EpisodeKey, list[EpisodeT]]:
    """The records of one level by (user, episode), in their order."""
    found: defaultdict[EpisodeKey, list[EpisodeT]] = defaultdict(list)
    for record in records:
        found[episode_key(record)].append(record)
    return found


def _gather(run: Run) -> defaultdict[str, _PointRecords]:
    gathered: defaultdict[str, _PointRecords] = defaultdict(
        lambda: _PointRecords([], [], [], [], [])
    )
    for name, scheduled in _by_point(run.scheduled).items():
        gathered[name].scheduled = scheduled
    for name, episodes in _by_point(run.episodes).items():
        gathered[name].episodes = episodes
    for name, llm in _by_point(run.llm).items():
        gathered[name].llm = llm
    for name, tools in _by_point(run.tools).items():
        gathered[name].tools = tools
    for name, samples in _by_point(run.engine).items():
        gathered[name].samples = samples
    return gathered


def _by_point(records: Iterable[PointT]) -> dict[str, list[PointT]]:
    found: defaultdict[str, list[PointT]] = defaultdict(list)
    for record in records:
        found[record.point].append(record)
    return found


def _recovered_point(name: str, records: _PointRecords) -> PointRecord:
    orders: list[ScheduledRecord | EpisodeRecord] = [*records.scheduled, *records.episodes]
    return PointRecord(
        point=name,
        kind=PointKind.load,
        users=len({order.user for order in orders}),
        started_ns=min(order.scheduled_ns for order in orders),
        error="its point record is missing",
    )


def _level(run: Run, point: PointRecord, records: _PointRecords) -> Level:
    start_of = _schedule(records)
    end_ns = point.issued_until_ns
    if end_ns is None:
        end_ns = max([*start_of.values(), point.started_ns]) + 1
    issued = {key: ns for key, ns in start_of.items() if point.started_ns <= ns < end_ns}
    start_ns, steady = _warm_from(point.started_ns, issued, records.llm)
    keys = {key for key, ns in issued.items() if ns >= start_ns}
    asked = {episode_key(order) for order in records.scheduled}
    episodes = sorted(_members(records.episodes, keys), key=lambda episode: episode.scheduled_ns)
    incomplete = _why_incomplete(run, point, issued.keys(), records)
    cut = issued.keys() - keys
    return Level(
        engine=run.facts.scenario.engine.name,
        run=run.facts.id,
        point=point,
        simulated=run.facts.endpoint.simulated,
        control=run.facts.scenario.workload.control.value,
        start_ns=start_ns,
        end_ns=end_ns,
        settled=steady.settled,
        unsettled=steady.reason,
        complete=not incomplete,
        incomplete=incomplete,
        episodes=episodes,
        llm=_members(records.llm, keys),
        tools=_members(records.tools, keys),
        engine_samples=[s for s in records.samples if start_ns <= s.ns < end_ns],
        tasks=run.tasks,
        scheduled=len(keys & asked),
        warmup=len(issued) - len(keys),
        tail=sum(1 for ns in start_of.values() if ns >= end_ns),
        warmup_s=(start_ns - point.started_ns) / NS_PER_S,
        cut=WarmUp(
            episodes=_members(records.episodes, cut),
            llm=_members(records.llm, cut),
            tools=_members(records.tools, cut),
        ),
        warmup_ended_ns=max(_ends(records.llm, start_of, 0, start_ns), default=None),
        tail_ended_ns=min(_ends(records.llm, start_of, end_ns, None), default=None),
        selftest=run.selftest,
    )


def _why_incomplete(
    run: Run, point: PointRecord, issued: Set[EpisodeKey], records: _PointRecords
) -> str:
    """What of the episodes issued at a point, warm-up included, is missing; empty: nothing."""
    if run.altered:
        return run.altered
    if point.error:
        return f"the point ended with: {point.error}"
    if point.ended_ns is None:
        return "the point was cut short"
    asked = {episode_key(order) for order in records.scheduled} & issued
    recorded = {episode_key(episode) for episode in records.episodes} & issued
    if recorded - asked:
        return f"{len(recorded - asked)} episodes are recorded that no record scheduled"
    if asked - recorded:
        return f"{len(asked - recorded)} scheduled episodes left no record"
    turns = by_episode(records.llm)
    short = sum(
        len({call.turn for call in turns.get(episode_key(episode), [])}) < episode.turns
        for episode in records.episodes
        if episode_key(episode) in issued
    )
    return f"{short} episodes lack records of model calls that they made" if short else ""


def _ends(
    llm: list[LLMRecord], start_of: dict[EpisodeKey, int], from_ns: int, until_ns: int | None
) -> list[int]:
    """When the calls ended whose episodes were scheduled in [from_ns, until_ns)."""
    return [
        call.done_ns
        for call in llm
        if call.done_ns is not None
        and (ns := start_of.get(episode_key(call))) is not None
        and ns >= from_ns
        and (until_ns is None or ns < until_ns)
    ]


def _schedule(records: _PointRecords) -> dict[EpisodeKey, int]:
    """When each episode was scheduled; the episode's own word first, so that both agree."""
    start_of = {episode_key(order): order.scheduled_ns for order in records.scheduled}
    start_of.update((episode_key(done), done.scheduled_ns) for done in records.episodes)
    return start_of


def _members(records: Iterable[EpisodeT], keys: Set[EpisodeKey]) -> list[EpisodeT]:
    return [record for record in records if episode_key(record) in keys]


def _warm_from(
    started_ns: int, issued: dict[EpisodeKey, int], llm: list[LLMRecord]
) -> tuple[int, Steady]:
    """Where the warm-up ends, and whether the level settled at all."""
    first_turns: list[tuple[int, float]] = []
    for record in llm:
        if record.turn == 0 and (ttft_s := record.ttft_s) is not None:
            ns = issued.get(episode_key(record))
            if ns is not None:
                first_turns.append((ns, ttft_s))
    first_turns.sort()
    steady = mser5([ttft_s for _, ttft_s in first_turns])
    return (first_turns[steady.cut][0] if steady.cut else started_ns), steady
