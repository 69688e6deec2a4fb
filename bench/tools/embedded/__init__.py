"""Can this machine run the tools by itself? Real engines, started here, gone afterwards.

In go the tool settings and a scenario's material; out come addresses that the tools connect to
as they would connect to production: PostgreSQL (the real server's binaries), Qdrant's engine
behind its REST API, and a web search service of SearXNG's JSON shape with a stated latency law.
No equations but that law, in `web`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.errors import ToolError
from bench.material import Material
from bench.process import Process
from bench.run import ToolAddresses
from bench.scenario import Tools
from bench.tools.embedded.place import service_directory
from bench.tools.embedded.postgres import Postgres
from bench.tools.embedded.service import HttpService, qdrant_service, web_service


class Services:
    """The running services of one run."""

    def __init__(self, addresses: ToolAddresses, processes: list[Process]) -> None:
        self.addresses = addresses
        self._processes = processes

    @property
    def pids(self) -> dict[str, int]:
        """Process id by service name."""
        return {process.name: process.pid for process in self._processes}

    def check(self) -> None:
        """Raise ToolError, with its last log lines, when a service has died."""
        for process in self._processes:
            if process.exit_code is not None:
                raise died(process)


def died(process: Process) -> ToolError:
    """The error of a service that ended by itself."""
    return ToolError(
        f"service={process.name}",
        f"ended with exit code {process.exit_code} ({process.last_words()})",
        f"read {process.log}, then run again",
    )


@contextmanager
def start_services(tools: Tools, material: Material, directory: Path) -> Iterator[Services]:
    """Start PostgreSQL, the vector service and the web service, side by side.

    `directory` is the run directory: logs go to `directory/logs`. Call it from the main thread
    and outside an event loop: the kernel ends a child when the thread that started it ends.
    On leaving, the processes are stopped and their data removed.
    Raises ToolError when a service is not ready within `tools.start_timeout_s`, or its port is
    taken, or the material lacks an allowed table.
    """
    for corpus in (material.tables_sql, material.documents, material.pages):
        if not corpus.is_file():
            raise ToolError(
                f"material={material.directory}",
                f"has no {corpus.name} for the embedded tools",
                "add it to the scenario, or set tools=attached or recorded delays",
            )
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = stack.enter_context(service_directory())
        postgres = Postgres(place, logs, tools.start_timeout_s)
        stack.callback(postgres.stop)
        vector = qdrant_service(tools.vector, material.documents, place)
        web = web_service(tools.web, material.pages, material.content_hash, place)
        for service in (vector, web):
            stack.enter_context(service.start(logs))
        postgres.start()
        server, engine, index = asyncio.run(
            _ready(postgres, vector, web, tools, material.tables_sql, material.tables)
        )
        addresses = ToolAddresses(
            sql_dsn=postgres.agent_dsn,
            vector_url=vector.url,
            web_url=web.url,
            embedded=True,
            versions={"postgresql": server, "qdrant_edge": engine, "tantivy": index},
        )
        yield Services(addresses, [postgres.server, vector.process, web.process])


async def _ready(
    postgres: Postgres,
    vector: HttpService,
    web: HttpService,
    tools: Tools,
    ddl: Path,
    tables: list[Path],
) -> tuple[str, str, str]:
    """Load PostgreSQL and wait for the other two; their versions."""
    limit_s = tools.start_timeout_s
    tasks = [
        asyncio.ensure_future(postgres.load(ddl, tables, tools.sql)),
        asyncio.ensure_future(vector.ready(limit_s)),
        asyncio.ensure_future(web.ready(limit_s)),
    ]
    try:
        server, engine, index = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return server, engine, index


__all__ = ["Services", "start_services"]
