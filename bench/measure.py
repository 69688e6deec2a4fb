"""Scenario -> sealed Run: start the tools and the engine, replay the points, seal the records."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from bench.engine import launch
from bench.engine.machine import machine_facts, versions
from bench.engine.sampler import Sampler
from bench.errors import BenchError, RecordError, ScenarioError, Stopped
from bench.load.drive import HostProcess, drive_point
from bench.load.plan import PlannedPoint, planned_points
from bench.load.spec import HostSpec, load_spec
from bench.load.trace import read_trace
from bench.material import Material, material_of
from bench.progress import Display, Progress
from bench.record import GRID_POINT, PointKind, PointRecord
from bench.run import (
    Appender,
    Endpoint,
    Manifest,
    RunFacts,
    Started,
    ToolAddresses,
    open_run,
    seal_run,
    write_atomically,
    write_started,
)
from bench.scenario import EngineKind, Scenario, ToolSource
from bench.selftest import copy_into
from bench.tools import check_toolbox
from bench.tools.embedded import Services, start_services
from bench.tools.embedded.place import HOST_PREFIX, service_directory
from bench.watch import Watch

HOST_START_LIMIT_S = 60.0
CACHE = ".cache"
MATERIAL = "material"


def measure(scenario: Scenario, directory: Path, display: Display) -> Manifest:
    """Run one launch of a scenario into `directory` and seal it, whatever happens.

    Raises what ended the run early, after sealing what was recorded as incomplete: a BenchError,
    Stopped for a signal that came before the seal was written.
    """
    display.show(Progress(engine=scenario.engine.name, phase="start"))
    material = _prepare(scenario)  # before the first file: what cannot be run leaves none
    points = _plan(scenario, material)
    facts = _facts(scenario, directory)
    with _stoppable(facts.id) as stop:
        open_run(directory, facts)
        try:
            stop.release()
            with _told(directory):
                _measure(scenario, directory, display, facts, material, points, stop)
            display.show(Progress(engine=scenario.engine.name, phase="seal"))
            stop.hold()
            stop.check()  # a signal whose Stopped was swallowed, as an event loop may do
        except BaseException as error:
            stop.hold()
            reason = str(error) if isinstance(error, BenchError) else f"a defect: {error!r}"
            with contextlib.suppress(RecordError):  # of a full disk: readable, if not sealed
                seal_run(directory, "incomplete", _portable(reason, directory, facts.id))
            raise
        manifest = seal_run(directory, "complete")
        stop.check()  # it came while the run was sealed: complete, but no launch follows
    return manifest


def _measure(
    scenario: Scenario,
    directory: Path,
    display: Display,
    facts: RunFacts,
    material: Material,
    points: list[PlannedPoint],
    stop: _Stop,
) -> None:
    _copy(material, directory)
    points = [_copy_trace(point, directory) for point in points]
    with ExitStack() as stack:
        services: Services | None = None
        if scenario.tools.source is ToolSource.embedded:
            services = stack.enter_context(start_services(scenario.tools, material, directory))
        stop.check()
        addresses = services.addresses if services else _addresses(scenario)
        engine = stack.enter_context(
            launch(
                scenario.engine,
                directory / MATERIAL,
                directory,
                scenario.seed,
                with_tools=scenario.workload.chooses_tools,
            )
        )
        write_started(directory, Started(endpoint=engine.endpoint, tools=addresses))
        copy_into(directory, Path(scenario.results), facts.machine, facts.versions)
        stop.check()
        sockets = stack.enter_context(service_directory(HOST_PREFIX))
        spec = HostSpec(
            scenario=scenario,
            endpoint=engine.endpoint,
            addresses=addresses,
            run_dir=directory,
            run_id=facts.id,
            socket_path=sockets / "host",
        )
        hosts = [
            stack.enter_context(_start_host(spec, worker))
            for worker in range(scenario.load.workers)
        ]
        sampler = stack.enter_context(Sampler(engine.endpoint, directory / "engine.jsonl"))
        watch = Watch(scenario, display, services, engine, sampler, stop.check)
        _points(points, directory, hosts, watch)


def _start_host(spec: HostSpec, worker: int) -> HostProcess:
    """The episode host of one load worker."""
    name = f"host-{worker}" if worker else "host"
    socket_path = spec.socket_path.with_name(name)
    mine = msgspec.structs.replace(spec, worker=worker, socket_path=socket_path)
    return HostProcess.start(mine, spec.run_dir / "logs" / f"{name}.log", HOST_START_LIMIT_S)


def _points(
    planned: list[PlannedPoint], directory: Path, hosts: list[HostProcess], watch: Watch
) -> None:
    """The idle grid, then each load level. A point is written when it begins and when it ends."""
    load = hosts[0].spec.scenario.load
    points = Appender[PointRecord](directory / "points.jsonl")
    try:
        if load.grid_repeats and load.grid_prompt_tokens and load.grid_hit_rates:
            watch.begin(GRID_POINT, 1)
            points.append(_begun(GRID_POINT, PointKind.grid, 1))
            points.append(hosts[0].grid(watch.grid))
        for point in planned:
            watch.begin(point.name, point.users)
            points.append(_begun(point.name, PointKind.load, point.users, point.rate_per_s))
            log = directory / "logs" / "locust.log"
            points.append(
                drive_point(hosts, load_spec(hosts[0].spec, point), load, log, watch.load)
            )
    finally:
        points.close()


def _begun(point: str, kind: PointKind, users: int, rate_per_s: float | None = None) -> PointRecord:
    return PointRecord(
        point=point,
        kind=kind,
        users=users,
        rate_per_s=rate_per_s,
        started_ns=time.monotonic_ns(),
    )


def _plan(scenario: Scenario, material: Material) -> list[PlannedPoint]:
    """The points of the load. Raises ScenarioError when a trace names a task that is not there."""
    known = {task.id for task in (*material.tasks, *material.selection)}
    points = planned_points(scenario.load)
    for trace in scenario.load.traces:
        for arrival in read_trace(Path(trace)):
            if arrival.task and arrival.task not in known:
                raise ScenarioError(
                    f"load.traces={trace}: task={arrival.task}",
                    "is no task of the scenario's material",
                    "name a task of it, or leave `task` out to have one dealt",
                )
    return points


def _copy_trace(point: PlannedPoint, directory: Path) -> PlannedPoint:
    """The arrivals of a trace become part of the run."""
    if not point.trace:
        return point
    copy = directory / "material" / "arrivals" / f"{Path(point.trace).stem}.jsonl"
    lines = [msgspec.json.encode(arrival) + b"\n" for arrival in read_trace(Path(point.trace))]
    write_atomically(copy, b"".join(lines))
    return msgspec.structs.replace(point, trace=str(copy))


def _prepare(scenario: Scenario) -> Material:
    """The checked material; attached tools are opened once, so that none is missing later."""
    material = material_of(scenario, Path(scenario.results).resolve() / CACHE)
    if scenario.tools.source is ToolSource.attached:
        asyncio.run(check_toolbox(scenario.tools, _addresses(scenario), scenario.seed))
    return material


def _copy(material: Material, directory: Path) -> None:
    """What the agent is asked and shown becomes part of the run."""
    copy = directory / MATERIAL
    for name, tasks in (("tasks.jsonl", material.tasks), ("selection.jsonl", material.selection)):
        if tasks:
            lines = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
            write_atomically(copy / name, lines)
    write_atomically(copy / "tools.json", msgspec.json.encode(material.tools))


def _addresses(scenario: Scenario) -> ToolAddresses:
    tools = scenario.tools
    if tools.source is ToolSource.recorded:
        return ToolAddresses()
    return ToolAddresses(sql_dsn=tools.sql.dsn, vector_url=tools.vector.url, web_url=tools.web.url)


def _facts(scenario: Scenario, directory: Path) -> RunFacts:
    """What is known before anything has started; endpoint.json says the rest."""
    kind = scenario.engine.kind
    return RunFacts(
        id=directory.name if directory.parent.name == scenario.name else _launch_id(directory),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        scenario=scenario,
        endpoint=Endpoint(
            base_url="",
            model=scenario.engine.model,
            simulated=kind is EngineKind.simulated,
            label=scenario.engine.name,
        ),
        tools=_addresses(scenario),
        machine=machine_facts(),
        versions=versions(),
    )


def _launch_id(directory: Path) -> str:
    return f"{directory.parent.name}-{directory.name}"


def _portable(reason: str, directory: Path, run: str) -> str:
    """The reason without a path of this machine: a run may be moved."""
    return reason.replace(f"{directory}/", "").replace(str(directory), f"run {run}")


@contextmanager
def _told(directory: Path) -> Iterator[None]:
    """Tell what the system refuses (a path, a program, disk space) as an expected failure."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"run={directory}",
            f"the system refused something ({error})",
            "free disk space in results and in the temporary directory, or correct the path named",
        ) from error


class _Stop:
    """Whether a signal has asked for the end of the run.

    Between `release` and `hold` the first one raises Stopped where the main thread is. It is kept,
    so that `check` raises it again where that one was swallowed. Further signals change nothing.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._signal: signal.Signals | None = None
        self._held = True

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler of both signals."""
        if self._signal is not None:
            return
        self._signal = signal.Signals(number)
        if not self._held:
            self.check()

    def release(self) -> None:
        """From now on a signal raises Stopped, as one does that has come already."""
        self._held = False
        self.check()

    def hold(self) -> None:
        """From now on a signal is only kept: what is being written shall be whole."""
        self._held = True

    def check(self) -> None:
        """Raise Stopped when a signal has come."""
        if self._signal is not None:
            raise Stopped.by(self._signal, self._run)


@contextmanager
def _stoppable(run: str) -> Iterator[_Stop]:
    """Take SIGTERM and Ctrl-C while the block runs."""
    stop = _Stop(run)
    signals = (signal.SIGTERM, signal.SIGINT)
    previous = {one: signal.signal(one, stop.take) for one in signals}
    try:
        yield stop
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)
