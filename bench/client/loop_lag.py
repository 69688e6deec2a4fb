"""Loop lag: how late the event loop wakes, which delays every stamp taken on it."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import numpy as np

TICK_S = 0.02
RECENT = 2048  # ticks behind a quantile: the last 40 s


class LoopLag:
    """Wakes every 20 ms and notes by how much it was late. Costs about 0.1 % of a core.

    libuv counts whole milliseconds, so up to 1 ms is the timer's and not the loop's.
    """

    def __init__(self) -> None:
        self._late_s: deque[float] = deque(maxlen=RECENT)
        self._loop = asyncio.get_running_loop()
        self._due_s = 0.0
        self._timer = self._plan()

    def _plan(self) -> asyncio.TimerHandle:
        self._due_s = time.monotonic() + TICK_S
        return self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._late_s.append(max(0.0, time.monotonic() - self._due_s))
        self._timer = self._plan()

    def restart(self) -> None:
        """Forget what was noted."""
        self._late_s.clear()

    def p99_s(self) -> float | None:
        """The 99th percentile, seconds; None when nothing was noted yet."""
        return float(np.quantile(np.fromiter(self._late_s, float), 0.99)) if self._late_s else None

    def stop(self) -> None:
        """Wake no more."""
        self._timer.cancel()
