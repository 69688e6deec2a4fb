"""A tiny OpenAI server in a thread, and a run directory with recorded tools around it."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from bench.episode import PlannedCall, PlannedTurn, Task, ToolDescription, Workload
from bench.load.drive import HostProcess
from bench.load.spec import HostSpec
from bench.run import Endpoint, ToolAddresses
from bench.scenario import Arrivals, Engine, Load, Scenario, Slo, Tools, ToolSource
from bench.scenario import Workload as WorkloadSettings

CONNECTION_LIMIT_S = 20.0


class FakeEngine:
    """Calls vector_search once, then answers; each answer takes `answer_s`."""

    def __init__(self, answer_s: float = 0.05) -> None:
        self.answer_s = answer_s
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.port = 0
        self.accepted = 0  # connections
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._up.wait(5.0)

    def close(self) -> None:
        if self._thread.is_alive():
            assert self._stop is not None
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(5.0)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                self.headers.append(head)
                self.bodies.append(body)
                await self._stream(body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _stream(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        asked = any(message["role"] == "tool" for message in body["messages"])
        if body.get("tools") and not asked:
            call = {"name": "vector_search", "arguments": '{"query": "terms"}'}
            delta: dict[str, Any] = {
                "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]
            }
            reason = "tool_calls"
        else:
            delta, reason = {"content": "Forty two."}, "stop"
        words = sum(len((message["content"] or "").split()) for message in body["messages"])
        usage = {"prompt_tokens": 10 + words, "completion_tokens": 4, "total_tokens": 14 + words}
        await asyncio.sleep(self.answer_s / 2)
        _event(writer, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        await asyncio.sleep(self.answer_s / 2)
        _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        _event(writer, {"choices": [], "usage": usage})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    whole = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", **event}
    _chunk(writer, b"data: " + json.dumps(whole).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


def make_load(**changes: Any) -> Load:
    settings: dict[str, Any] = {
        "users": [3],
        "duration_s": 1.2,
        "hold_s": 5.0,
        "stagger_s": 0.3,
        "grid_prompt_tokens": [256, 700],
        "grid_hit_rates": [0.0, 0.5],
        "grid_repeats": 1,
    }
    settings |= changes
    if isinstance(settings.get("arrivals"), str):
        settings["arrivals"] = Arrivals(settings["arrivals"])
    return Load(**settings)


def make_spec(run_dir: Path, port: int, load: Load, sockets: Path) -> HostSpec:
    scenario = Scenario(
        name="test",
        engine=Engine(name="fake", kv_tokens=1 << 20),
        workload=WorkloadSettings(mix={"react_1": 1.0}, request_timeout_s=10.0),
        load=load,
        slo=Slo(),
        tools=Tools(source=ToolSource.recorded, delays_s={"vector_search": 0.01}),
    )
    return HostSpec(
        scenario=scenario,
        endpoint=Endpoint(
            base_url=f"http://127.0.0.1:{port}/v1",
            model="m",
            simulated=False,
            label="fake",
            key_env="TEST_LOAD_KEY",
        ),
        addresses=ToolAddresses(),
        run_dir=run_dir,
        run_id="r1",
        socket_path=sockets / "host",
    )


def write_material(run_dir: Path) -> None:
    material = run_dir / "material"
    material.mkdir()
    turn = PlannedTurn(calls=[PlannedCall(tool="vector_search", arguments={"query": "terms"})])
    tasks = [
        Task(
            id=f"t{number}",
            workload=Workload.react_1,
            question=f"Question {number}?",
            turns=[turn],
            facts=["Forty"],
        )
        for number in range(5)
    ]
    lines = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    (material / "tasks.jsonl").write_bytes(lines)
    tool = ToolDescription(
        tool="vector_search",
        strong_name="vector_search",
        strong_description="Search the clauses.",
        weak_name="search",
        weak_description="Search.",
        parameters={"type": "object", "properties": {"query": {"type": "string"}}},
    )
    (material / "tools.json").write_bytes(msgspec.json.encode([tool]))


Children = Callable[[str], list[psutil.Process]]


def _children(module: str) -> list[psutil.Process]:
    """The living child processes of this test that run a module."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if module in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture
def children() -> Children:
    return _children


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    engine = FakeEngine()
    yield engine
    engine.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_material(tmp_path)
    return tmp_path


@pytest.fixture
def spec(run_dir: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostSpec]:
    monkeypatch.setenv("TEST_LOAD_KEY", "sesame")
    with tempfile.TemporaryDirectory(prefix="bench-") as sockets:
        yield make_spec(run_dir, engine.port, make_load(), Path(sockets))


@pytest.fixture
def host(spec: HostSpec) -> Iterator[HostProcess]:
    with HostProcess.start(spec, spec.run_dir / "host.log", limit_s=30.0) as host:
        yield host
    assert not _children("bench.load.host")
    assert not _children("bench.load.users")
