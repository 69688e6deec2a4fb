"""Issuer: what all users or arrivals of one Locust process share at a point: plan, file, stop.

With several load workers, worker w of W has the users w, w + W, w + 2W, ... and the arrivals of
those numbers, whatever Locust's master deals out: nothing is lost and nothing is done twice.
"""

from __future__ import annotations

import itertools
import math
import socket
import time
from collections.abc import Iterator

import gevent.event
from locust.exception import StopUser

from bench.episode import Purpose, substream
from bench.errors import BenchError, RecordError
from bench.load.arrivals import (
    active_from_s,
    along_s,
    at_rate_s,
    profile_of,
    starts_s,
    unit_arrivals,
)
from bench.load.line import Op, Request, encode
from bench.load.spec import LoadSpec, Role
from bench.load.trace import Arrival, read_trace
from bench.record import NS_PER_S, ScheduledRecord
from bench.run import Appender

START_DELAY_S = 0.1  # between the plan of a point and its start, for users to connect


class Issuer:
    """The plan of a point's share, the file of scheduled lines, the stop.

    `stop` is set when the point shall end; `error` says why when it ends badly, `saturated` why
    when the engine did not keep up with the arrivals.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.stop = gevent.event.Event()
        self.error: BenchError | None = None
        self.saturated = ""
        self.profile = profile_of(spec.stages) if spec.stages else None
        self._trace = read_trace(spec.trace) if spec.trace else []
        self._scheduled: Appender[ScheduledRecord] = Appender(
            spec.run_dir / f"scheduled-{spec.worker}.jsonl"
        )
        self.restart(time.monotonic_ns())

    def restart(self, start_ns: int) -> None:
        """Count users from 0 and take start_ns as the start of the point."""
        spec = self.spec
        self._numbers = itertools.count(spec.worker, spec.workers)
        self._starts_s = list(starts_s(spec.seed, spec.users, spec.stagger_s))
        self._start_ns = start_ns

    def start_soon(self, start_ns: int | None = None) -> None:
        """Restart at start_ns (default: in a moment) and tell the host when the plan starts.

        A closed load starts with its first episode, so its host is told nothing. Raises OSError.
        """
        self.restart(start_ns or time.monotonic_ns() + int(START_DELAY_S * NS_PER_S))
        if self.spec.is_open or self.profile is not None:
            start = Request(op=Op.start, point=self.spec.point, scheduled_ns=self._start_ns)
            self._tell(start)

    def begin(self, **_: object) -> None:
        """Tell the host that the point begins: for a plain `locust -f`, where no drive does."""
        self._tell(Request(op=Op.begin, point=self.spec.point))
        self.start_soon()

    def _tell(self, request: Request) -> None:
        with self.connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(encode(request))
            lines.readline()

    def connect(self) -> socket.socket:
        """A connection to the host. Raises OSError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.spec.socket_path))
        return connection

    def enter(self) -> tuple[int, int | None]:
        """The next user's number and when its first episode is due, monotonic ns.

        None: it has none, because Locust's master started more users than the plan has.
        """
        number = next(self._numbers)
        if self.profile is not None:
            return number, self.active_ns(number, self._start_ns - 1)
        if number >= self.spec.users and self.spec.role is Role.worker:
            return number, None
        start_s = self._starts_s[number % len(self._starts_s)]
        return number, self.at_ns(start_s)

    def at_ns(self, at_s: float) -> int:
        """A time of the plan, seconds after its start, as monotonic ns."""
        return self._start_ns + int(at_s * NS_PER_S)

    def active_ns(self, user: int, due_ns: int) -> int | None:
        """due_ns, or when the steps let this user go on after it; None: never again.

        A user that comes in with a step starts within stagger_s of it.
        """
        if self.profile is None:
            return due_ns
        due_s = (due_ns - self._start_ns) / NS_PER_S
        at_s = active_from_s(self.profile, user, due_s)
        if at_s is None:
            return None
        if at_s <= due_s:
            return due_ns
        jitter = substream(self.spec.seed, user, 0, 0, Purpose.stagger).random()
        return self.at_ns(at_s + jitter * self.spec.stagger_s)

    def arrivals(self) -> Iterator[tuple[int, Arrival]]:
        """The numbered arrivals of this worker, in order, in seconds after the start."""
        spec = self.spec
        return itertools.islice(enumerate(self._all_arrivals()), spec.worker, None, spec.workers)

    def _all_arrivals(self) -> Iterator[Arrival]:
        spec = self.spec
        if spec.trace is not None:
            yield from (Arrival(each.at_s / spec.speed, each.task) for each in self._trace)
            return
        rng = substream(spec.seed, 0, 0, 0, Purpose.arrival)
        units = unit_arrivals(rng, spec.arrivals, spec.cv)
        rate_per_s = spec.rate_per_s or 0.0
        along = (
            at_rate_s(units, rate_per_s) if self.profile is None else along_s(units, self.profile)
        )
        yield from map(Arrival, along)

    @property
    def in_flight_limit(self) -> int:
        """This worker's part of load.max_in_flight."""
        return math.ceil(self.spec.max_in_flight / self.spec.workers)

    def issue(
        self,
        record: ScheduledRecord,
        connection: socket.socket,
        task: str = "",
        pooled: bool = False,
    ) -> None:
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
            task=task,
            pooled=pooled,
        )
        connection.sendall(encode(request))

    def fail(self, error: BenchError) -> None:
        """End the point with an error."""
        self.error = self.error or error
        self.stop.set()

    def saturate(self, due_ns: int) -> None:
        """End the point because too many episodes are in flight."""
        spec = self.spec
        self.saturated = (
            f"{spec.max_in_flight} episodes were in flight (load.max_in_flight) after "
            f"{(due_ns - self._start_ns) / NS_PER_S:.1f} s: the engine does not keep up with "
            f"{spec.rate_per_s or 0.0:.4g} episodes/s"
        )
        self.stop.set()
