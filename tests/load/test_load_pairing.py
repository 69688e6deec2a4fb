"""Two arms of different speed see the same work, user by user and arrival by arrival."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from bench.load.arrivals import think_times_s
from bench.load.drive import HostProcess, drive_point
from bench.load.plan import planned_points
from bench.load.spec import HostSpec, load_spec
from bench.record import EpisodeRecord
from bench.scenario import Load, LoadKind
from load.conftest import make_load, write_material

if TYPE_CHECKING:
    from load.conftest import FakeEngine


class Arm(NamedTuple):
    """What one arm did, by (user, episode); times in seconds after the start of its point."""

    tasks: dict[tuple[int, int], str]
    scheduled_s: dict[tuple[int, int], float]
    paused_s: dict[tuple[int, int], float]  # from the end of the episode before


def run_arm(spec: HostSpec, directory: Path, load: Load) -> Arm:
    directory.mkdir()
    write_material(directory)
    spec.scenario.load = load
    mine = msgspec.structs.replace(
        spec, run_dir=directory, socket_path=spec.socket_path.with_name(directory.name)
    )
    (planned,) = planned_points(load)
    with HostProcess.start(mine, directory / "host.log", limit_s=30.0) as host:
        log = directory / "locust.log"
        point = drive_point(host, load_spec(mine, planned), load, log, lambda status: None)
    lines = (directory / "episodes-0.jsonl").read_bytes().splitlines()
    episodes = {
        (e.user, e.episode): e for e in (msgspec.json.decode(x, type=EpisodeRecord) for x in lines)
    }
    pauses_s = {}
    for (user, number), episode in episodes.items():
        before = episodes.get((user, number - 1))
        if before is not None and before.done_ns is not None:
            pauses_s[user, number] = (episode.scheduled_ns - before.done_ns) / 1e9
    return Arm(
        {key: e.task for key, e in episodes.items()},
        {key: (e.scheduled_ns - point.started_ns) / 1e9 for key, e in episodes.items()},
        pauses_s,
    )


def test_closed_arms_share_tasks_starts_and_think_times(
    spec: HostSpec, engine: FakeEngine, tmp_path: Path
) -> None:
    load = make_load(users=[3], think_time_s=0.25, duration_s=2.0)
    seed = spec.scenario.seed
    engine.answer_s = 0.02
    fast = run_arm(spec, tmp_path / "fast", load)
    engine.answer_s = 0.15
    slow = run_arm(spec, tmp_path / "slow", load)
    both = fast.tasks.keys() & slow.tasks.keys()
    assert len(fast.tasks) > len(slow.tasks) > 6, "the arms differ in speed"
    assert len(both) >= 6
    assert all(fast.tasks[key] == slow.tasks[key] for key in both)
    for user in range(3):
        assert fast.scheduled_s[user, 0] == pytest.approx(slow.scheduled_s[user, 0], abs=1e-6)
    pauses = fast.paused_s.keys() & slow.paused_s.keys()
    assert len(pauses) >= 3
    for arm in (fast, slow):  # the keyed think time, and what the last bytes and the host took
        for (user, number), paused_s in arm.paused_s.items():
            (think_s,) = itertools.islice(think_times_s(seed, user, 0.25), number - 1, number)
            assert paused_s >= think_s


def test_open_arms_share_tasks_and_arrivals(
    spec: HostSpec, engine: FakeEngine, tmp_path: Path
) -> None:
    load = make_load(kind=LoadKind.open, users=[], rates=[30.0])
    engine.answer_s = 0.02
    fast = run_arm(spec, tmp_path / "fast", load)
    engine.answer_s = 0.4
    slow = run_arm(spec, tmp_path / "slow", load)
    both = fast.tasks.keys() & slow.tasks.keys()
    assert len(both) > 8
    assert all(fast.tasks[key] == slow.tasks[key] for key in both)
    assert all(fast.scheduled_s[key] == slow.scheduled_s[key] for key in both), "to the nanosecond"


def test_repeats_do_the_same_work_under_salts_of_their_own(
    host: HostProcess, engine: FakeEngine
) -> None:
    spec = host.spec
    spec.scenario.load = make_load(users=[2], repeats=2, duration_s=0.6)
    log = spec.run_dir / "locust.log"
    for planned in planned_points(spec.scenario.load):
        drive_point(host, load_spec(spec, planned), spec.scenario.load, log, lambda status: None)
    heads = {body["messages"][0]["content"].splitlines()[0] for body in engine.bodies}
    assert heads == {"[salt r1/u2-r0]", "[salt r1/u2-r1]"}
    lines = (spec.run_dir / "episodes-0.jsonl").read_bytes().splitlines()
    tasks: dict[str, dict[tuple[int, int], str]] = {}
    for line in lines:
        episode = msgspec.json.decode(line, type=EpisodeRecord)
        tasks.setdefault(episode.point, {})[episode.user, episode.episode] = episode.task
    both = tasks["u2-r0"].keys() & tasks["u2-r1"].keys()
    assert len(both) > 2
    assert all(tasks["u2-r0"][key] == tasks["u2-r1"][key] for key in both)
