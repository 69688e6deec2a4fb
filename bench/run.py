"""Run: a directory that is opened, appended to, sealed, read.

    run.json           first, opened with mode "x": scenario, machine, versions
    endpoint.json      when everything has started: where engine and tools answer
    material/          the tasks and tool descriptions that the run used
    scheduled-*.jsonl  what Locust asked for
    episodes-*.jsonl   llm-*.jsonl   tools-*.jsonl   one file per episode host
    points.jsonl  engine.jsonl
    selftest.json      what load the client was proved to carry, if that is known
    logs/
    manifest.json      last: status, line counts, hashes
    analysis/          can be deleted and built again

A run without manifest.json was killed: its records are still readable, and it is incomplete.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bench.episode import Task, read_tasks
from bench.errors import RecordError
from bench.proof import SelfTest
from bench.record import (
    EngineSample,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointRecord,
    ScheduledRecord,
    ToolRecord,
)
from bench.scenario import Scenario

SCHEMA = "react-bench/run/1"
SELFTEST = "selftest.json"
RecordT = TypeVar("RecordT", bound=msgspec.Struct)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine answers. `label` is shown beside every number it gave."""

    base_url: str  # ends in /v1
    metrics_url: str = ""  # empty: the engine shows none
    model: str
    simulated: bool
    label: str
    profile_hash: str = ""  # of the simulated engine's profile
    version: str = ""
    key_env: str = ""


class ToolAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tools answer. No secrets: those stay in the environment."""

    sql_dsn: str = ""
    vector_url: str = ""
    web_url: str = ""
    embedded: bool = False
    versions: dict[str, str] = {}


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """run.json: what was run, on what. Written before anything is started.

    `endpoint` and `tools` are what is planned until endpoint.json says what answers.
    """

    schema: str = SCHEMA
    id: str
    created: str  # UTC, ISO 8601
    scenario: Scenario
    endpoint: Endpoint
    tools: ToolAddresses
    machine: dict[str, Any]
    versions: dict[str, str]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """endpoint.json: where the engine and the tools of a run answer."""

    endpoint: Endpoint
    tools: ToolAddresses


class FileFacts(msgspec.Struct, frozen=True):
    """Line count and hash of one record file."""

    lines: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """manifest.json: written last. `status` is complete or incomplete, with the reason."""

    schema: str = SCHEMA
    status: str
    reason: str = ""
    sealed: str
    scheduled: int
    episodes: int
    files: dict[str, FileFacts]


class Appender(Generic[RecordT]):
    """Appends records to one JSON-lines file, a line and a flush each.

    A full disk raises RecordError, then and at every later append: half a line is taken back and
    nothing follows it, so what was written before stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise _disk_error(path, error) from error
        self._whole_bytes = os.fstat(self._file.fileno()).st_size  # up to the last whole line
        self._failure: OSError | None = None

    def append(self, record: RecordT) -> None:
        """Write one record. Raises RecordError when the disk does not take it."""
        line = self._encoder.encode(record) + b"\n"
        if self._failure is not None:
            raise _disk_error(self.path, self._failure)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._failure = error
            with contextlib.suppress(OSError):  # it stays as a torn last line, which is readable
                self._file.truncate(self._whole_bytes)
            raise _disk_error(self.path, error) from error
        self._whole_bytes += len(line)

    def close(self) -> None:
        """Close the file; further appends fail."""
        self._file.close()


def _disk_error(path: Path, error: OSError) -> RecordError:
    return RecordError(
        f"records={path}",
        f"cannot be written ({error.strerror})",
        "free disk space or set results=DIR to another disk, then run again",
    )


def new_run_directory(results: Path, scenario: str) -> Path:
    """results/<scenario>/<UTC time>-<id>, not yet made."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return results / scenario / f"{stamp}-{secrets.token_hex(3)}"


def open_run(directory: Path, facts: RunFacts) -> None:
    """Make the directory and write run.json. Raises RecordError if it is there already."""
    try:
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        with (directory / "run.json").open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(facts), indent=1))
    except FileExistsError as error:
        raise RecordError(
            f"run={directory}", "holds a run already", "give the new run another directory"
        ) from error
    except OSError as error:
        raise _disk_error(directory, error) from error


def write_started(directory: Path, started: Started) -> None:
    """Write endpoint.json. Raises RecordError."""
    content = msgspec.json.format(msgspec.json.encode(started), indent=1)
    write_atomically(directory / "endpoint.json", content)


def seal_run(directory: Path, status: str, reason: str = "") -> Manifest:
    """Count and hash every record file and write manifest.json.

    A run whose episodes are not exactly the scheduled ones is incomplete, whatever was asked.
    Raises RecordError.
    """
    try:
        return _seal(directory, status, reason)
    except OSError as error:
        raise _disk_error(directory, error) from error


def _seal(directory: Path, status: str, reason: str) -> Manifest:
    files = _files_of(directory)
    scheduled = sum(f.lines for name, f in files.items() if name.startswith("scheduled-"))
    episodes = sum(f.lines for name, f in files.items() if name.startswith("episodes-"))
    if status == "complete" and (difference := _difference(directory)):
        status, reason = "incomplete", difference
    manifest = Manifest(
        status=status,
        reason=reason,
        sealed=datetime.now(UTC).isoformat(timespec="seconds"),
        scheduled=scheduled,
        episodes=episodes,
        files=files,
    )
    write_atomically(
        directory / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    )
    return manifest


def _files_of(directory: Path) -> dict[str, FileFacts]:
    return {path.name: _file_facts(path) for path in sorted(directory.glob("*.jsonl"))}


class _Key(msgspec.Struct, frozen=True):
    """Which episode a record belongs to."""

    point: str
    user: int
    episode: int


def _difference(directory: Path) -> str:
    """How the recorded episodes differ from the scheduled ones; empty when they are the same."""
    try:
        scheduled, episodes = (
            Counter(_read_records(directory, pattern, _Key, [0]))
            for pattern in ("scheduled-*.jsonl", "episodes-*.jsonl")
        )
    except RecordError as damaged:
        return str(damaged)
    if scheduled == episodes:
        return ""
    first = min(
        (scheduled - episodes) + (episodes - scheduled), key=lambda k: (k.point, k.user, k.episode)
    )
    return (
        f"{scheduled.total()} episodes were scheduled and {episodes.total()} recorded; the first "
        f"that differs is episode {first.episode} of user {first.user} at {first.point}: "
        f"scheduled {scheduled[first]} times, recorded {episodes[first]} times"
    )


def _file_facts(path: Path) -> FileFacts:
    content = path.read_bytes()
    return FileFacts(content.count(b"\n"), hashlib.sha256(content).hexdigest())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a derived file so that a reader sees the old or the new one, never half.

    Raises RecordError when the disk does not take it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise _disk_error(path, error) from error


class Run(msgspec.Struct, kw_only=True):
    """One run read back. `torn` counts unreadable last lines (the process was killed).

    `altered`: which record files are not those that were sealed; empty when all are.
    """

    directory: Path
    facts: RunFacts
    manifest: Manifest | None
    tasks: dict[str, Task]
    points: dict[str, PointRecord]
    scheduled: list[ScheduledRecord]
    episodes: list[EpisodeRecord]
    llm: list[LLMRecord]
    tools: list[ToolRecord]
    engine: list[EngineSample]
    selftest: SelfTest | None = None  # of the machine that drove the load
    torn: int = 0
    altered: str = ""
    lacks_material: bool = False  # material/ is gone: what was asked is not known

    @property
    def complete(self) -> bool:
        """True when the run was sealed as complete, is unaltered and has its material."""
        sealed = self.manifest is not None and self.manifest.status == "complete"
        return sealed and not self.altered and not self.lacks_material

    @property
    def served(self) -> bool:
        """True when at least one model call succeeded: else the run says nothing of its engine."""
        return any(call.outcome is LLMOutcome.ok for call in self.llm)

    @property
    def incomplete_reason(self) -> str:
        """Why the run is incomplete; empty when it is complete."""
        if self.manifest is None:
            return "the run was killed before it was sealed"
        if self.altered:
            return self.altered
        if self.manifest.status == "complete" and self.lacks_material:
            return "its material/ is missing, so nothing that needs the tasks is graded"
        return "" if self.complete else self.manifest.reason


def read_run(directory: Path) -> Run:
    """Read a run, sealed or not; the record files of a sealed one are held against its manifest.

    Raises RecordError when it is no run or a record is damaged.
    """
    facts = _read_struct(directory / "run.json", RunFacts)
    assert facts is not None
    started = _read_struct(directory / "endpoint.json", Started, required=False)
    if started is not None:
        facts = msgspec.structs.replace(facts, endpoint=started.endpoint, tools=started.tools)
    torn = [0]
    points = _read_records(directory, "points*.jsonl", PointRecord, torn)
    material = directory / "material"
    tasks = [task for path in sorted(material.glob("*.jsonl")) for task in read_tasks(path)]
    manifest = _read_struct(directory / "manifest.json", Manifest, required=False)
    return Run(
        directory=directory,
        facts=facts,
        manifest=manifest,
        tasks={task.id: task for task in tasks},
        points={point.point: point for point in points},
        scheduled=_read_records(directory, "scheduled-*.jsonl", ScheduledRecord, torn),
        episodes=_read_records(directory, "episodes-*.jsonl", EpisodeRecord, torn),
        llm=_read_records(directory, "llm-*.jsonl", LLMRecord, torn),
        tools=_read_records(directory, "tools-*.jsonl", ToolRecord, torn),
        engine=_read_records(directory, "engine*.jsonl", EngineSample, torn),
        selftest=_read_struct(directory / SELFTEST, SelfTest, required=False),
        torn=torn[0],
        altered="" if manifest is None else _altered(directory, manifest),
        lacks_material=not (material / "tools.json").exists(),
    )


def _altered(directory: Path, manifest: Manifest) -> str:
    found = _files_of(directory)
    names = sorted(
        name
        for name in found.keys() | manifest.files.keys()
        if found.get(name) != manifest.files.get(name)
    )
    return f"its records differ from the manifest: {', '.join(names)}" if names else ""


def find_runs(directory: Path) -> list[Path]:
    """The run directories of a run, or of a campaign (its launches are named 0, 1, 2, ...).

    A launch that has lost its run.json is among them. Raises RecordError if there is none, and for
    a folder of several runs, which were not made together.
    """
    if (directory / "run.json").exists():
        return [directory]
    children = [path for path in directory.glob("*") if path.is_dir()]
    launches = sorted((p for p in children if p.name.isdecimal()), key=lambda path: int(path.name))
    if any((path / "run.json").exists() for path in launches):
        return launches
    several = sorted(path for path in children if _holds_run(path))
    if several:
        raise RecordError(
            f"run={directory}",
            f"is no run but holds {len(several)}, each with a report of its own",
            f"name one run, e.g. {several[-1]}",
        )
    why = "holds no run.json" if directory.is_dir() else "is no directory"
    raise RecordError(f"run={directory}", why, "name a directory that `bench run` has made")


def _holds_run(directory: Path) -> bool:
    return (directory / "run.json").exists() or any(directory.glob("[0-9]*/run.json"))


def _read_struct(path: Path, kind: type[RecordT], required: bool = True) -> RecordT | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        if not required:
            return None
        raise RecordError(
            f"run={path.parent}", f"has no {path.name}", "name a directory that bench run has made"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise RecordError(
            f"file={path}", f"cannot be read ({error})", "read it with the version that wrote it"
        ) from error


def _read_records(
    directory: Path, pattern: str, kind: type[RecordT], torn: list[int]
) -> list[RecordT]:
    decoder = msgspec.json.Decoder(kind)
    records: list[RecordT] = []
    for path in sorted(directory.glob(pattern)):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                records.append(decoder.decode(line))
            except msgspec.MsgspecError as error:
                if number == len(lines):  # no newline after it: a write was cut off
                    torn[0] += 1
                    continue
                raise RecordError(
                    f"record={path}:{number}",
                    f"cannot be read ({error})",
                    "restore the file from its copy; records are never edited",
                ) from error
    return records
