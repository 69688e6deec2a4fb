"""Turns: building requests and reading answers, one at a time between two looks at the sockets.

When many streams start or end at once, the work on them would keep the event loop from stamping
the segments of the others for as long as all of it takes: 0.1 ms each, 50 ms for 500. With turns
it is the work on one. Whoever finds the loop free goes on at once.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """At most one turn per iteration of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Go on now if nobody took this iteration's turn, else when it is one's turn."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._pass_on, loop)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                loop.call_soon(self._pass_on, loop)
                return
        self._taken = False
