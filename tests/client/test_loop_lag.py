"""Loop lag: a loop that was blocked is seen to have been late."""

from __future__ import annotations

import asyncio
import time

from bench.client import LoopLag


def test_a_blocked_loop_is_late() -> None:
    async def body() -> None:
        lag = LoopLag()
        assert lag.p99_s() is None
        time.sleep(0.1)
        await asyncio.sleep(0.05)
        late_s = lag.p99_s()
        assert late_s is not None and late_s > 0.03
        lag.restart()
        assert lag.p99_s() is None
        lag.stop()
        await asyncio.sleep(0.05)
        assert lag.p99_s() is None

    asyncio.run(asyncio.wait_for(body(), 10.0))
