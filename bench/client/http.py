"""HTTP/1.1 over one kept-alive connection, stamped where the bytes arrive.

`data_received` is the hot path: one clock reading per segment, the parser (httptools), the body
appended, one (ns, offset) pair. Everything else happens after the stream ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import ssl
import time
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

import httptools
import msgspec

from bench.client.turns import Turns
from bench.errors import ConfigError

NS_PER_S = 1_000_000_000
BODY_LIMIT_BYTES = 64 * 1024 * 1024
HEAD_LIMIT_BYTES = 256 * 1024
# A kept connection that the server has closed shows within a round trip of the write. What breaks
# later was read by the server: its failure, not ours, and never sent again.
STALE_LIMIT_NS = NS_PER_S


class RawStream(msgspec.Struct, kw_only=True):
    """One answer as it arrived. Stamps are monotonic ns; a stamp that never came is None.

    `segments`: per arrived segment that brought body bytes, (ns, length of the body after it).
    `sent_ns`: right before the request was written; of the first writing if it was sent twice.
    `error`: empty when the answer arrived whole, whatever its status.
    `to_eof`: no length was announced, the end of the connection ended the body.
    `resent`: the kept connection turned out to be closed and the request was written once more.
    """

    sent_ns: int | None = None
    first_byte_ns: int | None = None
    done_ns: int | None = None
    segments: list[tuple[int, int]] = []
    body: bytearray = msgspec.field(default_factory=bytearray)
    status: int | None = None
    headers: dict[str, str] = {}
    error: str = ""
    to_eof: bool = False
    resent: bool = False


@functools.cache
def default_tls() -> ssl.SSLContext:
    """The system's trust (SSL_CERT_FILE is honoured), built once: it takes tens of ms."""
    return ssl.create_default_context()


class Connection:
    """One kept-alive connection to one server; one request at a time.

    base_url: http://HOST:PORT/v1 or https://...; headers: sent with every request, never logged.
    turns: shared by the connections of one event loop, so that their work does not pile up.
    Connects at the first request, and again whenever the server has closed the idle connection.
    Raises ConfigError when the URL or a header cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None = None,
        turns: Turns | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"url={base_url}", "is no http or https URL", "use http://HOST:PORT")
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"url={base_url}", str(error), "use a port below 65536") from error
        secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if secure else 80)
        self._tls = (tls or default_tls()) if secure else None
        self._prefix = parts.path.rstrip("/")
        netloc = parts.netloc.rpartition("@")[2]
        self._head = _head({"Host": netloc, **headers})
        self._protocol: _Protocol | None = None
        self._stream = RawStream()
        self.turns = turns or Turns()

    @property
    def stream(self) -> RawStream:
        """The answer now arriving, or the last one: what is left when a request is cancelled."""
        return self._stream

    async def post(self, path: str, body: bytes, timeout_s: float) -> RawStream:
        """Send a JSON body and wait for the whole answer, at most timeout_s.

        Never raises for a failure of the network or of the server: `RawStream.error` tells it.
        A cancelled request closes the connection and lets the cancellation pass.
        """
        stream = self._stream = RawStream(segments=[], headers={})
        line = f"POST {self._prefix}{path} HTTP/1.1\r\n".encode()
        request = b"%s%sContent-Length: %d\r\n\r\n%s" % (line, self._head, len(body), body)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self._exchange(stream, request)
        except asyncio.CancelledError:
            self._drop()
            raise
        except TimeoutError:
            self._drop()
            what = f"no complete answer within {timeout_s:g} s"
            _fail(stream, what if limit.expired() else "connecting timed out")
        except (OSError, UnicodeError) as error:  # refused, unreachable, no such host, TLS
            self._drop()
            _fail(stream, f"cannot connect: {error}")
        if stream.error:
            self._drop()
        return stream

    async def _exchange(self, stream: RawStream, request: bytes) -> None:
        protocol, kept = await self._connected()
        await protocol.exchange(stream, request)
        stale = kept and protocol.lost and stream.error and stream.first_byte_ns is None
        if not stale or stream.sent_ns is None or stream.done_ns is None:
            return
        if stream.done_ns - stream.sent_ns > STALE_LIMIT_NS:
            return
        stream.error, stream.done_ns, stream.resent = "", None, True
        protocol, _ = await self._connected()
        await protocol.exchange(stream, request)

    async def _connected(self) -> tuple[_Protocol, bool]:
        """A live connection, and whether it was kept from an earlier request."""
        if self._protocol is not None and self._protocol.usable:
            return self._protocol, True
        self._drop()
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(_Protocol, self._host, self._port, ssl=self._tls)
        self._protocol = protocol
        return protocol, False

    def _drop(self) -> None:
        if self._protocol is not None:
            self._protocol.abort()
            self._protocol = None

    async def close(self) -> None:
        """Close the connection and wait, briefly, until it is closed."""
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            await protocol.close()


class _Protocol(asyncio.Protocol):
    """The connection's callbacks; httptools calls the `on_` methods of the answer."""

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._stream: RawStream | None = None  # None between requests
        self._ended: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._fd = -1  # of a connection without TLS
        self._head_bytes = 0
        self._in_body = False
        self._complete = False
        self._keep = False
        self._extra = False

    @property
    def usable(self) -> bool:
        """True when another request may be written."""
        transport = self._transport
        return not self.lost and transport is not None and not transport.is_closing()

    async def exchange(self, stream: RawStream, request: bytes) -> None:
        """Write one request and wait until its answer ended, one way or another."""
        if self._stream is not None:
            raise RuntimeError("one request at a time: the last answer is still arriving")
        assert self._transport is not None
        self._stream = stream
        self._ended = asyncio.get_running_loop().create_future()
        self._head_bytes = 0
        self._in_body = self._complete = self._keep = self._extra = False
        now_ns = time.monotonic_ns()
        if stream.sent_ns is None:
            stream.sent_ns = now_ns
        self._write(request)
        await self._ended

    def _write(self, request: bytes) -> None:
        """Send now: uvloop keeps small writes back until every ready stream has been read."""
        transport, sent = self._transport, 0
        assert transport is not None
        if self._fd >= 0 and not transport.get_write_buffer_size():
            with contextlib.suppress(OSError):  # full, or broken: the transport will tell
                sent = os.write(self._fd, request)
        if sent < len(request):
            transport.write(request[sent:] if sent else request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Small writes leave at once."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):  # closed already, or no TCP socket
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if transport.get_extra_info("sslcontext") is None:
                self._fd = sock.fileno()

    def data_received(self, data: bytes) -> None:
        """Stamp, parse, keep."""
        now_ns = time.monotonic_ns()
        stream = self._stream
        if stream is None:  # bytes that nobody asked for
            self.abort()
            return
        if stream.first_byte_ns is None:
            stream.first_byte_ns = now_ns
        body = stream.body
        before = len(body)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(now_ns, f"malformed HTTP: {error}")
            self.abort()
            return
        after = len(body)
        if after > before:
            stream.segments.append((now_ns, after))
        if self._complete:
            self._end(now_ns, "")
            if not self._keep:
                self.abort()
            return
        if not self._in_body:
            self._head_bytes += len(data)
        if after > BODY_LIMIT_BYTES or self._head_bytes > HEAD_LIMIT_BYTES:
            self._end(now_ns, "the answer is too long")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the answer if it had no announced length, else its failure."""
        self.lost = True
        self._fd = -1  # its number may be another connection's soon
        if not self._closed.done():
            self._closed.set_result(None)
        stream = self._stream
        if stream is None:
            return
        whole = exc is None and self._in_body and stream.to_eof
        reason = f"connection broken: {exc}" if exc else "connection closed before the answer ended"
        self._end(time.monotonic_ns(), "" if whole else reason)

    def _end(self, now_ns: int, error: str) -> None:
        stream, ended = self._stream, self._ended
        self._stream = self._ended = None
        if stream is None or ended is None or ended.done():
            return  # cancelled meanwhile
        stream.done_ns = now_ns
        stream.error = error
        ended.set_result(None)

    def on_message_begin(self) -> None:
        """An answer to nothing, behind the one that was asked for: do not use it, nor the rest."""
        if self._complete:
            self._in_body = self._keep = False
            self._extra = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header under its lower-case name."""
        if self._stream is not None and not self._extra:
            self._stream.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Know the status, and how the body will end."""
        stream, status = self._stream, self._parser.get_status_code()
        if stream is None or status < 200 or self._extra:
            return
        stream.status = status
        self._in_body = True
        headers = stream.headers
        stream.to_eof = "content-length" not in headers and "chunked" not in headers.get(
            "transfer-encoding", ""
        )

    def on_body(self, data: bytes) -> None:
        """Keep body bytes."""
        if self._stream is not None and not self._extra:
            self._stream.body += data

    def on_message_complete(self) -> None:
        """The answer ended; an interim 1xx answer did not."""
        if self._in_body and not self._complete:
            self._complete = True
            self._keep = self._parser.should_keep_alive()
            if self._stream is not None:
                self._stream.to_eof = False

    def abort(self) -> None:
        """Drop the connection at once; an answer that was waited for is forgotten."""
        self._stream = None
        self._fd = -1
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Drop the connection and wait until the loop has let go of it."""
        self.abort()
        if not self.lost:
            await asyncio.wait({self._closed}, timeout=1.0)


def _fail(stream: RawStream, error: str) -> None:
    stream.done_ns = time.monotonic_ns()
    stream.error = error


def _head(headers: Mapping[str, str]) -> bytes:
    """The header lines that are the same for every request. Raises ConfigError."""
    fixed = {
        "User-Agent": "react-bench",
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    lines = []
    for name, value in {**fixed, **headers}.items():
        text = f"{name}: {value}"
        if "\r" in text or "\n" in text or not text.isascii():
            raise ConfigError(
                f"header={name!r}",
                "holds a line break or a character that is not ASCII",
                "correct it, or the environment variable it comes from",
            )
        lines.append(text)
    return ("\r\n".join(lines) + "\r\n").encode("ascii")
