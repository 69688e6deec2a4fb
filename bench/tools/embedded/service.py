"""HttpService: one of our own services as a child process, known ready by its /healthz."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import httpx
import msgspec

from bench.errors import ToolError
from bench.process import Process, free_port
from bench.scenario import Vector, Web

HOST = "127.0.0.1"
POLL_S = 0.05


class QdrantSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the vector service reads at its start."""

    host: str
    port: int
    directory: str  # for the engine's files
    collection: str
    documents: str  # JSON lines {"id", "text", "payload"}


class WebSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the web service reads at its start. Delays in seconds."""

    host: str
    port: int
    pages: str  # JSON lines {"url", "title", "content"}
    seed: int
    delay_s_p50: float
    delay_sigma: float
    delay_s_min: float
    delay_s_max: float
    failure_rate: float


class HttpService:
    """A service module of ours, its specification and, once started, its process."""

    def __init__(self, name: str, module: str, engine: str, spec: QdrantSpec | WebSpec) -> None:
        self.name = name
        self.url = f"http://{spec.host}:{spec.port}"
        self._module = module
        self._engine = engine  # the distribution whose version is recorded
        self._spec = spec
        self._process: Process | None = None
        self._spec_path = Path()

    def save(self, place: Path) -> None:
        """Write the specification that the process reads."""
        self._spec_path = place / f"{self.name}.json"
        self._spec_path.write_bytes(msgspec.json.encode(self._spec))

    def start(self, logs: Path) -> Process:
        """Start the process; it is ready when `ready` returns."""
        self._process = Process(
            self.name,
            [sys.executable, "-m", self._module, str(self._spec_path)],
            logs / f"{self.name}.log",
            env=_environment(),
        )
        return self._process

    @property
    def process(self) -> Process:
        """The started process."""
        assert self._process is not None, "start() comes first"
        return self._process

    async def ready(self, limit_s: float) -> str:
        """Wait until /healthz answers; the version of the engine inside.

        Raises ToolError when the process ends or limit_s have passed.
        """
        deadline_s = time.monotonic() + limit_s
        async with httpx.AsyncClient(
            base_url=self.url, timeout=1.0, trust_env=False, verify=False
        ) as client:  # plain HTTP on loopback: loading certificates would take 0.1 s
            while not await _healthy(client, self.process.pid):
                if self.process.exit_code is not None:
                    raise self._not_ready("ended while it started")
                if time.monotonic() > deadline_s:
                    raise self._not_ready(f"was not ready within {limit_s:g} s")
                await asyncio.sleep(POLL_S)
        return version(self._engine)

    def _not_ready(self, why: str) -> ToolError:
        return ToolError(
            f"service={self.name} at {self.url}",
            f"{why} ({self.process.last_words()})",
            "free the port, or raise tools.start_timeout_s, then run again",
        )


async def _healthy(client: httpx.AsyncClient, pid: int) -> bool:
    """True when our own process answers: another one may own the port."""
    try:
        response = await client.get("/healthz")
    except httpx.HTTPError:
        return False
    return response.status_code == httpx.codes.OK and response.text == health_text(pid)


def health_text(pid: int) -> str:
    """What /healthz of the service with this process id says."""
    return f"ready, process {pid}"


def _environment() -> Mapping[str, str]:
    """One thread per library: the services share the machine with what is measured."""
    return {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


def qdrant_service(settings: Vector, documents: Path, place: Path) -> HttpService:
    """The vector service over `documents`, its specification written."""
    spec = QdrantSpec(
        host=HOST,
        port=free_port(HOST),
        directory=str(place / "qdrant"),
        collection=settings.collection,
        documents=str(documents),
    )
    service = HttpService("qdrant", "bench.tools.embedded.qdrant", "qdrant-edge-py", spec)
    service.save(place)
    return service


def web_service(settings: Web, pages: Path, content_hash: str, place: Path) -> HttpService:
    """The web service over `pages`; the material's hash seeds its delays."""
    spec = WebSpec(
        host=HOST,
        port=free_port(HOST),
        pages=str(pages),
        seed=int.from_bytes(content_hash.encode()[:8]),
        delay_s_p50=settings.delay_s_p50,
        delay_sigma=settings.delay_sigma,
        delay_s_min=settings.delay_s_min,
        delay_s_max=settings.delay_s_max,
        failure_rate=settings.failure_rate,
    )
    service = HttpService("web", "bench.tools.embedded.web", "tantivy", spec)
    service.save(place)
    return service
