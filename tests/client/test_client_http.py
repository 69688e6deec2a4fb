"""The transport: what it keeps, what it stamps, how it fails."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.client.http import Connection, RawStream, _Protocol
from bench.errors import ConfigError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LIMIT_S = 10.0
Serve = Callable[..., Any]
Run = Callable[[Coroutine[Any, Any, None]], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def post(connection: Connection, body: bytes = b"{}", timeout_s: float = 5.0) -> RawStream:
    return await connection.post("/chat/completions", body, timeout_s)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test body on both event loops, within a limit."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def start(body: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(body, LIMIT_S))

    return start


def test_connection_is_kept_and_the_request_is_whole(serve: Serve, run: Run) -> None:
    async def body() -> None:
        async with serve([(0, OK)], [(0, OK)]) as server:
            connection = Connection(server.url, {"Authorization": "Bearer k"})
            first = await post(connection, b'{"a":1}')
            second = await post(connection)
            assert (first.status, bytes(first.body), first.error) == (200, b"hello", "")
            assert bytes(second.body) == b"hello" and not second.resent
            assert server.connections == 1
            head = server.requests[0]
            assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
            assert b"Host: localhost:%d\r\n" % server.port in head
            assert b"Authorization: Bearer k\r\n" in head and head.endswith(b'\r\n\r\n{"a":1}')
            await connection.close()

    run(body())


def test_each_segment_is_stamped_when_it_arrives(serve: Serve, run: Run) -> None:
    async def body() -> None:
        steps = [(0.03, HEAD), (0.03, chunk(b"one")), (0.03, chunk(b"two")), (0.03, b"0\r\n\r\n")]
        async with serve(steps) as server:
            connection = Connection(server.url, {})
            stream = await post(connection)
            await connection.close()
            assert bytes(stream.body) == b"onetwo" and stream.error == ""
            assert [end for _, end in stream.segments] == [3, 6]
            head_ns, one_ns, two_ns, end_ns = server.written_ns
            assert stream.sent_ns is not None and stream.first_byte_ns is not None
            assert stream.done_ns is not None
            assert stream.sent_ns <= head_ns <= stream.first_byte_ns <= one_ns
            # Causal, not timed: a segment is stamped before the server writes the next one.
            assert one_ns <= stream.segments[0][0] <= two_ns
            assert two_ns <= stream.segments[1][0] <= end_ns <= stream.done_ns

    run(body())


def test_a_server_that_is_not_there_is_an_error_not_an_exception(run: Run) -> None:
    async def body() -> None:
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        listener.close()
        await listener.wait_closed()
        stream = await post(Connection(f"http://127.0.0.1:{port}/v1", {}))
        assert "cannot connect" in stream.error
        assert stream.sent_ns is None and stream.status is None and stream.done_ns is not None
        stream = await post(Connection(f"http://{'x' * 64}.invalid", {}))
        assert "cannot connect" in stream.error

    run(body())


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_broken_answer_keeps_what_came(serve: Serve, run: Run, end: str) -> None:
    async def body() -> None:
        broken = [(0, HEAD + chunk(b"part")), (0.05, end)]
        async with serve(broken, [(0, OK)]) as server:
            connection = Connection(server.url, {})
            stream = await post(connection)
            assert stream.error and bytes(stream.body) == b"part" and stream.status == 200
            assert len(stream.segments) == 1 and not stream.resent
            again = await post(connection)  # on a connection of its own
            assert again.error == "" and server.connections == 2
            await connection.close()

    run(body())


def test_a_body_without_length_ends_with_the_connection(serve: Serve, run: Run) -> None:
    async def body() -> None:
        async with serve([(0, b"HTTP/1.1 200 OK\r\n\r\nall"), (0.02, "close")]) as server:
            stream = await post(Connection(server.url, {}))
            assert stream.error == "" and stream.to_eof and bytes(stream.body) == b"all"

    run(body())


@pytest.mark.parametrize(
    "wire",
    [b"no such protocol\r\n\r\n", HEAD + b"zz\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 400_000],
)
def test_malformed_http_is_an_error(serve: Serve, run: Run, wire: bytes) -> None:
    async def body() -> None:
        async with serve([(0, wire)]) as server:
            stream = await post(Connection(server.url, {}))
            assert "malformed HTTP" in stream.error or "too long" in stream.error

    run(body())


def test_timeout_ends_the_call_and_the_next_one_works(serve: Serve, run: Run) -> None:
    async def body() -> None:
        slow = [(0, HEAD + chunk(b"x")), (8.0, chunk(b"y"))]
        async with serve(slow, [(0, OK)]) as server:
            connection = Connection(server.url, {})
            stream = await post(connection, timeout_s=0.2)
            assert "within 0.2 s" in stream.error and bytes(stream.body) == b"x"
            assert stream.done_ns is not None
            assert (await post(connection)).error == ""
            await connection.close()

    run(body())


def test_an_idle_connection_that_the_server_closed_is_replaced(serve: Serve, run: Run) -> None:
    async def body() -> None:
        async with serve([(0, OK), (0, "close")], [(0, OK)]) as server:
            connection = Connection(server.url, {})
            assert (await post(connection)).error == ""
            await server.gone.wait()
            await asyncio.sleep(0.05)  # the end of the connection arrives here
            assert (await post(connection)).error == ""
            assert server.connections == 2
            await connection.close()

    run(body())


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_stale_connection_is_tried_once_more_and_said_so(
    serve: Serve, run: Run, end: str
) -> None:
    async def body() -> None:
        async with serve([(0, OK)], [(0, end)], [(0, OK)]) as server:
            connection = Connection(server.url, {})
            await post(connection)
            stream = await post(connection)
            assert stream.error == "" and stream.resent and server.connections == 2
            assert stream.sent_ns is not None and stream.first_byte_ns is not None
            await connection.close()

    run(body())


def test_only_once_and_never_on_a_fresh_connection(serve: Serve, run: Run) -> None:
    async def body() -> None:
        async with serve([(0, "close")]) as server:
            stream = await post(Connection(server.url, {}))
            assert stream.error and not stream.resent and len(server.requests) == 1
        async with serve([(0, OK)], [(0, "close")], [(0, "close")]) as server:
            connection = Connection(server.url, {})
            await post(connection)
            stream = await post(connection)
            assert stream.error and stream.resent and len(server.requests) == 3

    run(body())


def test_cancelling_passes_and_closes_the_connection(serve: Serve, run: Run) -> None:
    async def body() -> None:
        steps = [(0, HEAD + chunk(b"x")), *[(0.05, chunk(b"y"))] * 100]
        async with serve(steps) as server:
            connection = Connection(server.url, {})
            call = asyncio.create_task(post(connection))
            while not connection.stream.segments:
                await asyncio.sleep(0.005)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await (
                server.gone.wait()
            )  # the server sees the client leave, long before its script ends
            assert bytes(connection.stream.body).startswith(b"x")  # what came is still there
            assert connection.stream.sent_ns is not None

    run(body())


def test_interim_answers_and_bytes_behind_the_answer(serve: Serve, run: Run) -> None:
    async def body() -> None:
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        async with serve([(0, interim + OK)], [(0, OK + OK)], [(0, OK)]) as server:
            connection = Connection(server.url, {})
            for _ in range(3):
                stream = await post(connection)
                assert (stream.status, bytes(stream.body), stream.error) == (200, b"hello", "")
            assert server.connections == 2  # what answers nothing is not trusted further
            await connection.close()

    run(body())


def test_a_second_request_at_the_same_time_is_a_defect_of_the_caller(serve: Serve) -> None:
    async def body() -> None:
        async with serve([(0.2, OK)]) as server:
            connection = Connection(server.url, {})
            first = asyncio.create_task(post(connection))
            while not server.requests:
                await asyncio.sleep(0.005)
            with pytest.raises(RuntimeError, match="one request at a time"):
                await post(connection)
            assert (await first).error == ""
            await connection.close()

    asyncio.run(asyncio.wait_for(body(), LIMIT_S))


def test_tls(serve: Serve, run: Run, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, so no certificate can be made")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [openssl, *made, *named, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=30,
    )
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate, key)

    async def body() -> None:
        async with serve([(0, OK)], [(0, OK)], tls=server_side) as server:
            trusting = ssl.create_default_context(cafile=str(certificate))
            connection = Connection(server.url, {}, tls=trusting)
            assert bytes((await post(connection)).body) == b"hello"
            assert bytes((await post(connection)).body) == b"hello"
            assert server.connections == 1
            await connection.close()
            stranger = Connection(server.url, {})
            assert "certificate" in (await post(stranger)).error.lower()

    run(body())


def test_bad_urls_and_headers_are_refused_without_showing_a_secret() -> None:
    for url in ("ftp://host/v1", "localhost:8000", "http://host:99999/v1"):
        with pytest.raises(ConfigError, match="url="):
            Connection(url, {})
    with pytest.raises(ConfigError) as caught:
        Connection("http://host/v1", {"Authorization": "Bearer secret\r\nX: y"})
    assert "secret" not in str(caught.value)


class _NoTransport(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass


WIRES = [
    HEAD + chunk(b"data: a\n\n") + chunk(b"data: b\n\ndata: [DONE]\n\n") + b"0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WIRES), st.lists(st.integers(1, 200), max_size=12))
def test_an_answer_may_be_split_at_any_byte(wire: bytes, cuts: list[int]) -> None:
    async def body() -> None:
        bounds = [0, *sorted({cut for cut in cuts if cut < len(wire)}), len(wire)]
        whole, stream = (
            await _feed([wire]),
            await _feed([wire[a:b] for a, b in itertools.pairwise(bounds)]),
        )
        assert stream.error == "" and stream.body == whole.body and stream.status == 200
        ends = [end for _, end in stream.segments]
        stamps = [ns for ns, _ in stream.segments]
        assert ends == sorted(set(ends)) and ends[-1] == len(stream.body)
        assert stream.sent_ns is not None and stream.done_ns is not None
        assert [stream.sent_ns, *stamps, stream.done_ns] == sorted(
            [stream.sent_ns, *stamps, stream.done_ns]
        )

    asyncio.run(body())


async def _feed(segments: list[bytes]) -> RawStream:
    protocol, stream = _Protocol(), RawStream(segments=[], headers={})
    protocol.connection_made(_NoTransport())
    waiting = asyncio.create_task(protocol.exchange(stream, b""))
    await asyncio.sleep(0)
    for segment in segments:
        protocol.data_received(segment)
    await asyncio.wait_for(waiting, 1.0)
    assert stream.first_byte_ns is not None and stream.first_byte_ns <= time.monotonic_ns()
    return stream
