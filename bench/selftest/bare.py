"""Bare: the least that a client can be, a uvloop protocol that only takes stamps.

`python -m bench.selftest.bare URL STREAMS REQUESTS TOKENS OUT`. No HTTP parser, no events, no
records: the first segment of an answer brings its first token, the one that ends with `0` its
last. What it reports on a given machine, no client in Python can report better.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.selftest.bed import WORDS
from bench.selftest.null_server import MODEL

NS_PER_MS = 1e6
PROMPT_WORDS = 400


class Seen(msgspec.Struct, frozen=True):
    """What a client reports: one value per request, milliseconds."""

    ttft_ms: list[float]
    tpot_ms: list[float]


class _Bare(asyncio.Protocol):
    def __init__(self, request: bytes, tokens: int, left: list[int], seen: Seen) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._tokens, self._left, self._seen = request, tokens, left, seen
        self._sent_ns = self._first_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def _next(self) -> None:
        if not self._left[0]:
            self._transport.close()
            self.ended.set_result(None)
            return
        self._left[0] -= 1
        self._first_ns = 0
        self._sent_ns = time.monotonic_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if not self._first_ns:
            self._first_ns = now_ns
        if data.endswith(b"0\r\n\r\n"):
            self._seen.ttft_ms.append((self._first_ns - self._sent_ns) / NS_PER_MS)
            if self._tokens > 1:
                span_ms = (now_ns - self._first_ns) / NS_PER_MS
                self._seen.tpot_ms.append(span_ms / (self._tokens - 1))
            self._next()


async def run_bare(url: str, streams: int, requests: int, tokens: int) -> Seen:
    """So many requests over so many connections, all started at once."""
    parts = urlsplit(url)
    body = msgspec.json.encode(
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": WORDS * (PROMPT_WORDS // 16)}],
            "stream": True,
            "max_tokens": tokens,
        }
    )
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: null\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    seen, left = Seen([], []), [requests]
    loop = asyncio.get_running_loop()

    async def one() -> None:
        _, protocol = await loop.create_connection(
            lambda: _Bare(head.encode() + body, tokens, left, seen),
            parts.hostname or "127.0.0.1",
            parts.port or 80,
        )
        await protocol.ended

    await asyncio.gather(*(one() for _ in range(streams)))
    return seen


def main(words: list[str]) -> int:
    """Run it; the exit code."""
    url, streams, requests, tokens, out = words
    seen = uvloop.run(run_bare(url, int(streams), int(requests), int(tokens)))
    Path(out).write_bytes(msgspec.json.encode(seen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
