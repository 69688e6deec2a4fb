"""A point from start to end, through Locust, socket, host, agent and client."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest

from bench.errors import EngineError, Stopped
from bench.load.drive import HostProcess, drive_point
from bench.load.spec import HostSpec, point_spec
from bench.load.status import HostStatus
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointKind,
    PointRecord,
    ScheduledRecord,
    ToolRecord,
)

if TYPE_CHECKING:
    from load.conftest import FakeEngine

RecordT = TypeVar("RecordT", EpisodeRecord, LLMRecord, ScheduledRecord, ToolRecord)


def read(spec: HostSpec, name: str, kind: type[RecordT]) -> list[RecordT]:
    lines = (spec.run_dir / name).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=kind) for line in lines]


def run_point(
    host: HostProcess, point: str, users: int, seen: list[HostStatus] | None = None
) -> PointRecord:
    looks = [] if seen is None else seen
    spec = host.spec
    log = spec.run_dir / "locust.log"
    load = spec.scenario.load
    return drive_point(host, point_spec(spec, point, users), load, log, looks.append)


def keys(records: list[EpisodeRecord] | list[ScheduledRecord]) -> Counter[tuple[str, int, int]]:
    return Counter((record.point, record.user, record.episode) for record in records)


def test_a_point_records_every_scheduled_episode_once(
    host: HostProcess, engine: FakeEngine
) -> None:
    spec = host.spec
    engine.answer_s = 0.2
    seen: list[HostStatus] = []
    points = [run_point(host, "u3", 3, seen), run_point(host, "u1", 1)]
    scheduled = read(spec, "scheduled-0.jsonl", ScheduledRecord)
    episodes = read(spec, "episodes-0.jsonl", EpisodeRecord)
    assert keys(episodes) == keys(scheduled)
    assert set(keys(scheduled).values()) == {1}

    point = points[0]
    assert (point.kind, point.users, point.error) == (PointKind.load, 3, "")
    assert point.issued_until_ns is not None and point.ended_ns is not None
    assert point.issued_until_ns - point.started_ns == int(1.2e9)
    assert point.ended_ns > point.issued_until_ns
    assert point.client_cpu is not None and 0 < point.client_cpu < 2
    of_point = [episode for episode in episodes if episode.point == "u3"]
    members = [e for e in of_point if point.started_ns <= e.scheduled_ns < point.issued_until_ns]
    assert {episode.outcome for episode in members} == {EpisodeOutcome.answered}
    assert {episode.user for episode in members} == {0, 1, 2}
    assert min(episode.scheduled_ns for episode in of_point) == point.started_ns
    assert EpisodeOutcome.cut in {episode.outcome for episode in episodes}
    assert [e.episode for e in of_point if e.user == 0] == list(
        range(sum(e.user == 0 for e in of_point))
    )
    assert all(call.recorded for call in read(spec, "tools-0.jsonl", ToolRecord))
    assert seen[-1].ttft_s_p50 is not None and seen[-1].latency_s_p50 is not None
    assert seen[-1].errors == 0

    heads = [body["messages"][0]["content"].splitlines()[0] for body in engine.bodies]
    assert set(heads) == {"[salt r1/u3]", "[salt r1/u1]"}
    assert all("bearer sesame" in head.lower() for head in engine.headers)


def test_the_same_user_gets_the_same_tasks_at_every_point(host: HostProcess) -> None:
    run_point(host, "a", 2)
    run_point(host, "b", 1)
    tasks: dict[str, dict[int, str]] = {"a": {}, "b": {}}
    for episode in read(host.spec, "episodes-0.jsonl", EpisodeRecord):
        if episode.user == 0:
            tasks[episode.point][episode.episode] = episode.task
    both = set(tasks["a"]) & set(tasks["b"])
    assert len(both) > 3
    assert [tasks["a"][number] for number in both] == [tasks["b"][number] for number in both]


def test_a_signal_is_not_swallowed_by_the_end_of_a_point_or_of_the_host(
    host: HostProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped is a BenchError, but not one of those that the host's own end may have."""

    def stopped(*args: object) -> None:
        raise Stopped("run=x", "was stopped by SIGTERM", "start it again")

    with monkeypatch.context() as patched:
        patched.setattr(host, "_ask", stopped)
        with pytest.raises(Stopped):
            host.close()
    assert host._process.exit_code is not None, "and the host has ended"


def test_what_watch_raises_ends_the_point_and_cuts_its_episodes(
    host: HostProcess, engine: FakeEngine
) -> None:
    engine.answer_s = 30.0

    def watch(status: HostStatus) -> None:
        if status.running == 3:
            raise EngineError("engine", "died", "start it again")

    spec = host.spec
    with pytest.raises(EngineError, match="engine: died"):
        log = spec.run_dir / "locust.log"
        drive_point(host, point_spec(spec, "u3", 3), spec.scenario.load, log, watch)
    episodes = read(spec, "episodes-0.jsonl", EpisodeRecord)
    assert keys(episodes) == keys(read(spec, "scheduled-0.jsonl", ScheduledRecord))
    assert [episode.outcome for episode in episodes] == [EpisodeOutcome.cut] * 3
    calls = read(spec, "llm-0.jsonl", LLMRecord)
    assert [call.outcome for call in calls] == [LLMOutcome.cut] * 3
    assert host.status().running == 0


def test_the_grid_measures_each_cell_at_its_prompt_length(
    host: HostProcess, engine: FakeEngine
) -> None:
    engine.answer_s = 0.01
    steps: list[tuple[int, int]] = []
    point = host.grid(lambda done, total: steps.append((done, total)))
    assert (point.point, point.kind, point.users) == ("grid", PointKind.grid, 1)
    calls = read(host.spec, "llm-0.jsonl", LLMRecord)
    assert steps[-1] == (8, 8) == (len(calls), len(calls))
    cells = {call.cell: call for call in calls}
    assert len(cells) == 8
    samples = {name for name in cells if not name.endswith("-primer")}
    assert samples == {"p256-h0-r0", "p256-h0.5-r0", "p700-h0-r0", "p700-h0.5-r0"}
    for name in samples:
        call = cells[name]
        assert (call.outcome, call.user, call.workload) == (LLMOutcome.ok, 0, None)
        assert call.prompt_tokens == pytest.approx(int(name.split("-")[0][1:]), rel=0.02)
    assert not (host.spec.run_dir / "episodes-0.jsonl").read_bytes()

    by_salt = {body["messages"][0]["content"].splitlines()[0]: body for body in engine.bodies}
    assert len(by_salt) == 6  # a primer and its sample share theirs
    sample = by_salt["[salt r1/grid/p700-h0.5-r0]"]
    assert (sample["max_tokens"], sample["min_tokens"], sample["ignore_eos"]) == (8, 8, True)
    assert "tools" not in sample
    primer = next(body for body in engine.bodies if body["messages"][0] == sample["messages"][0])
    assert primer["max_tokens"] == 1
    shared = len(primer["messages"][0]["content"].split())
    assert shared == pytest.approx(350, rel=0.05)


def test_what_on_progress_raises_ends_the_grid(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 30.0

    def on_progress(done: int, total: int) -> None:
        raise EngineError("engine", "died", "start it again")

    with pytest.raises(EngineError):
        host.grid(on_progress)
    host.cut()
    calls = read(host.spec, "llm-0.jsonl", LLMRecord)
    assert [call.outcome for call in calls] == [LLMOutcome.cut]
