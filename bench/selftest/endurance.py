"""Endurance: how many open connections the client holds, and whether its memory stays flat.

One process, the client alone, against the null server. Connections held: as many answers at
once, counted when all are open. Memory: answers one after another on 100
connections; the resident size is read after the first tenth and at the end.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from pathlib import Path

import msgspec
import psutil
import uvloop

from bench.client import Connection, complete
from bench.record import LLMOutcome, LLMRecord
from bench.selftest.bed import start_null_server
from bench.selftest.ladder import raised_file_limit
from bench.selftest.null_server import MODEL

HELD, HELD_QUICK = 10_000, 1_000
REQUESTS, REQUESTS_QUICK = 200_000, 10_000
WORKERS = 100
OPENING = 200  # connections opened at a time
TIMEOUT_S = 120.0
FILES_BESIDE = 100
MIB = 1 << 20


class Endurance(msgspec.Struct, frozen=True, kw_only=True):
    """What was held, and how the resident size grew."""

    wanted: int
    held: int
    file_limit: int
    requests: int
    failed: int
    seconds: float
    rss_early_bytes: int
    rss_late_bytes: int

    def told(self) -> str:
        """In two sentences."""
        growth = self.rss_late_bytes / self.rss_early_bytes - 1
        short = "" if self.held == self.wanted else (
            f" (the limit of open files is {self.file_limit}: raise it with `ulimit -n 65536`)"
        )  # fmt: skip
        return (
            f"Connections held: {self.held:,} of {self.wanted:,}{short}.\n"
            f"Memory over {self.requests:,} requests in {self.seconds:.0f} s, {self.failed} "
            f"failed: {self.rss_early_bytes / MIB:.1f} MiB after the first tenth, "
            f"{self.rss_late_bytes / MIB:.1f} MiB at the end ({growth:+.1%})."
        )


def endure(quick: bool) -> str:
    """Run both; the result in sentences. Raises LoadError when the null server fails."""
    with tempfile.TemporaryDirectory(prefix="bench-selftest-") as kept, raised_file_limit() as most:
        directory = Path(kept)
        wanted = HELD_QUICK if quick else HELD
        with start_null_server(directory, 20.0, 0.05) as slow:  # ends after all are open
            held = uvloop.run(hold(slow.url, min(wanted, most - FILES_BESIDE)))
        with start_null_server(directory, 0.001, 0.0) as fast:
            total = REQUESTS_QUICK if quick else REQUESTS
            failed, seconds, early, late = uvloop.run(repeat(fast.url, total))
    result = Endurance(
        wanted=wanted,
        held=held,
        file_limit=most,
        requests=total,
        failed=failed,
        seconds=seconds,
        rss_early_bytes=early,
        rss_late_bytes=late,
    )
    return result.told()


async def hold(url: str, wanted: int) -> int:
    """How many answers, all awaited at once, came whole."""
    connections = [Connection(url, {}) for _ in range(wanted)]
    running: list[asyncio.Task[LLMRecord]] = []
    for number, connection in enumerate(connections):
        running.append(asyncio.create_task(_ask(connection, number, 2)))
        if number % OPENING == 0:
            await asyncio.sleep(0.05)
    records = await asyncio.gather(*running)
    for connection in connections:
        await connection.close()
    starts = [record.sent_ns for record in records if record.outcome is LLMOutcome.ok]
    ends = [record.first_byte_ns for record in records if record.first_byte_ns is not None]
    last_sent_ns = max((ns for ns in starts if ns is not None), default=0)
    return sum(ns > last_sent_ns for ns in ends)  # open when the last one was


async def repeat(url: str, total: int) -> tuple[int, float, int, int]:
    """(failed, seconds, early and late resident bytes) of so many requests."""
    left = total
    failed = 0
    process = psutil.Process()
    early = 0

    async def work() -> None:
        nonlocal left, failed, early
        connection = Connection(url, {})
        while left > 0:
            left -= 1
            if left == total - total // 10:
                gc.collect()
                early = process.memory_info().rss
            record = await _ask(connection, left, 4)
            failed += record.outcome is not LLMOutcome.ok
        await connection.close()

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    gc.collect()
    return failed, time.monotonic() - began, early, process.memory_info().rss


async def _ask(connection: Connection, number: int, tokens: int) -> LLMRecord:
    blank = LLMRecord(
        point="endurance",
        user=number,
        episode=0,
        turn=0,
        scheduled_ns=time.monotonic_ns(),
        outcome=LLMOutcome.cut,
    )
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Go."}],
        "stream": True,
        "max_tokens": tokens,
    }
    return await complete(connection, body, blank, TIMEOUT_S)
