"""HostSpec and LoadSpec: what each process of a load worker is told, as one JSON file each."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.errors import LoadError
from bench.load.plan import PlannedPoint
from bench.run import Endpoint, ToolAddresses, write_atomically
from bench.scenario import Arrivals, Scenario, Stage

SpecT = TypeVar("SpecT", "HostSpec", "LoadSpec")
SATURATED_CODE = 75  # exit code of a process of Locust that ended at max_in_flight
SOCKET_PATH_BYTES = 107  # sun_path of Linux, without its closing zero


class HostSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the episode host needs. Tasks and tool descriptions lie in run_dir/material."""

    scenario: Scenario
    endpoint: Endpoint
    addresses: ToolAddresses
    run_dir: Path
    run_id: str
    socket_path: Path
    worker: int = 0

    @property
    def material(self) -> Path:
        """Where tasks.jsonl, selection.jsonl and tools.json of this run are."""
        return self.run_dir / "material"


class Role(enum.Enum):
    """What a process of Locust is."""

    local = "local"  # alone: decides when users start, and runs them
    master = "master"  # decides when users start on the workers, serves the web page
    worker = "worker"  # runs its share of the users or arrivals


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of Locust needs for one point. `point` is its name in every record.

    Worker w of `workers` has the users and the arrivals whose number is w modulo `workers`.
    """

    socket_path: Path
    run_dir: Path
    point: str
    users: int
    seed: int
    duration_s: float = 25.0
    think_time_s: float = 0.0
    stagger_s: float = 0.0
    rate_per_s: float | None = None  # planned mean; None: users make the load
    arrivals: Arrivals = Arrivals.poisson
    cv: float = 0.0
    stages: list[Stage] = []
    trace: Path | None = None
    speed: float = 1.0
    max_in_flight: int = 4096  # of all workers together
    role: Role = Role.local
    worker: int = 0
    workers: int = 1
    master_host: str = "127.0.0.1"
    master_port: int = 0
    web: bool = False
    web_port: int = 8089

    @property
    def is_open(self) -> bool:
        """True when episodes arrive whether or not earlier ones have ended."""
        return self.rate_per_s is not None


def load_spec(spec: HostSpec, point: PlannedPoint) -> LoadSpec:
    """The LoadSpec of one point of the host's scenario."""
    load = spec.scenario.load
    return LoadSpec(
        socket_path=spec.socket_path,
        run_dir=spec.run_dir,
        point=point.name,
        users=point.users,
        seed=spec.scenario.seed,
        duration_s=point.duration_s,
        think_time_s=load.think_time_s,
        stagger_s=load.stagger_s,
        rate_per_s=point.rate_per_s,
        arrivals=load.arrivals,
        cv=load.cv,
        stages=load.stages,
        trace=Path(point.trace) if point.trace else None,
        speed=load.speed,
        max_in_flight=load.max_in_flight,
        worker=spec.worker,
        master_host=load.master_host,
        master_port=load.master_port,
        web=load.web,
        web_port=load.web_port,
    )


def point_spec(spec: HostSpec, point: str, users: int) -> LoadSpec:
    """The LoadSpec of one closed level of the host's scenario."""
    duration_s = spec.scenario.load.duration_s
    return load_spec(spec, PlannedPoint(name=point, users=users, duration_s=duration_s))


def write_spec(path: Path, spec: HostSpec | LoadSpec) -> None:
    """Write a spec as JSON. Raises LoadError for an over-long socket path, RecordError (disk)."""
    length = len(str(spec.socket_path).encode())
    if length > SOCKET_PATH_BYTES:
        raise LoadError(
            f"socket_path={spec.socket_path}",
            f"a Unix socket's path has at most {SOCKET_PATH_BYTES} bytes, this one has {length}",
            "set TMPDIR to a shorter directory",
        )
    write_atomically(path, msgspec.json.encode(spec, enc_hook=_path_out))


def read_spec(path: Path, kind: type[SpecT]) -> SpecT:
    """Read a spec back. Raises LoadError when the file is missing or not of this kind."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=_path_in)
    except (OSError, msgspec.MsgspecError) as error:
        raise LoadError(
            f"spec={path}", f"is no {kind.__name__} ({error})", "let bench.load.drive write it"
        ) from error


def _path_out(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _path_in(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(kind.__name__)
