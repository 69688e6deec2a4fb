"""Watch: looks after a run while it lasts, for its display and for what may have died."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.dry_run import LAUNCH_OVERHEAD_S, planned_s
from bench.engine import RunningEngine
from bench.engine.sampler import Sampler
from bench.load.status import HostStatus
from bench.progress import Display, Progress
from bench.scenario import Scenario
from bench.tools.embedded import Services


class Watch:
    """Shows progress, and raises when the engine, a tool's service or the sampler has died.

    check_stop: raises Stopped when a signal has asked for the end of the run.
    """

    def __init__(
        self,
        scenario: Scenario,
        display: Display,
        services: Services | None,
        engine: RunningEngine,
        sampler: Sampler,
        check_stop: Callable[[], None],
    ) -> None:
        self._scenario = scenario
        self._display = display
        self._services = services
        self._engine = engine
        self._sampler = sampler
        self._check_stop = check_stop
        self._point, self._users = "", 0
        self._ends_s = time.monotonic() + planned_s(scenario) - LAUNCH_OVERHEAD_S

    def begin(self, point: str, users: int) -> None:
        """A point begins."""
        self._check_stop()
        self._point, self._users = point, users
        self._sampler.point = point

    def grid(self, done: int, total: int) -> None:
        """The grid goes on: so many of all requests are done."""
        self._check()
        self._show("grid", done, 0, None)

    def load(self, status: HostStatus) -> None:
        """A load level goes on."""
        self._check()
        errors = status.errors + status.tool_errors
        self._show("load", status.done, errors, status.ttft_s_p50)

    def _check(self) -> None:
        self._check_stop()
        self._engine.check()
        if self._services is not None:
            self._services.check()
        self._sampler.check()

    def _show(self, phase: str, done: int, errors: int, ttft_s_p50: float | None) -> None:
        self._display.show(
            Progress(
                engine=self._scenario.engine.name,
                phase=phase,
                point=self._point,
                users=self._users,
                done=done,
                errors=errors,
                ttft_s_p50=ttft_s_p50,
                left_s=self._ends_s - time.monotonic(),
            )
        )
