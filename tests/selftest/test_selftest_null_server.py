"""The null server: right bytes, its own stamps in causal order, requests in any pieces."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.client import Connection, complete
from bench.record import LLMOutcome, LLMRecord
from bench.selftest.bed import NullServer, start_null_server
from bench.selftest.null_server import MODEL

LIMIT_S = 20.0
BLANK = LLMRecord(point="u1", user=0, episode=0, turn=0, scheduled_ns=0, outcome=LLMOutcome.cut)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NullServer]:
    with start_null_server(tmp_path, 0.02, 0.005) as server:
        yield server


def body(tokens: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Go."}]
    return {"model": MODEL, "messages": messages, "stream": True, "max_tokens": tokens, **fields}


def ask(server: NullServer, *bodies: dict[str, Any]) -> list[LLMRecord]:
    async def all_of() -> list[LLMRecord]:
        connections = [Connection(server.url, {}) for _ in bodies]
        asked = zip(connections, bodies, strict=True)
        records = await asyncio.gather(*(complete(c, b, BLANK, LIMIT_S) for c, b in asked))
        for connection in connections:
            await connection.close()
        return list(records)

    return asyncio.run(asyncio.wait_for(all_of(), LIMIT_S))


def test_the_ledger_and_the_client_agree_on_what_happened_first(server: NullServer) -> None:
    records = ask(server, *[body(6)] * 5)
    entries = {entry.number: entry for entry in server.ledger()}
    assert len(entries) == 5 and server.ledger() == []
    for record in records:
        assert record.outcome is LLMOutcome.ok, record.error
        assert record.output_tokens == record.chunks == 6
        entry = entries[int(record.content.split()[0])]
        assert record.sent_ns is not None and record.first_delta_ns is not None
        assert record.last_delta_ns is not None
        assert record.sent_ns <= entry.received_ns < entry.first_due_ns
        assert entry.first_due_ns - entry.received_ns == 20_000_000
        assert entry.last_due_ns - entry.first_due_ns == 5 * 5_000_000
        assert entry.first_due_ns <= entry.first_written_ns <= record.first_delta_ns
        assert entry.last_due_ns <= entry.last_written_ns <= record.last_delta_ns
        assert entry.late_ns_max >= entry.last_written_ns - entry.last_due_ns >= 0


def test_one_token_and_no_stream(server: NullServer) -> None:
    (single,) = ask(server, body(1))
    assert single.outcome is LLMOutcome.ok and single.chunks == 1 and single.tpot_s is None
    (whole,) = ask(server, body(3, stream=False))
    assert whole.outcome is LLMOutcome.ok and whole.collapsed and whole.output_tokens == 3


def test_what_other_load_generators_ask_first(server: NullServer) -> None:
    models = httpx.get(f"{server.url}/models", timeout=LIMIT_S).json()
    assert models["data"][0]["id"] == MODEL
    assert httpx.get(f"http://127.0.0.1:{server.port}/health", timeout=LIMIT_S).status_code == 200


def test_a_request_in_pieces_is_received_with_its_last_byte(server: NullServer) -> None:
    content = b'{"stream": true, "max_completion_tokens": 2}'
    wire = b"POST /v1/x HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content)
    with socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as connection:
        for piece in (wire[:9], wire[9:60], wire[60:-1]):
            connection.sendall(piece)
            time.sleep(0.02)
        before_ns = time.monotonic_ns()
        connection.sendall(wire[-1:])
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            piece = connection.recv(1 << 16)
            assert piece, received
            received += piece
    assert received.count(b'"content":') == 3 and b"[DONE]" in received  # the role, two tokens
    (entry,) = server.ledger()
    assert entry.tokens == 2 and entry.received_ns >= before_ns


def test_a_client_that_leaves_is_forgotten(server: NullServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as connection:
        content = b'{"stream": true, "max_tokens": 500}'
        head = b"POST /v1/x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(content)
        connection.sendall(head + content)
        assert connection.recv(100)
    (record,) = ask(server, body(4))
    assert record.outcome is LLMOutcome.ok
    assert [entry.tokens for entry in server.ledger()] == [4]
