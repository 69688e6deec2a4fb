"""Master: what decides when users start, beside whom they run: Locust's runners, shape and page.

master    waits until every worker has said `loaded`, sends all of them the start of the plan
          (`start`, wall clock, so that another machine can follow), then starts their users
worker    `follow_master`: says `loaded` when its plan is read, obeys
local     one process is both

python -m bench.load.users MASTER.json     # role: master, master_host, master_port, workers
python -m bench.load.users WORKER.json     # role: worker, worker: 0 .. workers - 1
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from typing import Any, Protocol

import gevent
import gevent.event
from locust import LoadTestShape, User
from locust.env import Environment
from locust.runners import Runner, WorkerRunner
from locust.stats import stats_history

from bench.errors import BenchError, LoadError
from bench.load.arrivals import Profile, profile_of
from bench.load.page import EVERY_S, Figures, add_figures
from bench.load.spec import LoadSpec
from bench.process import why_taken
from bench.record import NS_PER_S

USER_CLASS = "AgentUser"  # by this name the master starts users on workers
WEB_HOST = "127.0.0.1"
MASTER_DELAY_S = 0.5  # between the plan and its start, for the message to reach every worker
LOADED_LIMIT_S = 60.0
AHEAD_S = 3.0  # users are there so long before the profile needs them
SPAWN_PER_S = 10_000  # starts are staggered by the plan, not by Locust


class StartsSoon(Protocol):
    """What follows the master's start (`issuer.Issuer`)."""

    def start_soon(self, start_ns: int | None = None) -> None:
        """Take start_ns as the start of the plan."""


class ProfileShape(LoadTestShape):
    """Locust's count of users for a load in steps.

    It only grows, a little ahead of the profile: the plan says which users are active and parks
    the others, because Locust would stop users at random, in the middle of an episode.
    """

    def __init__(self, profile: Profile, workers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Locust's
        self._profile = profile
        self._workers = workers
        self._users = 1

    def tick(self) -> tuple[int, float]:
        """(users, users to start a second)."""
        now_s = self.get_run_time()  # type: ignore[no-untyped-call] # Locust's
        soon = max(self._profile.at(now_s), self._profile.at(now_s + AHEAD_S / 2))
        soon = max(soon, self._profile.at(now_s + AHEAD_S))
        self._users = max(self._users, math.ceil(soon))
        return rounded(self._users, self._workers), SPAWN_PER_S


def rounded(users: int, workers: int) -> int:
    """Users for Locust to start: as many on every worker, so that none lacks one of its own."""
    return workers * math.ceil(users / workers)


def spawn(runner: Runner, spec: LoadSpec) -> None:
    """Let Locust start the users of a point: the shape's, all, or one source per worker."""
    if spec.stages and not spec.is_open:
        runner.environment.shape_class = ProfileShape(profile_of(spec.stages), spec.workers)
        runner.start_shape()
    else:
        runner.start(planned_users(spec), spawn_rate=SPAWN_PER_S)


def guard_page(
    environment: Environment,
    spec: LoadSpec,
    stop: gevent.event.Event,
    fail: Callable[[BenchError], None],
) -> None:
    """Fail the point when Stop, New or Edit was pressed in Locust's page: the plan is not kept."""

    def check(user_count: int | None = None, **_: object) -> None:
        changed = user_count is None or (not spec.stages and user_count != planned_users(spec))
        if changed and not stop.is_set():
            fail(
                LoadError(
                    f"point={spec.point}",
                    "was stopped or changed in Locust's page before its end",
                    "leave the page's buttons alone, or set load.web=false, then run again",
                )
            )

    environment.events.test_stopping.add_listener(check)  # type: ignore[no-untyped-call]
    environment.events.spawning_complete.add_listener(check)  # type: ignore[no-untyped-call]


def planned_users(spec: LoadSpec) -> int:
    """How many users Locust shall hold at a point without stages."""
    return spec.workers if spec.is_open else rounded(spec.users, spec.workers)


def run_master(spec: LoadSpec) -> str:
    """Lead the workers until SIGTERM or SIGINT. Raises LoadError when they do not come."""
    stop, everyone = gevent.event.Event(), gevent.event.Event()
    errors: list[BenchError] = []

    def fail(error: BenchError) -> None:
        errors.append(error)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        for event in (stop, everyone):
            gevent.signal_handler(number, event.set)
    check_port("load.master_port", spec.master_host, spec.master_port)
    members = {"abstract": False, "tasks": [_nothing]}
    environment = Environment(user_classes=[type(USER_CLASS, (User,), members)])
    runner = environment.create_master_runner(spec.master_host, spec.master_port)
    loaded: set[int] = set()

    def on_loaded(environment: Environment, msg: Any, **_: object) -> None:
        loaded.add(msg.data["worker"])
        if len(loaded) == spec.workers:
            everyone.set()

    runner.register_message("loaded", on_loaded)
    if spec.web:
        serve_page(environment, spec.web_port)
    if not everyone.wait(LOADED_LIMIT_S):
        raise LoadError(
            f"load.workers={spec.workers}",
            f"{len(loaded)} of them reported to the master within {LOADED_LIMIT_S:g} s",
            "read logs/ of the run for why the others did not",
        )
    if stop.is_set():
        return ""
    unix_ns = time.time_ns() + int(MASTER_DELAY_S * NS_PER_S)
    runner.send_message("start", {"unix_ns": unix_ns})
    guard_page(environment, spec, stop, fail)
    spawn(runner, spec)
    stop.wait()
    runner.quit()
    if errors:
        raise errors[0]
    return ""


def _nothing(user: User) -> None:
    """The master runs no task."""


def follow_master(environment: Environment, spec: LoadSpec, issuer: StartsSoon) -> WorkerRunner:
    """Report to the master and follow its start; the worker's runner."""
    runner = environment.create_worker_runner(spec.master_host, spec.master_port)

    def on_start(environment: Environment, msg: Any, **_: object) -> None:
        issuer.start_soon(msg.data["unix_ns"] - time.time_ns() + time.monotonic_ns())

    runner.register_message("start", on_start)
    runner.send_message("loaded", {"worker": spec.worker})
    return runner


def serve_page(environment: Environment, port: int) -> None:
    """Locust's web page with our figures. Raises LoadError when the port is taken."""
    check_port("load.web_port", WEB_HOST, port, "or load.web=false")
    page = environment.create_web_ui(WEB_HOST, port)
    figures = add_figures(page, environment.stats)
    gevent.spawn(stats_history, environment.runner)
    gevent.spawn(_keep, figures)


def _keep(figures: Figures) -> None:
    while True:
        gevent.sleep(EVERY_S)
        figures.take(time.monotonic())


def check_port(key: str, host: str, port: int, otherwise: str = "or 0 for any") -> None:
    """Raise LoadError when a port is taken."""
    if taken := why_taken(host, port):
        raise LoadError(
            f"{key}={port}",
            f"Locust cannot listen there ({taken})",
            f"set {key} to a free port, {otherwise}",
        )
