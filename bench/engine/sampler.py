"""Sampler: scrapes the engine's /metrics once a second into engine.jsonl, beside the load."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import httpx

from bench.engine.counters import sample
from bench.errors import RecordError
from bench.record import EngineSample
from bench.run import Appender, Endpoint

PERIOD_S = 1.0
TIMEOUT_S = 5.0


class Sampler:
    """A thread with a loop of its own. A failed scrape is counted, never written as zeros.

    `point` names the point that the next samples belong to. `check()` raises what ended the
    thread, such as a full disk.
    """

    def __init__(self, endpoint: Endpoint, path: Path) -> None:
        self.point = ""
        self.failed = 0
        self._endpoint = endpoint
        self._path = path
        self._error: RecordError | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def check(self) -> None:
        """Raise the RecordError that ended the sampling, if one did."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Sampler:
        if self._endpoint.metrics_url:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(PERIOD_S + TIMEOUT_S + 1.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._sample())
        except RecordError as error:
            self._error = error

    async def _sample(self) -> None:
        samples = Appender[EngineSample](self._path)
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
                while not self._ended.is_set():
                    next_s = time.monotonic() + PERIOD_S
                    if self.point:
                        await self._scrape(client, samples)
                    while time.monotonic() < next_s and not self._ended.is_set():
                        await asyncio.sleep(0.1)
        finally:
            samples.close()

    async def _scrape(self, client: httpx.AsyncClient, samples: Appender[EngineSample]) -> None:
        try:
            samples.append(await sample(client, self._endpoint.metrics_url, self.point))
        except httpx.HTTPError:
            self.failed += 1  # a gap in the series: unknown is not zero
