"""Real time for the scheduler: one timer that wakes at the end of each step.

The scheduler's own timeline decides when a token is due; the timer only follows it, so a late
wake-up delays one emission and never the ones after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.simulator.scheduler import Request, Scheduler, Tokens

SLACK_S = 0.0005  # uvloop's timers have whole milliseconds: half of one early is on time


class Job:
    """One request being served: its tokens arrive in `events`."""

    def __init__(self, id: int, arrived_s: float) -> None:
        self.id = id
        self.arrived_s = arrived_s
        self.events: asyncio.Queue[Tokens] = asyncio.Queue()


class Driver:
    """Runs a scheduler, or stated offsets (preset), on the event loop's clock."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.playing = 0
        self._jobs: dict[int, Job] = {}
        self._plays: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next_id = 0

    def submit(self, request: Request, arrived_s: float) -> Job:
        """Queue a request that arrived at arrived_s (loop time)."""
        job = Job(request.id, arrived_s)
        self._jobs[job.id] = job
        self._wake()
        self.scheduler.add(request, arrived_s)
        self._wake()
        return job

    def play(self, id: int, offsets_s: Sequence[float], arrived_s: float) -> Job:
        """Serve a request at stated offsets from its arrival."""
        job = Job(id, arrived_s)
        self._plays[id] = asyncio.get_running_loop().create_task(self._play(job, offsets_s))
        return job

    def new_id(self) -> int:
        """A request id that was never used."""
        self._next_id += 1
        return self._next_id

    def cancel(self, job: Job) -> None:
        """Forget a job whose client has gone; its blocks are free."""
        self._jobs.pop(job.id, None)
        self.scheduler.cancel(job.id)
        play = self._plays.pop(job.id, None)
        if play is not None:
            play.cancel()

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for event in self.scheduler.advance(loop.time() + SLACK_S):
            job = self._jobs.get(event.id)
            if job is not None:
                job.events.put_nowait(event)
                if event.finished:
                    del self._jobs[event.id]
        next_s = self.scheduler.next_s()
        if next_s is not None:
            self._timer = loop.call_at(max(next_s, loop.time()), self._wake)

    async def _play(self, job: Job, offsets_s: Sequence[float]) -> None:
        loop = asyncio.get_running_loop()
        self.playing += 1
        try:
            for number, offset_s in enumerate(offsets_s):
                due_s = job.arrived_s + offset_s
                if due_s - loop.time() > SLACK_S:
                    await asyncio.sleep(due_s - loop.time())
                finished = number == len(offsets_s) - 1
                job.events.put_nowait(Tokens(job.id, 1, due_s, finished, 0, job.arrived_s))
        finally:
            self.playing -= 1
            self._plays.pop(job.id, None)
