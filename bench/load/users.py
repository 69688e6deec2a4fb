"""Users: Locust's side of a load worker. `python -m bench.load.users LOADSPEC.json`.

Locust is imported here, in `issuer` and in `master`, which run in processes of their own, because
importing it patches the process. A user writes the line of an episode to
scheduled-<worker>.jsonl, sends it to the episode host, waits cooperatively for the result,
thinks, and goes on. An arrival of an open load does the same without waiting for anyone. Nothing
is measured here: Locust's own statistics are for its web page. SIGTERM: no further episode is
issued, exit 0; the host ends what runs.

The scheduled time of an episode is planned, not observed: the start of its user, then the end
of the episode before plus the think time; or the time of its arrival. What Locust and the socket
take comes on top, as lag.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NoReturn

import gevent
import msgspec
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import Runner

from bench.errors import BenchError, LoadError
from bench.load.arrivals import think_times_s
from bench.load.issuer import Issuer
from bench.load.line import EpisodeReply, decode_reply
from bench.load.master import USER_CLASS, follow_master, guard_page, run_master, serve_page, spawn
from bench.load.spec import SATURATED_CODE, LoadSpec, Role, read_spec
from bench.load.trace import Arrival
from bench.record import NS_PER_S, EpisodeOutcome, ScheduledRecord

FAILED_PAUSE_S = 0.2  # at least, after a failed episode: a dead engine is not asked in a spin

logger = logging.getLogger(__name__)


class Line:
    """One connection to the episode host: an episode at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lines: BinaryIO = connection.makefile("rb")

    def reply(self) -> EpisodeReply:
        """Wait for the result. Raises OSError or ValueError when the host does not give one."""
        line = self._lines.readline()
        try:
            reply = decode_reply(line)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        if not isinstance(reply, EpisodeReply):
            raise ValueError(line.decode())
        return reply

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


class IssuingUser(User):
    """What users and arrivals have in common."""

    abstract = True
    issuer: ClassVar[Issuer]

    def connect(self) -> Line:
        """A connection to the host, or the end of the point."""
        try:
            return Line(self.issuer.connect())
        except OSError as error:
            self.host_gone(error)

    def host_gone(self, error: Exception) -> NoReturn:
        """End the point: the host does not answer."""
        self.issuer.fail(
            LoadError(
                f"socket={self.issuer.spec.socket_path}",
                f"the episode host does not answer ({error})",
                "read logs/ of the run for why it ended",
            )
        )
        raise StopUser from error

    def show(self, reply: EpisodeReply) -> None:
        """Feed Locust's own page."""
        failed = RuntimeError(reply.error or reply.outcome) if is_failed(reply) else None
        shown: list[tuple[str, float | None, Exception | None]] = [
            ("episode", reply.latency_ms, failed),
            ("ttft", reply.ttft_ms, None),
        ]
        for kind, milliseconds, exception in shown:
            if milliseconds is not None or exception is not None:
                self.environment.events.request.fire(
                    request_type=kind,
                    name=reply.workload,
                    response_time=milliseconds or 0.0,
                    response_length=0,
                    exception=exception,
                    context={},
                )


class EpisodeUser(IssuingUser):
    """One user: episodes one after another until it is stopped. Made by `user_class`."""

    abstract = True

    def on_start(self) -> None:
        """Connect, then wait for this user's start."""
        self.number, due_ns = self.issuer.enter()
        self.episodes = itertools.count()
        spec = self.issuer.spec
        self.thinking_s = think_times_s(spec.seed, self.number, spec.think_time_s)
        self._wait_until(due_ns)
        self.line = self.connect()
        _sleep_until(self.due_ns)

    @task
    def episode(self) -> None:
        """One episode and the pause after it."""
        if self.issuer.stop.is_set():
            raise StopUser
        record = ScheduledRecord(
            point=self.issuer.spec.point,
            user=self.number,
            episode=next(self.episodes),
            scheduled_ns=self.due_ns,
        )
        try:
            self.issuer.issue(record, self.line.connection)
            reply = self.line.reply()
        except (OSError, ValueError) as error:
            self.host_gone(error)
        self.show(reply)
        if reply.outcome == EpisodeOutcome.cut.value:  # the host has ended the point
            raise StopUser
        pause_s = next(self.thinking_s)
        if is_failed(reply):
            pause_s = max(pause_s, FAILED_PAUSE_S)
        due_ns = reply.done_ns + int(pause_s * NS_PER_S)
        self._wait_until(self.issuer.active_ns(self.number, due_ns))
        _sleep_until(self.due_ns)

    def _wait_until(self, due_ns: int | None) -> None:
        """Take the next due time; a user whose part is over waits for the end of the point."""
        if due_ns is None:
            self.issuer.stop.wait()
            raise StopUser
        self.due_ns = due_ns

    def on_stop(self) -> None:
        """Hang up."""
        if hasattr(self, "line"):
            self.line.close()


class ArrivalUser(IssuingUser):
    """The source of this process's arrivals: each is issued when due, whatever is in flight."""

    abstract = True

    def on_start(self) -> None:
        """Nobody is in flight yet."""
        self.in_flight = 0
        self.free: list[Line] = []

    @task
    def arrive(self) -> None:
        """All arrivals of this worker, then wait for the end of the point."""
        issuer = self.issuer
        for number, arrival in issuer.arrivals():
            due_ns = issuer.at_ns(arrival.at_s)
            if issuer.stop.wait(max(0.0, (due_ns - time.monotonic_ns()) / NS_PER_S)):
                raise StopUser
            if self.in_flight >= issuer.in_flight_limit:
                issuer.saturate(due_ns)
                raise StopUser
            self._issue(number, arrival, due_ns)
        issuer.stop.wait()
        raise StopUser

    def _issue(self, number: int, arrival: Arrival, due_ns: int) -> None:
        """Send one episode and leave its reply to a greenlet of its own."""
        line = self.free.pop() if self.free else self.connect()
        record = ScheduledRecord(
            point=self.issuer.spec.point, user=0, episode=number, scheduled_ns=due_ns
        )
        try:
            self.issuer.issue(record, line.connection, arrival.task, pooled=True)
        except OSError as error:
            self.host_gone(error)
        self.in_flight += 1
        gevent.spawn(self._await_reply, line)

    def _await_reply(self, line: Line) -> None:
        try:
            reply = line.reply()
        except (OSError, ValueError) as error:
            if not self.issuer.stop.is_set():
                with _stopping():
                    self.host_gone(error)
            return
        self.in_flight -= 1
        self.free.append(line)
        self.show(reply)


def is_failed(reply: EpisodeReply) -> bool:
    """True when a model call of the episode failed."""
    return reply.outcome == EpisodeOutcome.failed.value


def user_class(issuer: Issuer) -> type[IssuingUser]:
    """A Locust user class whose users share this issuer: users, or the source of arrivals."""
    members: dict[str, Any] = {"issuer": issuer, "abstract": False}
    kind = ArrivalUser if issuer.spec.is_open else EpisodeUser
    return type(USER_CLASS, (kind,), members)


def _sleep_until(due_ns: int) -> None:
    gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / NS_PER_S))


def _stopping() -> contextlib.suppress:
    """A greenlet of our own has no user for Locust to stop."""
    return contextlib.suppress(StopUser)


def run_users(spec: LoadSpec) -> str:
    """Issue episodes until SIGTERM or SIGINT; why the point is saturated, or "".

    Raises the BenchError that ended it, if one did.
    """
    issuer = Issuer(spec)
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, issuer.stop.set)
    environment = Environment(user_classes=[user_class(issuer)])
    gc.freeze()  # what importing has made is never looked at again: shorter pauses
    if spec.role is Role.worker:
        runner: Runner = follow_master(environment, spec, issuer)
    else:
        runner = environment.create_local_runner()
        if spec.web:
            serve_page(environment, spec.web_port)
        issuer.start_soon()
        guard_page(environment, spec, issuer.stop, issuer.fail)
        spawn(runner, spec)
    issuer.stop.wait()
    runner.quit()
    if issuer.error is not None:
        raise issuer.error
    return issuer.saturated


def main(arguments: list[str]) -> int:
    """Run the users, or the master, of a spec file; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        spec = read_spec(Path(arguments[0]), LoadSpec)
        saturated = run_master(spec) if spec.role is Role.master else run_users(spec)
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if saturated:
        sys.stderr.write(f"{saturated}\n")
        return SATURATED_CODE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
