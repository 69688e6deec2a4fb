"""Users: Locust's side of a load worker. `python -m bench.load.users LOADSPEC.json`.

The only module that imports Locust, because importing it patches the process. A user writes the
line of an episode to scheduled-<worker>.jsonl, sends it to the episode host, waits
cooperatively for the result, thinks, and goes on. Nothing is measured here: Locust's own
statistics are for its web page. SIGTERM: no further episode is issued, exit 0; the host ends
what runs.

The scheduled time of an episode is planned, not observed: the start of its user, then the end
of the episode before plus the think time. What Locust and the socket take comes on top, as lag.
"""

from __future__ import annotations

import gc
import itertools
import logging
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import gevent
import gevent.event
import msgspec
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.stats import stats_history

from bench.errors import BenchError, LoadError, RecordError
from bench.load.arrivals import starts_s, think_times_s
from bench.load.line import EpisodeReply, Op, Request, decode_reply, encode
from bench.load.spec import LoadSpec, read_spec
from bench.record import NS_PER_S, EpisodeOutcome, ScheduledRecord
from bench.run import Appender

START_DELAY_S = 0.1  # between the plan of a point and its start, for users to connect
FAILED_PAUSE_S = 0.2  # at least, after a failed episode: a dead engine is not asked in a spin
WEB_HOST = "127.0.0.1"

logger = logging.getLogger(__name__)


class Issuer:
    """What the users of one point share: the plan, the file of scheduled lines, the stop.

    `stop` is set when the point shall end; `error` says why when it ends badly.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.stop = gevent.event.Event()
        self.error: BenchError | None = None
        self._scheduled: Appender[ScheduledRecord] = Appender(
            spec.run_dir / f"scheduled-{spec.worker}.jsonl"
        )
        self.restart()

    def restart(self, **_: object) -> None:
        """Count users from 0 and take now as the start of the point."""
        self._numbers = itertools.count()
        self._starts_s = list(starts_s(self.spec.seed, self.spec.users, self.spec.stagger_s))
        self._start_ns = time.monotonic_ns() + int(START_DELAY_S * NS_PER_S)

    def enter(self) -> tuple[int, int]:
        """The next user's number and when its first episode is due, monotonic ns."""
        number = next(self._numbers)
        start_s = self._starts_s[number % len(self._starts_s)]
        return number, self._start_ns + int(start_s * NS_PER_S)

    def connect(self) -> socket.socket:
        """A connection to the host. Raises OSError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.spec.socket_path))
        return connection

    def begin(self, **_: object) -> None:
        """Tell the host that the point begins: for a plain `locust -f`, where no drive does."""
        with self.connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(encode(Request(op=Op.begin, point=self.spec.point)))
            lines.readline()
        self.restart()

    def issue(self, record: ScheduledRecord, connection: socket.socket) -> None:
        """Write the line and send it, without a switch to another user in between."""
        try:
            self._scheduled.append(record)
        except RecordError as error:
            self.fail(error)
            raise StopUser from error
        request = Request(
            op=Op.episode,
            point=record.point,
            user=record.user,
            episode=record.episode,
            scheduled_ns=record.scheduled_ns,
        )
        connection.sendall(encode(request))

    def check_page(self, user_count: int = 0, **_: object) -> None:
        """Fail when Stop, New or Edit was pressed in Locust's page: the plan is not kept.

        Called when users were spawned (user_count) and when the test stops.
        """
        if user_count != self.spec.users and not self.stop.is_set():
            self.fail(
                LoadError(
                    f"point={self.spec.point}",
                    "was stopped or changed in Locust's page before its end",
                    "leave the page's buttons alone, or set load.web=false, then run again",
                )
            )

    def fail(self, error: BenchError) -> None:
        """End the point with an error."""
        self.error = self.error or error
        self.stop.set()


class EpisodeUser(User):
    """One user: episodes one after another until it is stopped. Made by `user_class`."""

    abstract = True
    issuer: ClassVar[Issuer]

    def on_start(self) -> None:
        """Connect, then wait for this user's start."""
        self.number, self.due_ns = self.issuer.enter()
        self.episodes = itertools.count()
        spec = self.issuer.spec
        self.thinking_s = think_times_s(spec.seed, self.number, spec.think_time_s)
        try:
            self.connection = self.issuer.connect()
        except OSError as error:
            self._host_gone(error)
        self.lines = self.connection.makefile("rb")
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
            self.issuer.issue(record, self.connection)
            line = self.lines.readline()
            reply = decode_reply(line)
        except (OSError, msgspec.MsgspecError) as error:
            self._host_gone(error)
        if not isinstance(reply, EpisodeReply):
            self._host_gone(ValueError(line.decode()))
        self._show(reply)
        if reply.outcome == EpisodeOutcome.cut.value:  # the host has ended the point
            raise StopUser
        pause_s = next(self.thinking_s)
        if is_failed(reply):
            pause_s = max(pause_s, FAILED_PAUSE_S)
        self.due_ns = reply.done_ns + int(pause_s * NS_PER_S)
        _sleep_until(self.due_ns)

    def on_stop(self) -> None:
        """Hang up."""
        if hasattr(self, "connection"):
            self.connection.close()

    def _host_gone(self, error: Exception) -> NoReturn:
        self.issuer.fail(
            LoadError(
                f"socket={self.issuer.spec.socket_path}",
                f"the episode host does not answer ({error})",
                "read logs/ of the run for why it ended",
            )
        )
        raise StopUser from error

    def _show(self, reply: EpisodeReply) -> None:
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


def is_failed(reply: EpisodeReply) -> bool:
    """True when a model call of the episode failed."""
    return reply.outcome == EpisodeOutcome.failed.value


def user_class(issuer: Issuer) -> type[EpisodeUser]:
    """A Locust user class whose users share this issuer."""
    members: dict[str, Any] = {"issuer": issuer, "abstract": False}
    return type("AgentUser", (EpisodeUser,), members)


def _sleep_until(due_ns: int) -> None:
    gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / NS_PER_S))


def run_users(spec: LoadSpec) -> None:
    """Issue episodes until SIGTERM or SIGINT. Raises the BenchError that ended it, if one did."""
    issuer = Issuer(spec)
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, issuer.stop.set)
    environment = Environment(user_classes=[user_class(issuer)])
    runner = environment.create_local_runner()
    if spec.web:
        _check_port(spec.web_port)
        environment.create_web_ui(WEB_HOST, spec.web_port)
        gevent.spawn(stats_history, runner)
    gc.freeze()  # what importing has made is never looked at again: shorter pauses
    environment.events.test_stopping.add_listener(issuer.check_page)  # type: ignore[no-untyped-call]
    environment.events.spawning_complete.add_listener(issuer.check_page)  # type: ignore[no-untyped-call]
    issuer.restart()
    runner.start(spec.users, spawn_rate=spec.users)
    issuer.stop.wait()
    runner.quit()
    if issuer.error is not None:
        raise issuer.error


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((WEB_HOST, port))
        except OSError as error:
            raise LoadError(
                f"load.web_port={port}",
                f"Locust's page cannot be served there ({error.strerror})",
                "set load.web_port to a free port, or load.web=false",
            ) from error


def main(arguments: list[str]) -> int:
    """Run the users of a spec file; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        run_users(read_spec(Path(arguments[0]), LoadSpec))
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
