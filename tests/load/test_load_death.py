"""A process dies or the disk is full in the middle of a point: a named error, readable records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest

from bench.errors import BenchError, LoadError, RecordError, ScenarioError
from bench.load.drive import HostProcess, drive_point
from bench.load.spec import HostSpec, point_spec
from bench.load.status import HostStatus
from bench.record import EpisodeOutcome, EpisodeRecord, ScheduledRecord

if TYPE_CHECKING:
    from load.conftest import Children, FakeEngine


def drive(host: HostProcess, watch: Callable[[HostStatus], None]) -> BenchError:
    spec = host.spec
    with pytest.raises(BenchError) as caught:
        log = spec.run_dir / "locust.log"
        drive_point(host, point_spec(spec, "u3", 3), spec.scenario.load, log, watch)
    return caught.value


def once_done(act: Callable[[], None]) -> Callable[[HostStatus], None]:
    """A watch that acts when two episodes have ended, once."""
    acted = False

    def watch(status: HostStatus) -> None:
        nonlocal acted
        if status.done >= 2 and not acted:
            acted = True
            act()

    return watch


def outcomes(spec: HostSpec) -> dict[tuple[int, int], EpisodeOutcome]:
    lines = (spec.run_dir / "episodes-0.jsonl").read_bytes().splitlines()
    records = [msgspec.json.decode(line, type=EpisodeRecord) for line in lines]
    assert len({(record.user, record.episode) for record in records}) == len(records)
    return {(record.user, record.episode): record.outcome for record in records}


def scheduled(spec: HostSpec) -> set[tuple[int, int]]:
    lines = (spec.run_dir / "scheduled-0.jsonl").read_bytes().splitlines()
    records = [msgspec.json.decode(line, type=ScheduledRecord) for line in lines]
    return {(record.user, record.episode) for record in records}


def test_locust_killed(host: HostProcess, children: Children) -> None:
    error = drive(host, once_done(lambda: children("bench.load.users")[0].kill()))
    assert isinstance(error, LoadError)
    assert "Locust ended with signal 9" in str(error)
    assert outcomes(host.spec).keys() <= scheduled(host.spec)
    assert len(scheduled(host.spec)) - len(outcomes(host.spec)) <= 3
    assert host.status().running == 0


def test_host_killed(host: HostProcess, children: Children) -> None:
    error = drive(host, once_done(lambda: psutil.Process(host.pid).kill()))
    assert isinstance(error, LoadError)
    assert "episode host ended with signal 9" in str(error)
    assert outcomes(host.spec).keys() <= scheduled(host.spec)
    assert not children("bench.load.users")


def test_host_terminated_cuts_what_runs(host: HostProcess, engine: FakeEngine) -> None:
    engine.answer_s = 30.0

    def watch(status: HostStatus) -> None:
        if status.running == 3:
            psutil.Process(host.pid).terminate()

    assert isinstance(drive(host, watch), LoadError)
    assert set(outcomes(host.spec)) == scheduled(host.spec)
    assert list(outcomes(host.spec).values()) == [EpisodeOutcome.cut] * 3


def test_engine_gone_fails_episodes_and_records_them(host: HostProcess, engine: FakeEngine) -> None:
    spec = host.spec
    point = drive_point(
        host,
        point_spec(spec, "u3", 3),
        spec.scenario.load,
        spec.run_dir / "locust.log",
        once_done(engine.close),
    )
    assert point.error == ""
    assert set(outcomes(spec)) == scheduled(spec)
    failed = [key for key, outcome in outcomes(spec).items() if outcome is EpisodeOutcome.failed]
    assert 0 < len(failed) < 40  # no spin against a dead engine
    assert host.status().errors == len(failed)


@pytest.mark.parametrize("name", ["llm-0.jsonl", "scheduled-0.jsonl"])
def test_full_disk(name: str, spec: HostSpec, children: Children) -> None:
    (spec.run_dir / name).symlink_to("/dev/full")
    with HostProcess.start(spec, spec.run_dir / "host.log", limit_s=30.0) as host:
        error = drive(host, lambda status: None)
    assert isinstance(error, RecordError)
    assert f"records={spec.run_dir / name}: cannot be written (No space left" in str(error)
    assert "free disk space" in error.remedy
    assert not children("bench.load.host") and not children("bench.load.users")


def test_host_that_cannot_start_says_why(spec: HostSpec) -> None:
    (spec.run_dir / "material" / "tasks.jsonl").write_text("")
    with pytest.raises(ScenarioError, match="holds no task; write one JSON object a line"):
        HostProcess.start(spec, spec.run_dir / "host.log", limit_s=30.0)


def test_over_long_socket_path(spec: HostSpec) -> None:
    changed = msgspec.structs.replace(spec, socket_path=Path("/tmp") / ("s" * 120))
    with pytest.raises(LoadError, match="at most 107 bytes, this one has 125"):
        HostProcess.start(changed, spec.run_dir / "host.log", limit_s=1.0)
