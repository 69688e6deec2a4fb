"""Scenario -> sealed Run: start the tools and the engine, replay the points, seal the records."""

from __future__ import annotations

import signal
import tempfile
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
from bench.errors import BenchError, Stopped
from bench.load.drive import HostProcess, drive_point
from bench.load.spec import HostSpec, point_spec
from bench.material import Material, load_material
from bench.progress import Display, Progress
from bench.record import GRID_POINT, PointKind, PointRecord
from bench.run import (
    Appender,
    Endpoint,
    Manifest,
    RunFacts,
    ToolAddresses,
    open_run,
    seal_run,
    write_atomically,
)
from bench.scenario import EngineKind, Scenario, ToolSource
from bench.selftest import copy_into
from bench.tools.embedded import Services, start_services
from bench.watch import Watch

HOST_START_LIMIT_S = 60.0
CACHE = ".cache"


def measure(scenario: Scenario, directory: Path, display: Display) -> Manifest:
    """Run one launch of a scenario into `directory` and seal it, whatever happens.

    Raises the BenchError that ended the run early, after sealing what was recorded as incomplete.
    """
    display.show(Progress(engine=scenario.engine.name, phase="start"))
    material = _load(scenario)  # before the first file: a scenario that cannot be run leaves none
    facts = _unstarted_facts(scenario, directory)
    try:
        with _stoppable(directory):
            _measure(scenario, directory, display, facts, material)
        display.show(Progress(engine=scenario.engine.name, phase="seal"))
        return seal_run(directory, "complete")
    except BenchError as error:
        _seal_incomplete(directory, facts, str(error))
        raise


def _measure(
    scenario: Scenario, directory: Path, display: Display, facts: RunFacts, material: Material
) -> None:
    _copy(material, directory)
    with ExitStack() as stack:
        services: Services | None = None
        if scenario.tools.source is ToolSource.embedded:
            services = stack.enter_context(start_services(scenario.tools, material, directory))
        addresses = services.addresses if services else _addresses(scenario)
        engine = stack.enter_context(
            launch(scenario.engine, material.directory, directory, scenario.seed)
        )
        facts = msgspec.structs.replace(facts, endpoint=engine.endpoint, tools=addresses)
        open_run(directory, facts)
        copy_into(directory, Path(scenario.results), facts.machine, facts.versions)
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        spec = HostSpec(
            scenario=scenario,
            endpoint=engine.endpoint,
            addresses=addresses,
            run_dir=directory,
            run_id=facts.id,
            socket_path=Path(sockets) / "host",
        )
        host = stack.enter_context(
            HostProcess.start(spec, directory / "logs" / "host.log", HOST_START_LIMIT_S)
        )
        sampler = stack.enter_context(Sampler(engine.endpoint, directory / "engine.jsonl"))
        _points(scenario, directory, host, Watch(scenario, display, services, engine, sampler))


def _points(scenario: Scenario, directory: Path, host: HostProcess, watch: Watch) -> None:
    """The idle grid, then each load level. A point is written when it begins and when it ends."""
    load = scenario.load
    points = Appender[PointRecord](directory / "points.jsonl")
    try:
        if load.grid_repeats and load.grid_prompt_tokens and load.grid_hit_rates:
            watch.begin(GRID_POINT, 1)
            points.append(_begun(GRID_POINT, PointKind.grid, 1))
            points.append(host.grid(watch.grid))
        for users in load.users:
            point = point_spec(host.spec, f"u{users}", users)
            watch.begin(point.point, users)
            points.append(_begun(point.point, PointKind.load, users))
            log = directory / "logs" / "locust.log"
            points.append(drive_point(host, point, load, log, watch.load))
    finally:
        points.close()


def _begun(point: str, kind: PointKind, users: int) -> PointRecord:
    return PointRecord(point=point, kind=kind, users=users, started_ns=time.monotonic_ns())


def _load(scenario: Scenario) -> Material:
    workload = scenario.workload
    return load_material(
        workload.material,
        workload.selection,
        workload.selection_items,
        scenario.seed,
        Path(scenario.results).resolve() / CACHE,
    )


def _copy(material: Material, directory: Path) -> None:
    """What the agent is asked and shown becomes part of the run."""
    copy = directory / "material"
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


def _unstarted_facts(scenario: Scenario, directory: Path) -> RunFacts:
    """What is known before anything has started; the endpoint is filled in later."""
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
        tools=ToolAddresses(),
        machine=machine_facts(),
        versions=versions(),
    )


def _launch_id(directory: Path) -> str:
    return f"{directory.parent.name}-{directory.name}"


def _seal_incomplete(directory: Path, facts: RunFacts, reason: str) -> None:
    """Seal what there is. A run that never started gets its run.json now, so it can be shown."""
    if not (directory / "run.json").exists():
        open_run(directory, facts)
    seal_run(directory, "incomplete", reason)


@contextmanager
def _stoppable(directory: Path) -> Iterator[None]:
    """Turn the first SIGTERM or Ctrl-C into Stopped, and ignore the next while it is handled."""

    def stop(number: int, frame: FrameType | None) -> None:
        for one in previous:
            signal.signal(one, signal.SIG_IGN)
        name = signal.Signals(number).name
        raise Stopped(f"run={directory}", f"was stopped by {name}", "start it again with bench run")

    signals = (signal.SIGTERM, signal.SIGINT)
    previous = {one: signal.signal(one, stop) for one in signals}
    try:
        yield
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)
