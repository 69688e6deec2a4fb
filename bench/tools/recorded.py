"""RecordedTool: a planned observation after a stated delay. It does not feel load."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from bench.episode import Observation

SPIN_S = 0.002  # event loops wake up to a millisecond early or late; the rest is yielded away


class RecordedTool:
    """A tool that answers after exactly `delay_s` seconds, whatever it is asked."""

    def __init__(self, name: str, delay_s: float) -> None:
        self.name = name
        self._delay_s = delay_s
        self._content = json.dumps({"tool": name, "recorded": True})

    async def call(self, arguments: dict[str, Any]) -> Observation:
        """Wait, then give the recorded observation."""
        await wait_until(time.monotonic() + self._delay_s)
        return Observation(content=self._content)

    async def close(self) -> None:
        """Nothing to give back."""


async def wait_until(deadline_s: float) -> None:
    """Sleep until `time.monotonic()` has reached deadline_s, never earlier.

    Timers of event loops are a millisecond coarse: the last 2 ms are passed by yielding, which
    costs that much processor time and lets everything else run.
    """
    while (left_s := deadline_s - time.monotonic()) > 0:
        await asyncio.sleep(left_s - SPIN_S if left_s > SPIN_S else 0)
