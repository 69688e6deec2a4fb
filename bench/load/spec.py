"""HostSpec and LoadSpec: what each process of a load worker is told, as one JSON file each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.errors import LoadError
from bench.run import Endpoint, ToolAddresses, write_atomically
from bench.scenario import Scenario

SpecT = TypeVar("SpecT", "HostSpec", "LoadSpec")
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


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What Locust needs for one point. `point` is the level's name in every record."""

    socket_path: Path
    run_dir: Path
    point: str
    users: int
    seed: int
    think_time_s: float = 0.0
    stagger_s: float = 0.0
    worker: int = 0
    web: bool = False
    web_port: int = 8089


def point_spec(spec: HostSpec, point: str, users: int) -> LoadSpec:
    """The LoadSpec of one load level of the host's scenario."""
    load = spec.scenario.load
    return LoadSpec(
        socket_path=spec.socket_path,
        run_dir=spec.run_dir,
        point=point,
        users=users,
        seed=spec.scenario.seed,
        think_time_s=load.think_time_s,
        stagger_s=load.stagger_s,
        worker=spec.worker,
        web=load.web,
        web_port=load.web_port,
    )


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
