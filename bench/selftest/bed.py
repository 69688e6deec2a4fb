"""Bed: a null server, an episode host and the material of one kind of request, ready for load.

The path is a run's own: Locust asks over the Unix socket, the host's agent builds the request,
the client sends it, the record is written. Only the engine is replaced.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import psutil

from bench.episode import Task, ToolDescription
from bench.episode import Workload as WorkloadName
from bench.errors import LoadError
from bench.load.drive import HostProcess
from bench.load.spec import HostSpec
from bench.process import Process
from bench.run import Endpoint, ToolAddresses
from bench.scenario import Engine, Load, Scenario, Slo, Tools, ToolSource, Workload
from bench.selftest.null_server import MODEL, Entry

START_LIMIT_S = 30.0
ASK_LIMIT_S = 30.0
CHARS_PER_TOKEN = 4
WORDS = "time year people way day thing world life hand part place case week company system "


class NullServer:
    """The null server's process, and what it says about itself."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self._facts = psutil.Process(process.pid)
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1"

    def cpu_s(self) -> float:
        """CPU time since its start, seconds. Raises LoadError when it has died."""
        try:
            times = self._facts.cpu_times()
        except psutil.Error as error:
            raise self._died() from error
        return float(times.user + times.system)

    def ledger(self) -> list[Entry]:
        """The answers that ended since the last asking. Raises LoadError when it has died."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}/ledger", timeout=ASK_LIMIT_S)
        except httpx.HTTPError as error:
            raise self._died() from error
        return [msgspec.json.decode(line, type=Entry) for line in answer.content.splitlines()]

    def _died(self) -> LoadError:
        return LoadError(
            "null server",
            f"does not answer ({self._process.last_words()})",
            f"read {self._process.log}",
        )


@contextmanager
def start_null_server(directory: Path, ttft_s: float, itl_s: float) -> Iterator[NullServer]:
    """The null server as a child, on a free port of the loopback. Raises LoadError."""
    port_file = directory / "null-server.port"
    port_file.unlink(missing_ok=True)
    words = ["-m", "bench.selftest.null_server", str(ttft_s), str(itl_s), str(port_file)]
    with Process("null server", [sys.executable, *words], directory / "null-server.log") as process:
        limit = time.monotonic() + START_LIMIT_S
        while not port_file.exists():
            if process.exit_code is not None or time.monotonic() > limit:
                raise LoadError(
                    "null server",
                    f"did not start ({process.last_words()})",
                    f"read {process.log}",
                )
            time.sleep(0.02)
        yield NullServer(process, int(port_file.read_text(encoding="ascii")))


def host_spec(
    directory: Path, sockets: Path, url: str, prompt_tokens: int, answer_tokens: int
) -> HostSpec:
    """One turn per episode: a question of a stated length, an answer of a stated length."""
    scenario = Scenario(
        name="selftest",
        engine=Engine(name="null", kv_tokens=1 << 20),
        workload=Workload(
            mix={WorkloadName.react_1.value: 1.0},
            max_tokens=answer_tokens,
            request_timeout_s=60.0,
        ),
        load=Load(users=[1]),
        slo=Slo(),
        tools=Tools(source=ToolSource.recorded, delays_s={"vector_search": 0.0}),
    )
    return HostSpec(
        scenario=scenario,
        endpoint=Endpoint(base_url=url, model=MODEL, simulated=False, label="null server"),
        addresses=ToolAddresses(),
        run_dir=directory,
        run_id=f"selftest-{prompt_tokens}",
        socket_path=sockets / f"host-{prompt_tokens}",
    )


def write_material(directory: Path, prompt_tokens: int) -> None:
    """The tasks and tools that the host of `host_spec` reads."""
    material = directory / "material"
    material.mkdir(parents=True, exist_ok=True)
    text = WORDS * (1 + prompt_tokens * CHARS_PER_TOKEN // len(WORDS))
    question = text[: prompt_tokens * CHARS_PER_TOKEN]
    tasks = [
        Task(id=f"q{number}", workload=WorkloadName.react_1, question=f"{number} {question}")
        for number in range(20)
    ]
    (material / "tasks.jsonl").write_bytes(
        b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    )
    tool = ToolDescription(
        tool="vector_search",
        strong_name="vector_search",
        strong_description="Search the clauses of the contracts by meaning.",
        weak_name="search",
        weak_description="Search.",
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    )
    (material / "tools.json").write_bytes(msgspec.json.encode([tool]))


@contextmanager
def start_host(
    directory: Path, sockets: Path, url: str, prompt_tokens: int, answer_tokens: int
) -> Iterator[HostProcess]:
    """An episode host whose every episode is one request to the null server. Raises LoadError."""
    write_material(directory, prompt_tokens)
    spec = host_spec(directory, sockets, url, prompt_tokens, answer_tokens)
    with HostProcess.start(spec, directory / "host.log", START_LIMIT_S) as host:
        yield host
