"""Open, trace and stepped points from start to end: planned times, slots, holding, saturation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from bench.episode import Purpose, substream
from bench.load.arrivals import poisson_s
from bench.load.drive import HostProcess, drive_point
from bench.load.plan import PlannedPoint, planned_points
from bench.load.spec import HostSpec, load_spec
from bench.load.status import HostStatus
from bench.record import EpisodeOutcome, EpisodeRecord, LLMRecord, PointRecord, ScheduledRecord
from bench.scenario import LoadKind, Stage
from load.conftest import make_load

if TYPE_CHECKING:
    from load.conftest import FakeEngine


def drive(
    host: HostProcess, point: PlannedPoint, seen: list[HostStatus] | None = None
) -> PointRecord:
    looks = [] if seen is None else seen
    spec = host.spec
    log = spec.run_dir / "locust.log"
    return drive_point(host, load_spec(spec, point), spec.scenario.load, log, looks.append)


def scheduled(spec: HostSpec) -> list[ScheduledRecord]:
    lines = (spec.run_dir / "scheduled-0.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=ScheduledRecord) for line in lines]


def episodes(spec: HostSpec) -> list[EpisodeRecord]:
    lines = (spec.run_dir / "episodes-0.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=EpisodeRecord) for line in lines]


def with_load(spec: HostSpec, **changes: object) -> HostSpec:
    """The spec with another load, in place, because the host's process has read its own."""
    spec.scenario.load = make_load(**changes)
    return spec


def assert_all_recorded(spec: HostSpec) -> None:
    asked = [(s.user, s.episode) for s in scheduled(spec)]
    assert len(set(asked)) == len(asked)
    assert sorted(asked) == sorted((e.user, e.episode) for e in episodes(spec))


def test_open_arrivals_never_wait_for_one_another(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 0.5  # an episode of two turns takes over a second: 20 are in flight
    spec = with_load(host.spec, kind=LoadKind.open, users=[], rates=[20.0])
    (planned,) = planned_points(spec.scenario.load)
    seen: list[HostStatus] = []
    point = drive(host, planned, seen)
    assert (point.point, point.users, point.rate_per_s, point.error) == ("r20", 0, 20.0, "")
    assert point.issued_until_ns is not None
    assert_all_recorded(spec)
    arrived = scheduled(spec)
    assert [s.episode for s in arrived] == list(range(len(arrived)))
    rng = substream(spec.scenario.seed, 0, 0, 0, Purpose.arrival)
    plan_s = itertools.islice(poisson_s(rng, 20.0), len(arrived))
    assert [s.scheduled_ns for s in arrived] == [
        point.started_ns + int(at_s * 1e9) for at_s in plan_s
    ]
    members = [e for e in episodes(spec) if e.scheduled_ns < point.issued_until_ns]
    assert len(members) > 10
    assert {e.outcome for e in members} == {EpisodeOutcome.answered}
    assert max(status.running for status in seen) > 5
    last_done = max(e.done_ns or 0 for e in members)
    assert max(s.scheduled_ns for s in arrived) > last_done - int(0.6e9), "the load is held"


def test_a_rate_below_one_a_second(host: HostProcess) -> None:
    spec = with_load(
        host.spec, kind=LoadKind.open, users=[], rates=[0.8], arrivals="constant", duration_s=3.0
    )
    (planned,) = planned_points(spec.scenario.load)
    point = drive(host, planned)
    assert (point.point, point.error) == ("r0.8", "")
    gaps_s = np.diff([s.scheduled_ns for s in scheduled(spec)]) / 1e9
    assert len(gaps_s) >= 1
    assert gaps_s == pytest.approx(1.25, abs=1e-6)


def test_a_rate_that_the_engine_cannot_serve_is_marked(
    host: HostProcess, engine: FakeEngine
) -> None:
    engine.answer_s = 60.0
    spec = with_load(host.spec, kind=LoadKind.open, users=[], rates=[40.0], max_in_flight=9)
    (planned,) = planned_points(spec.scenario.load)
    point = drive(host, planned)
    assert "9 episodes were in flight (load.max_in_flight)" in point.error
    assert "does not keep up with 40 episodes/s" in point.error
    assert_all_recorded(spec)
    assert [e.outcome for e in episodes(spec)] == [EpisodeOutcome.cut] * 9
    assert point.issued_until_ns is not None and point.issued_until_ns > point.started_ns


def test_connections_are_used_again(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 0.01
    spec = with_load(host.spec, kind=LoadKind.open, users=[], rates=[25.0], arrivals="constant")
    (planned,) = planned_points(spec.scenario.load)
    drive(host, planned)
    assert len(scheduled(spec)) > 20
    assert engine.accepted < 8


def test_a_trace_is_played_at_its_times_and_speed(host: HostProcess, tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    times_s = [0.0, 0.4, 0.4, 1.0, 2.0, 90.0]
    lines = [f'{{"at_s": {at_s}, "task": "t{n % 5}", "who": 1}}' for n, at_s in enumerate(times_s)]
    path.write_text("\n".join(lines) + "\n")
    spec = with_load(
        host.spec, kind=LoadKind.trace, users=[], traces=[str(path)], speed=2.0, duration_s=1.2
    )
    (planned,) = planned_points(spec.scenario.load)
    point = drive(host, planned)
    assert (point.point, point.error, point.rate_per_s) == ("trace-day", "", 5 / 1.2)
    assert_all_recorded(spec)
    offsets = [(s.scheduled_ns - point.started_ns) / 1e9 for s in scheduled(spec)]
    assert offsets == pytest.approx([0.0, 0.2, 0.2, 0.5, 1.0])
    by_number = {e.episode: e.task for e in episodes(spec)}
    assert [by_number[n] for n in range(5)] == ["t0", "t1", "t2", "t3", "t4"]


def test_users_in_steps(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 0.02
    stages = [
        Stage(users=1, duration_s=1.0),
        Stage(users=4, duration_s=2.0, ramp_s=1.0),
        Stage(users=2, duration_s=1.0),
    ]
    spec = with_load(host.spec, kind=LoadKind.steps, users=[], stages=stages, stagger_s=0.1)
    (planned,) = planned_points(spec.scenario.load)
    assert (planned.users, planned.duration_s) == (4, 4.0)
    point = drive(host, planned)
    assert (point.users, point.rate_per_s, point.error) == (4, None, "")
    assert_all_recorded(spec)
    at_s = [(s.user, (s.scheduled_ns - point.started_ns) / 1e9) for s in scheduled(spec)]
    assert {user for user, s in at_s if s < 1.0} == {0}
    assert {user for user, s in at_s if 2.2 < s < 3.0} == {0, 1, 2, 3}
    assert {user for user, s in at_s if s > 3.0} == {0, 1}
    firsts = [min(s for who, s in at_s if who == user) for user in range(4)]
    for user, first_s in enumerate(firsts[1:], start=1):  # the ramp reaches `user` here
        assert 1 + (user - 1) / 3 <= first_s <= 1 + (user - 1) / 3 + 0.1


def test_rates_in_steps(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 0.02
    stages = [Stage(rate=5, duration_s=1.0), Stage(rate=20, duration_s=1.0)]
    spec = with_load(host.spec, kind=LoadKind.steps, users=[], stages=stages, arrivals="constant")
    (planned,) = planned_points(spec.scenario.load)
    point = drive(host, planned)
    assert (point.rate_per_s, point.users, point.error) == (12.5, 0, "")
    at_s = np.array([s.scheduled_ns - point.started_ns for s in scheduled(spec)]) / 1e9
    assert np.sum(at_s < 1) == 5
    assert np.sum((at_s >= 1) & (at_s < 2)) == 20


def test_lag_is_counted_from_the_plan(host: HostProcess, engine: FakeEngine) -> None:
    """wrk2: a slow server must not slow the sender, nor hide what it makes late."""
    engine.answer_s = 0.8
    spec = with_load(host.spec, kind=LoadKind.open, users=[], rates=[10.0], arrivals="constant")
    (planned,) = planned_points(spec.scenario.load)
    drive(host, planned)
    lines = (spec.run_dir / "llm-0.jsonl").read_bytes().splitlines()
    calls = [msgspec.json.decode(line, type=LLMRecord) for line in lines]
    first_turns = [call for call in calls if call.turn == 0 and call.ttft_s is not None]
    planned_ns = {(s.user, s.episode): s.scheduled_ns for s in scheduled(spec)}
    for call in first_turns:
        assert call.scheduled_ns == planned_ns[call.user, call.episode]
        assert call.lag_s is not None and 0 <= call.lag_s < 0.4, "far below an answer's time"
