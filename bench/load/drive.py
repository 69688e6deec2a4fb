"""Drive: starts and stops the two processes of a load worker, for `measure`. No Locust here.

    with HostProcess.start(spec, log, limit_s) as host:
        grid = host.grid(on_progress)
        point = drive_point(host, point_spec(spec, "u8", 8), scenario.load, log, watch)

`watch` is called about four times a second; what it raises ends the point at once, its running
episodes recorded as cut.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.errors import (
    BenchError,
    ConfigError,
    LoadError,
    RecordError,
    ScenarioError,
    ToolError,
)
from bench.load.line import Done, Op, Progress, Reply, Request, decode_reply, encode
from bench.load.spec import HostSpec, LoadSpec, write_spec
from bench.load.status import HostStatus
from bench.process import Process
from bench.record import GRID_POINT, NS_PER_S, PointKind, PointRecord
from bench.scenario import Load

POLL_S = 0.25
ANSWER_LIMIT_S = 15.0
LOCUST_START_LIMIT_S = 60.0
IN_FLIGHT_S = 0.25  # for lines scheduled just before the end to reach the host
TOLD = (
    ConfigError,
    ScenarioError,
    ToolError,
    LoadError,
    RecordError,
)  # by a child, as its last line


class HostProcess:
    """The episode host as a child, and the blocking client of its socket.

    Every method raises LoadError when the host has died or does not answer in time, RecordError
    when it died because the disk took no more records.
    """

    def __init__(self, spec: HostSpec, process: Process) -> None:
        self.spec = spec
        self._process = process
        self._socket: socket.socket | None = None
        self._buffer = b""

    @classmethod
    def start(cls, spec: HostSpec, log: Path, limit_s: float) -> HostProcess:
        """Start the host and wait until its socket answers."""
        path = log.with_suffix(".json")
        write_spec(path, spec)
        process = Process("episode host", [sys.executable, "-m", "bench.load.host", str(path)], log)
        host = cls(spec, process)
        try:
            host._wait_ready(limit_s)
        except BaseException:
            host.close()
            raise
        return host

    def _wait_ready(self, limit_s: float) -> None:
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            self.check()
            with contextlib.suppress(OSError):
                self._connect()
                return
            time.sleep(0.05)
        raise LoadError(
            "episode host",
            f"was not ready within {limit_s:g} s ({self._process.last_words()})",
            f"read {self._process.log}",
        )

    @property
    def pid(self) -> int:
        """The host's process id."""
        return self._process.pid

    def check(self) -> None:
        """Raise LoadError or RecordError when the host has ended."""
        code = self._process.exit_code
        if code is not None:
            raise ended_error(self._process, code)

    def status(self, before_ns: int | None = None) -> HostStatus:
        """How the point stands; before_ns: count running episodes scheduled before it."""
        reply = self._ask(Request(op=Op.status, before_ns=before_ns))
        if not isinstance(reply, HostStatus):
            raise self._misunderstood(reply)
        return reply

    def begin(self, point: str) -> None:
        """Begin a point: counters from 0, salt `<run_id>/<point>`."""
        self._done(self._ask(Request(op=Op.begin, point=point)))

    def cut(self, scheduled: int | None = None) -> None:
        """End every running episode; returns when their records are written.

        scheduled: how many episodes of this point Locust has written to its file.
        """
        self._done(self._ask(Request(op=Op.cut, scheduled=scheduled), 2 * ANSWER_LIMIT_S))

    def grid(self, on_progress: Callable[[int, int], None]) -> PointRecord:
        """Run the idle grid of the scenario and return its PointRecord.

        on_progress(requests done, all) is called at least four times a second; what it raises
        ends the grid.
        """
        self.check()
        before = self.status()
        limit_s = self.spec.scenario.workload.request_timeout_s + ANSWER_LIMIT_S
        self._send(Request(op=Op.grid))
        seen = Progress(done=0, total=0)
        reply: Reply | None = seen
        last = time.monotonic()
        try:
            while not isinstance(reply, Done):
                if isinstance(reply, Progress):
                    seen, last = reply, time.monotonic()
                on_progress(seen.done, seen.total)
                if time.monotonic() - last > limit_s:
                    raise self._silent(limit_s)
                reply = self._receive(POLL_S)
        except BaseException:
            self._hang_up()
            raise
        self._done(reply)
        after = self.status()
        return PointRecord(
            point=GRID_POINT,
            kind=PointKind.grid,
            users=1,
            started_ns=before.ns,
            issued_until_ns=after.ns,
            ended_ns=after.ns,
            client_cpu=_cpu(before, after),
        )

    def close(self) -> None:
        """End the host: it cuts what runs and exits. Never raises for a host that is dead.

        What a signal raises meanwhile passes, when the host has ended.
        """
        try:
            if self._process.exit_code is None:
                with contextlib.suppress(*TOLD):  # not Stopped: a signal is told
                    self._ask(Request(op=Op.shutdown), 2 * ANSWER_LIMIT_S)
                    self._process.wait(ANSWER_LIMIT_S)
        finally:
            self._hang_up()
            self._process.stop()
            self.spec.socket_path.unlink(missing_ok=True)

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(self, request: Request, limit_s: float = ANSWER_LIMIT_S) -> Reply:
        try:
            self._send(request)
            reply = self._receive(limit_s)
            if reply is None:
                raise self._silent(limit_s)
        except BaseException:  # a signal too: the reply that may still come is not the next one
            self._hang_up()
            raise
        return reply

    def _send(self, request: Request) -> None:
        self.check()
        try:
            connection = self._connect()
            connection.settimeout(ANSWER_LIMIT_S)
            connection.sendall(encode(request))
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self, limit_s: float) -> Reply | None:
        """The next line within limit_s, else None."""
        limit = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left_s = limit - time.monotonic()
            if left_s <= 0:
                return None
            try:
                connection = self._connect()
                connection.settimeout(left_s)
                received = connection.recv(1 << 16)
            except TimeoutError:
                return None
            except OSError as error:
                raise self._lost(error) from error
            if not received:
                raise self._lost(EOFError("it hung up"))
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return decode_reply(line)
        except msgspec.MsgspecError as error:
            raise self._lost(error) from error

    def _connect(self) -> socket.socket:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(ANSWER_LIMIT_S)
                connection.connect(str(self.spec.socket_path))
            except OSError:
                connection.close()
                raise
            self._socket, self._buffer = connection, b""
        return self._socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket, self._buffer = None, b""

    def _done(self, reply: Reply) -> None:
        if not isinstance(reply, Done):
            raise self._misunderstood(reply)
        if reply.error:
            code = self._process.wait(ANSWER_LIMIT_S)  # it ends itself after an error
            if code is not None:
                raise ended_error(self._process, code)
            raise LoadError("episode host", reply.error, f"read {self._process.log}")

    def _lost(self, error: Exception) -> BenchError:
        self._hang_up()
        code = self._process.wait(2.0)  # a dying process closes its sockets first
        if code is not None:
            return ended_error(self._process, code)
        return LoadError(
            "episode host",
            f"the connection to it broke ({error}; {self._process.last_words()})",
            f"read {self._process.log}",
        )

    def _silent(self, limit_s: float) -> LoadError:
        return LoadError(
            "episode host",
            f"did not answer within {limit_s:g} s ({self._process.last_words()})",
            "lower load.users, or give the host a core of its own",
        )

    def _misunderstood(self, reply: Reply) -> LoadError:
        return LoadError(
            "episode host", f"gave an unexpected answer ({reply})", "use one version of bench"
        )


def ended_error(process: Process, code: int) -> BenchError:
    """Why a child of the load worker has ended: the error it told itself, or a LoadError."""
    for kind in TOLD:
        what, _, rest = process.last_words(1).partition(": ")
        why, _, remedy = rest.rpartition("; ")
        if code == kind.exit_code and why:
            return kind(what, why, remedy)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return LoadError(
        "load worker",
        f"{process.name} ended with {how} ({process.last_words()})",
        f"read {process.log}",
    )


def drive_point(
    host: HostProcess,
    load_spec: LoadSpec,
    load: Load,
    log: Path,
    watch: Callable[[HostStatus], None],
) -> PointRecord:
    """Run one load level: issue for load.duration_s, hold until the last member has ended.

    Whatever ends it (the plan, an error of Locust, host or disk, an exception of `watch`),
    Locust is stopped first, then the host cuts what runs, so each scheduled episode has one
    record. `error` of the record is set when load.hold_s was not enough.
    """
    spec_path = log.with_suffix(f".{load_spec.point}.json")
    write_spec(spec_path, load_spec)
    scheduled = load_spec.run_dir / f"scheduled-{load_spec.worker}.jsonl"
    offset = scheduled.stat().st_size if scheduled.exists() else 0
    host.begin(load_spec.point)
    command = [sys.executable, "-m", "bench.load.users", str(spec_path)]
    with Process("Locust", command, log) as locust:
        try:
            first = _wait_first(host, locust, watch)
            issued_until_ns = (first.first_scheduled_ns or first.ns) + int(
                load.duration_s * NS_PER_S
            )
            held = _hold(host, locust, issued_until_ns, load.hold_s, watch)
        except BaseException:
            locust.stop()
            with contextlib.suppress(*TOLD):
                host.cut(_lines_after(scheduled, offset))
            raise
        locust.stop()
    host.cut(_lines_after(scheduled, offset))
    ended = host.status()
    left = held.members_running or 0
    return PointRecord(
        point=load_spec.point,
        kind=PointKind.load,
        users=load_spec.users,
        started_ns=held.first_scheduled_ns or first.ns,
        issued_until_ns=issued_until_ns,
        ended_ns=ended.ns,
        client_cpu=_cpu(first, held),
        error="" if not left else f"{left} episodes still ran after load.hold_s={load.hold_s:g}",
    )


def _wait_first(
    host: HostProcess, locust: Process, watch: Callable[[HostStatus], None]
) -> HostStatus:
    """The status when the first episode of the point has arrived."""
    limit = time.monotonic() + LOCUST_START_LIMIT_S
    while time.monotonic() < limit:
        status = _look(host, locust, None, watch)
        if status.first_scheduled_ns is not None:
            return status
        time.sleep(POLL_S / 5)
    raise LoadError(
        "Locust",
        f"issued no episode within {LOCUST_START_LIMIT_S:g} s ({locust.last_words()})",
        f"read {locust.log}",
    )


def _hold(
    host: HostProcess,
    locust: Process,
    issued_until_ns: int,
    hold_s: float,
    watch: Callable[[HostStatus], None],
) -> HostStatus:
    """The status when the last member has ended, or when hold_s is over."""
    settled_ns = issued_until_ns + int(IN_FLIGHT_S * NS_PER_S)
    limit_ns = settled_ns + int(hold_s * NS_PER_S)
    while True:
        status = _look(host, locust, issued_until_ns, watch)
        if status.ns >= limit_ns or (status.ns >= settled_ns and not status.members_running):
            return status
        time.sleep(POLL_S)


def _look(
    host: HostProcess, locust: Process, before_ns: int | None, watch: Callable[[HostStatus], None]
) -> HostStatus:
    status = host.status(before_ns)
    watch(status)
    if (code := locust.exit_code) is not None:
        host.check()
        raise ended_error(locust, code)
    return status


def _lines_after(path: Path, offset: int) -> int:
    """How many lines were appended to a file after an offset."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(path.stat().st_size - offset).count(b"\n")


def _cpu(before: HostStatus, after: HostStatus) -> float | None:
    """CPU of the host between two looks, share of one core."""
    wall_s = (after.ns - before.ns) / NS_PER_S
    return (after.cpu_s - before.cpu_s) / wall_s if wall_s > 0 else None
