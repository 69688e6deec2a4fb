"""A scripted model behind an OpenAI-compatible face, tools that do as they are told, a sink."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from bench.episode import Observation, ToolDescription
from bench.record import EpisodeRecord, LLMRecord, ToolRecord

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
Calls = list[tuple[str, str]]  # (name, arguments as JSON text)


class FakeModel:
    """Answers request n with replies[n] (the last one again and again).

    A reply is a text (streamed word by word), a list of calls, an int (an HTTP error), or "" for
    an answer that never ends. `bodies` holds what was asked.
    """

    def __init__(self, replies: list[str | Calls | int], gap_s: float) -> None:
        self.replies = replies
        self.gap_s = gap_s
        self.bodies: list[dict[str, Any]] = []
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

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
        try:
            await self._answer(reader, writer)
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.bodies.append(json.loads(await reader.readexactly(length)))
                number = min(len(self.bodies), len(self.replies)) - 1
                await self._reply(self.replies[number], writer)

    async def _reply(self, reply: str | Calls | int, writer: asyncio.StreamWriter) -> None:
        if isinstance(reply, int):
            text = b'{"error": {"message": "no such thing"}}'
            writer.write(
                b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (reply, len(text), text)
            )
            return
        writer.write(HEAD)
        deltas = _text_deltas(reply) if isinstance(reply, str) else _call_deltas(reply)
        for delta in deltas:
            await asyncio.sleep(self.gap_s)
            await _send(writer, {"choices": [{"index": 0, "delta": delta}]})
        if reply == "":
            await _send(writer, {"choices": [{"index": 0, "delta": {"content": "endless"}}]})
            await asyncio.sleep(60)
        finish = "stop" if isinstance(reply, str) else "tool_calls"
        await asyncio.sleep(self.gap_s)  # the end comes after the last delta
        await _send(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        counts = {"prompt_tokens": 100, "completion_tokens": len(deltas)}
        await _send(writer, {"choices": [], "usage": counts})
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _text_deltas(text: str) -> list[dict[str, Any]]:
    return [{"content": word + " "} for word in text.split()]


def _call_deltas(calls: Calls) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": "Thinking. "}]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    return deltas


async def _send(writer: asyncio.StreamWriter, value: object) -> None:
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
    await writer.drain()


class FakeTool:
    """Plays its observations in turn (the last again and again) after `delay_s`.

    `meet`: with it, a call waits until that many calls run at the same time.
    """

    def __init__(
        self,
        name: str,
        observations: list[Observation],
        delay_s: float = 0.01,
        meet: asyncio.Barrier | None = None,
    ) -> None:
        self.name = name
        self.observations = observations
        self.delay_s = delay_s
        self.meet = meet
        self.asked: list[dict[str, Any]] = []

    async def call(self, arguments: dict[str, Any]) -> Observation:
        self.asked.append(arguments)
        number = min(len(self.asked), len(self.observations)) - 1
        if self.meet is not None:
            await self.meet.wait()
        await asyncio.sleep(self.delay_s)
        return self.observations[number]

    async def close(self) -> None:
        pass


class ListSink:
    """Keeps every record in the order of its arrival."""

    def __init__(self) -> None:
        self.records: list[LLMRecord | ToolRecord | EpisodeRecord] = []

    def llm(self, record: LLMRecord) -> None:
        self.records.append(record)

    def tool(self, record: ToolRecord) -> None:
        self.records.append(record)

    def episode(self, record: EpisodeRecord) -> None:
        self.records.append(record)

    @property
    def llms(self) -> list[LLMRecord]:
        return [record for record in self.records if isinstance(record, LLMRecord)]

    @property
    def tools(self) -> list[ToolRecord]:
        return [record for record in self.records if isinstance(record, ToolRecord)]

    @property
    def episodes(self) -> list[EpisodeRecord]:
        return [record for record in self.records if isinstance(record, EpisodeRecord)]


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def fake_tool() -> type[FakeTool]:
    return FakeTool


Serve = Callable[..., AbstractAsyncContextManager[FakeModel]]


@pytest.fixture
def serve() -> Serve:
    @contextlib.asynccontextmanager
    async def start(*replies: str | Calls | int, gap_s: float = 0.002) -> AsyncIterator[FakeModel]:
        model = FakeModel(list(replies), gap_s)
        listener = await asyncio.start_server(model.accept, "127.0.0.1", 0)
        model.port = listener.sockets[0].getsockname()[1]
        try:
            yield model
        finally:
            listener.close()
            await model.stop()

    return start


@pytest.fixture
def descriptions() -> list[ToolDescription]:
    def describe(tool: str, weak: str) -> ToolDescription:
        return ToolDescription(
            tool=tool,
            strong_name=tool,
            strong_description=f"Use {tool}. NOT for anything else.",
            weak_name=weak,
            weak_description="Gets data.",
            parameters={
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
            },
        )

    return [
        describe("vector_search", "search_docs"),
        describe("sql_query", "query_data"),
        describe("web_search", "search_web"),
    ]
