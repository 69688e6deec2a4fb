"""Null server: an engine that computes nothing and keeps an exact schedule, in its own process.

`python -m bench.selftest.null_server TTFT_S ITL_S PORTFILE`. A bare uvloop protocol, because it
must outrun the client. The first token of an answer is due TTFT_S after its request has arrived
whole, each further one ITL_S later. Due tokens wait in one heap; the stamp of a write is taken
right before the socket's own system call, on the monotonic clock that the client shares.

    POST any path    `max_tokens` chunks of one token each, vLLM's bytes; `"stream": true` or whole
    GET /ledger      one Entry a line for the answers ended since the last asking
    GET any other    a list of one model (what other load generators ask first)

The first token's text is the number of the answer, so that a record finds its Entry.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import uvloop

MODEL = "null-server"
NS_PER_S = 1_000_000_000
DEFAULT_TOKENS = 16
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_TOKENS = re.compile(rb'"max_(?:completion_)?tokens":\s*(\d+)')
_STREAM = re.compile(rb'"stream":\s*true')
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_MODELS = (
    b'{"object":"list","data":[{"id":"%s","object":"model","created":0,"owned_by":"bench",'
    b'"max_model_len":131072}]}' % MODEL.encode()
)


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """What the server did for one answer. Stamps are monotonic ns, written right before a send."""

    number: int
    received_ns: int  # the request had arrived whole
    tokens: int
    first_due_ns: int
    first_written_ns: int
    last_due_ns: int
    last_written_ns: int
    late_ns_max: int  # of any of its tokens


def chunk_line(text: str, role: bool = False, finish: str = "null") -> bytes:
    """One event of vLLM's stream, its bytes as vLLM writes them."""
    delta = f'{{"role":"assistant","content":"{text}"}}' if role else f'{{"content":"{text}"}}'
    event = (
        'data: {"id":"chatcmpl-5f2b1c0d9e8a47b6a1c2d3e4f5a6b7c8","object":"chat.completion.chunk",'
        f'"created":1767225600,"model":"{MODEL}","choices":[{{"index":0,"delta":{delta},'
        f'"logprobs":null,"finish_reason":{finish}}}]}}\n\n'
    )
    return event.encode()


def _framed(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


ROLE = _framed(chunk_line("", role=True))
TOKEN = _framed(chunk_line(" token"))
LAST = chunk_line(" token", finish='"stop"')
END = b"0\r\n\r\n"


class Answer:
    """One answer that is being written."""

    __slots__ = (
        "due_ns", "fd", "first_due_ns", "first_ns", "late_ns", "left", "number", "prompt_tokens",
        "protocol", "received_ns", "tokens",
    )  # fmt: skip

    def __init__(
        self, protocol: Protocol, number: int, tokens: int, ttft_ns: int, request_bytes: int
    ) -> None:
        self.protocol = protocol
        self.number = number
        self.tokens = self.left = tokens
        self.received_ns = time.monotonic_ns()
        self.first_due_ns = self.due_ns = self.received_ns + ttft_ns
        self.first_ns = 0
        self.late_ns = 0
        self.prompt_tokens = request_bytes // 4

    def tail(self) -> bytes:
        """What follows the last token, in the same write: usage and the end."""
        total = self.prompt_tokens + self.tokens
        usage = (
            f'data: {{"id":"chatcmpl-5f2b1c0d","object":"chat.completion.chunk","created":0,'
            f'"model":"{MODEL}","choices":[],"usage":{{"prompt_tokens":{self.prompt_tokens},'
            f'"total_tokens":{total},"completion_tokens":{self.tokens}}}}}\n\n'
        ).encode()
        return _framed(usage) + _framed(b"data: [DONE]\n\n") + END


class Schedule:
    """All answers in order of their next due token, and one timer for the earliest."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        self.ttft_ns = int(ttft_s * NS_PER_S)
        self.itl_ns = int(itl_s * NS_PER_S)
        self.ledger: list[Entry] = []
        self._heap: list[tuple[int, int, Answer]] = []
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._loop = asyncio.get_running_loop()

    def begin(self, protocol: Protocol, tokens: int, request_bytes: int) -> Answer:
        """Plan the first token of a new answer."""
        self._numbers += 1
        answer = Answer(protocol, self._numbers, tokens, self.ttft_ns, request_bytes)
        heapq.heappush(self._heap, (answer.due_ns, answer.number, answer))
        self._arm(answer.received_ns)
        return answer

    def _arm(self, now_ns: int) -> None:
        due_ns = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ns <= due_ns:
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        # libuv's timers count milliseconds: round up, so that none fires early and spins
        wait_ms = max(0, -((now_ns - due_ns) // 1_000_000))
        self._timer = self._loop.call_later(wait_ms / 1e3, self._fire)

    def _fire(self) -> None:
        self._timer = None
        heap, itl_ns = self._heap, self.itl_ns
        now_ns = time.monotonic_ns()
        while heap and heap[0][0] <= now_ns:
            due_ns, number, answer = heap[0]
            if answer.protocol.gone:
                heapq.heappop(heap)
                continue
            now_ns = answer.protocol.write_token(answer)
            answer.late_ns = max(answer.late_ns, now_ns - due_ns)
            if answer.left:
                answer.due_ns = due_ns + itl_ns
                heapq.heapreplace(heap, (answer.due_ns, number, answer))
            else:
                heapq.heappop(heap)
                self._end(answer, now_ns)
        if heap:
            self._arm(time.monotonic_ns())

    def _end(self, answer: Answer, now_ns: int) -> None:
        entry = Entry(
            answer.number, answer.received_ns, answer.tokens, answer.first_due_ns,
            answer.first_ns, answer.due_ns, now_ns, answer.late_ns,
        )  # fmt: skip
        self.ledger.append(entry)

    def take_ledger(self) -> Iterator[bytes]:
        """The entries since the last asking, a JSON line each."""
        entries, self.ledger = self.ledger, []
        return (msgspec.json.encode(entry) + b"\n" for entry in entries)


class Protocol(asyncio.Protocol):
    """One connection; requests one after another."""

    def __init__(self, schedule: Schedule) -> None:
        self.gone = False
        self._schedule = schedule
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._received = b""
        self._parts: list[bytes] = []  # of a long request
        self._missing = 0
        self._whole = False  # the request asked for no stream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the file descriptor: a write is one system call, not a queue."""
        self._transport = cast(asyncio.Transport, transport)
        self._fd = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        """What is still planned for it is dropped when it falls due."""
        self.gone = True

    def data_received(self, data: bytes) -> None:
        """Collect a request; plan its answer when its last byte is here."""
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        request = b"".join(self._parts) if len(self._parts) > 1 else data
        split = request.find(b"\r\n\r\n")
        if split >= 0:
            length = _LENGTH.search(request, 0, split)
            whole = split + 4 + (int(length[1]) if length else 0)
            self._missing = whole - len(request)
            if self._missing <= 0:
                self._parts.clear()
                self._missing = 0
                self._answer(request)
                return
        self._parts[:] = [request]

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET "):
            path = request.split(b" ", 2)[1]
            ledger = path == b"/ledger"
            self._reply(b"".join(self._schedule.take_ledger()) if ledger else _MODELS)
            return
        wanted = _TOKENS.findall(request)
        tokens = max(1, int(wanted[-1])) if wanted else DEFAULT_TOKENS
        self._whole = _STREAM.search(request) is None
        self._schedule.begin(self, tokens, len(request))

    def _reply(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._send(head % len(body) + body)

    def write_token(self, answer: Answer) -> int:
        """Write the next token of an answer; the stamp, right before the system call."""
        answer.left -= 1
        first = answer.first_ns == 0
        if self._whole:
            data = b""
            if not answer.left:
                data = self._whole_answer(answer)
        elif first:
            data = _HEAD + ROLE + _framed(chunk_line(f"{answer.number} "))
            if not answer.left:
                data += answer.tail()
        else:
            data = TOKEN if answer.left else _framed(LAST) + answer.tail()
        now_ns = time.monotonic_ns()
        if first:
            answer.first_ns = now_ns
        if data:
            self._send(data)
        return now_ns

    def _whole_answer(self, answer: Answer) -> bytes:
        text = f"{answer.number} " + " token" * (answer.tokens - 1)
        body = (
            f'{{"id":"chatcmpl-5f2b1c0d","object":"chat.completion","created":0,"model":"{MODEL}",'
            f'"choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},'
            f'"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{answer.prompt_tokens},'
            f'"completion_tokens":{answer.tokens},'
            f'"total_tokens":{answer.prompt_tokens + answer.tokens}}}}}'
        ).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body

    def _send(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        sent = 0
        if not transport.get_write_buffer_size():
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError:  # the peer has gone; connection_lost follows
                self.gone = True
                return
        if sent < len(data):
            transport.write(data[sent:])


async def serve(ttft_s: float, itl_s: float, port_file: Path) -> None:
    """Serve on a free port of the loopback, whose number goes to a file, until SIGTERM."""
    loop = asyncio.get_running_loop()
    schedule = Schedule(ttft_s, itl_s)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(lambda: Protocol(schedule), "127.0.0.1", 0, backlog=4096)
    partial = port_file.with_suffix(".part")
    partial.write_text(str(server.sockets[0].getsockname()[1]), encoding="ascii")
    partial.rename(port_file)
    gc.collect()
    gc.freeze()
    gc.disable()  # it makes no cycles but one per connection
    await ended.wait()
    server.close()


def main(arguments: list[str]) -> int:
    """Run the server; the exit code."""
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(float(arguments[0]), float(arguments[1]), Path(arguments[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
