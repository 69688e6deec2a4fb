"""A server that writes exactly the scripted bytes at the scripted times."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

CLOSE = "close"  # a step that ends the connection in good order
RESET = "reset"  # a step that breaks it
Step = tuple[float, bytes | str]  # (delay before it in seconds, bytes or CLOSE or RESET)


class ScriptedServer:
    """Answers request n with scripts[n]: after each delay these bytes, or CLOSE or RESET."""

    def __init__(self, scripts: list[list[Step]], scheme: str) -> None:
        self.scripts = scripts
        self.scheme = scheme
        self.requests: list[bytes] = []
        self.connections = 0
        self.written_ns: list[int] = []  # right before each write
        self.gone = asyncio.Event()  # a client hung up
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/v1"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        await asyncio.wait({serving})

    async def stop(self) -> None:
        """End every connection; nothing is left for the garbage collector to warn of."""
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while request := await self._request(reader):
                self.requests.append(request)
                script = self.scripts[len(self.requests) - 1]
                for delay_s, step in script:
                    await asyncio.sleep(delay_s)
                    if step == RESET:
                        writer.transport.abort()
                        return
                    if step == CLOSE:
                        return
                    assert isinstance(step, bytes)
                    self.written_ns.append(time.monotonic_ns())
                    writer.write(step)
                    await writer.drain()
        except ConnectionError:
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            self.gone.set()
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head + await reader.readexactly(length)


Serve = Callable[..., AbstractAsyncContextManager[ScriptedServer]]


@pytest.fixture
def serve() -> Serve:
    @contextlib.asynccontextmanager
    async def start(
        *scripts: list[Step], tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[ScriptedServer]:
        scripted = ScriptedServer(list(scripts), "https" if tls else "http")
        listener = await asyncio.start_server(scripted.accept, "127.0.0.1", 0, ssl=tls)
        scripted.port = listener.sockets[0].getsockname()[1]
        try:
            yield scripted
        finally:
            listener.close()
            await scripted.stop()

    return start
