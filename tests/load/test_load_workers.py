"""Two load workers under a Locust master: nothing lost, nothing twice, and what a death leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import psutil
import pytest

from bench.errors import LoadError
from bench.load.drive import HostProcess, drive_point
from bench.load.plan import planned_points
from bench.load.spec import HostSpec, load_spec
from bench.load.status import HostStatus
from bench.process import free_port
from bench.record import EpisodeRecord, PointRecord, ScheduledRecord
from bench.run import open_run, read_run, seal_run
from bench.scenario import LoadKind, Stage
from load.conftest import make_load
from makers import make_facts

if TYPE_CHECKING:
    from load.conftest import Children, FakeEngine

Watcher = Callable[[HostStatus], None]


@pytest.fixture
def hosts(spec: HostSpec, children: Children) -> Iterator[list[HostProcess]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                HostProcess.start(
                    msgspec.structs.replace(
                        spec, worker=worker, socket_path=spec.socket_path.with_name(f"h{worker}")
                    ),
                    spec.run_dir / f"host-{worker}.log",
                    limit_s=30.0,
                )
            )
            for worker in range(2)
        ]
    assert not children("bench.load.host") and not children("bench.load.users")


def drive(
    hosts: list[HostProcess], watch: Watcher = lambda status: None, **changes: Any
) -> PointRecord:
    spec = hosts[0].spec
    spec.scenario.load = make_load(workers=2, **changes)
    (planned,) = planned_points(spec.scenario.load)
    log = spec.run_dir / "locust.log"
    return drive_point(hosts, load_spec(spec, planned), spec.scenario.load, log, watch)


def scheduled(run_dir: Path, worker: int) -> list[ScheduledRecord]:
    lines = (run_dir / f"scheduled-{worker}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=ScheduledRecord) for line in lines]


def episodes(run_dir: Path, worker: int) -> list[EpisodeRecord]:
    lines = (run_dir / f"episodes-{worker}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=EpisodeRecord) for line in lines]


def assert_all_recorded(run_dir: Path) -> None:
    for worker in range(2):
        asked = [(s.user, s.episode) for s in scheduled(run_dir, worker)]
        assert len(set(asked)) == len(asked) > 0
        assert sorted(asked) == sorted((e.user, e.episode) for e in episodes(run_dir, worker))


def test_users_are_split_without_loss_or_overlap(hosts: list[HostProcess]) -> None:
    run_dir = hosts[0].spec.run_dir
    seen: list[HostStatus] = []
    point = drive(hosts, seen.append, users=[5], duration_s=1.5)
    assert (point.users, point.error) == (5, "")
    assert_all_recorded(run_dir)
    assert {s.user for s in scheduled(run_dir, 0)} == {0, 2, 4}
    assert {s.user for s in scheduled(run_dir, 1)} == {1, 3}
    both = [*scheduled(run_dir, 0), *scheduled(run_dir, 1)]
    assert min(s.scheduled_ns for s in both) == point.started_ns
    firsts = [min(s.scheduled_ns for s in both if s.user == user) for user in range(5)]
    assert firsts == sorted(firsts), "one plan of starts for both workers"
    assert seen[-1].done == max(status.done for status in seen) > 5
    assert seen[-1].ttft_s_p50 is not None


def test_arrivals_are_split_without_loss_or_overlap(hosts: list[HostProcess]) -> None:
    run_dir = hosts[0].spec.run_dir
    point = drive(
        hosts, kind=LoadKind.open, users=[], rates=[30.0], arrivals="constant", duration_s=1.5
    )
    assert (point.users, point.rate_per_s, point.error) == (0, 30.0, "")
    assert_all_recorded(run_dir)
    both = sorted([*scheduled(run_dir, 0), *scheduled(run_dir, 1)], key=lambda each: each.episode)
    assert point.issued_until_ns is not None
    members = [s for s in both if s.scheduled_ns < point.issued_until_ns]
    assert [s.episode for s in members] == list(range(len(members)))
    assert len(members) == 45
    for s in both:  # both workers turn the master's clock into their own: microseconds
        at_s = (s.scheduled_ns - both[0].scheduled_ns) / 1e9
        assert at_s == pytest.approx(s.episode / 30, abs=1e-3)


def test_steps_on_two_workers(hosts: list[HostProcess]) -> None:
    run_dir = hosts[0].spec.run_dir
    stages = [Stage(users=2, duration_s=1.0), Stage(users=5, duration_s=1.0)]
    point = drive(hosts, kind=LoadKind.steps, users=[], stages=stages, stagger_s=0.2)
    assert (point.users, point.error) == (5, "")
    assert_all_recorded(run_dir)
    both = [*scheduled(run_dir, 0), *scheduled(run_dir, 1)]
    early = {s.user for s in both if s.scheduled_ns < point.started_ns + int(0.99e9)}
    assert (early, {s.user for s in both}) == ({0, 1}, {0, 1, 2, 3, 4})


def test_the_masters_page_shows_our_figures_of_all_workers(
    hosts: list[HostProcess], engine: FakeEngine
) -> None:
    engine.answer_s = 0.02
    port = free_port()
    found: dict[str, Any] = {}

    def watch(status: HostStatus) -> None:
        if status.done > 20 and len(found) < 4:
            url = f"http://127.0.0.1:{port}"
            figures = httpx.get(f"{url}/agents/figures", timeout=5.0).json()
            if any(f["p95_ms"] is not None for f in figures if f["kind"] == "ttft"):
                found["figures"] = figures
                found["page"] = httpx.get(f"{url}/agents", timeout=5.0).text
                found["stats"] = httpx.get(f"{url}/stats/requests", timeout=5.0).json()
                found["own"] = httpx.get(url, timeout=5.0).text

    drive(hosts, watch, users=[4], duration_s=7.0, web=True, web_port=port)
    kinds = {f["kind"] for f in found["figures"] if f["p50_ms"] is not None}
    assert kinds == {"ttft", "episode"}
    assert "Episode latency" in found["page"] and "<svg" in found["page"]
    assert "http://" not in found["page"] and "https://" not in found["page"]
    (tab,) = found["stats"]["extended_stats"]
    assert [row["kind"] for row in tab["data"]] == ["TTFT of the first turn", "Episode latency"]
    assert {worker["state"] for worker in found["stats"]["workers"]} == {"running"}
    assert len(found["stats"]["workers"]) == 2
    assert "Agents" in found["own"]


def victim(children: Children, module: str, name: str) -> psutil.Process:
    (process,) = (p for p in children(module) if name in " ".join(p.cmdline()))
    return process


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("bench.load.users", "locust-worker-1", "Locust worker 1 ended with signal 9"),
        ("bench.load.users", "locust-master", "Locust master ended with signal 9"),
        ("bench.load.host", "host-1", "episode host 1 ended with signal 9"),
    ],
)
def test_a_death_makes_the_run_incomplete_not_wrong(
    module: str, name: str, reason: str, hosts: list[HostProcess], children: Children
) -> None:
    run_dir = hosts[0].spec.run_dir
    killed: list[int] = []

    def watch(status: HostStatus) -> None:
        if status.done >= 4 and not killed:
            killed.append(victim(children, module, name).pid)
            psutil.Process(killed[0]).kill()

    open_run(run_dir, make_facts(hosts[0].spec.scenario))
    with pytest.raises(LoadError, match=reason) as raised:
        drive(hosts, watch, users=[4], duration_s=30.0)
    assert killed and not children("bench.load.users"), "the others were ended too"
    seal_run(run_dir, "incomplete", str(raised.value))
    run = read_run(run_dir)
    assert reason in run.incomplete_reason
    asked = {(s.user, s.episode) for s in run.scheduled}
    recorded = [(e.user, e.episode) for e in run.episodes]
    assert len(set(recorded)) == len(recorded), "nothing is counted twice"
    assert set(recorded) <= asked
    alive = {(s.user, s.episode) for s in scheduled(run_dir, 0)}
    assert alive <= set(recorded), "the worker that lived has a record of all it asked for"
