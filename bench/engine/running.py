"""RunningEngine: an endpoint and, where we started it, the process behind it."""

from __future__ import annotations

from bench.engine.health import check_process
from bench.process import Process
from bench.run import Endpoint


class RunningEngine:
    """An engine that answers. `process` is None for one that somebody else runs."""

    def __init__(self, endpoint: Endpoint, name: str, process: Process | None) -> None:
        self.endpoint = endpoint
        self._name = name
        self._process = process

    @property
    def pid(self) -> int | None:
        """The engine's process id, where it is ours."""
        return None if self._process is None else self._process.pid

    def check(self) -> None:
        """Raises EngineError with the last log lines when our process has died."""
        if self._process is not None:
            check_process(self._process, self._name)

    def stop(self) -> None:
        """End our process; nothing to do for an attached engine."""
        if self._process is not None:
            self._process.stop()
