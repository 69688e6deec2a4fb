"""Sampler: scrapes the engine's /metrics once a second into engine.jsonl, beside the load."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

import httpx

from bench.engine.attached import key_headers
from bench.engine.counters import sample
from bench.record import EngineSample
from bench.run import Appender, Endpoint

PERIOD_S = 1.0
TIMEOUT_S = 5.0


class Sampler:
    """A thread with a loop of its own. A failed scrape is counted in `failed` and writes nothing.

    `point` names the point that the next samples belong to. `check()`, and leaving the block in
    good order, raise whatever ended the thread, such as the RecordError of a full disk.
    Raises EngineError when the endpoint's key is not in the environment.
    """

    def __init__(self, endpoint: Endpoint, path: Path) -> None:
        self.point = ""
        self.failed = 0
        self._metrics_url = endpoint.metrics_url
        self._headers = key_headers(endpoint.key_env)
        self._path = path
        self._ended = threading.Event()
        self._future: Future[None] | None = None  # of the thread; None: there is nothing to scrape

    def check(self) -> None:
        """Raise what ended the sampling, if something did."""
        if self._future is not None and self._future.done():
            self._future.result()

    def __enter__(self) -> Sampler:
        if self._metrics_url:
            thread = ThreadPoolExecutor(1, thread_name_prefix="sampler")
            self._future = thread.submit(self._run)
            thread.shutdown(wait=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._future is not None:
            wait([self._future], PERIOD_S + TIMEOUT_S + 1.0)
        if error is None:
            self.check()

    def _run(self) -> None:
        asyncio.run(self._sample())

    async def _sample(self) -> None:
        samples = Appender[EngineSample](self._path)
        try:
            async with httpx.AsyncClient(
                headers=self._headers, timeout=TIMEOUT_S, trust_env=False
            ) as client:
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
            record = await sample(client, self._metrics_url, self.point)
        except (httpx.HTTPError, ValueError):
            self.failed += 1  # a gap in the series: unknown is not zero
        else:
            samples.append(record)
