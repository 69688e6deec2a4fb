"""What can the agent look up, and how long does each look-up really take?

In go the arguments of a call as the model wrote them; out comes an `Observation`: the text that
the model reads, and how the call ended. No equations: the latencies are those of real services
(PostgreSQL, Qdrant, SearXNG) or, in `recorded`, stated delays. The laws are fitted in `bench.fit`.

A tool never raises for a failed call: refusal, timeout and error are observations, as the agent's
rules demand (methods.md section 2).
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Protocol

from bench.episode import Observation
from bench.run import ToolAddresses
from bench.scenario import Tools, ToolSource
from bench.tools.recorded import RecordedTool


class Tool(Protocol):
    """One tool, ready to be called by many episodes at once."""

    name: str

    async def call(self, arguments: dict[str, Any]) -> Observation:
        """Execute one call. Raises nothing but asyncio.CancelledError."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


async def open_toolbox(tools: Tools, addresses: ToolAddresses, seed: int) -> dict[str, Tool]:
    """The tools of a run by canonical name, connected and checked.

    A real tool is opened when it has an address. `seed` is for tools that draw (none does yet).
    Raises ToolError when a service cannot be reached or lacks what the configuration names.
    """
    del seed
    match tools.source:
        case ToolSource.recorded:
            return {name: RecordedTool(name, delay) for name, delay in tools.delays_s.items()}
        case ToolSource.embedded | ToolSource.attached:
            return await _open_real(tools, addresses)


async def check_toolbox(tools: Tools, addresses: ToolAddresses, seed: int) -> None:
    """Open every tool and close it again. Raises ToolError as `open_toolbox` does."""
    for tool in (await open_toolbox(tools, addresses, seed)).values():
        await tool.close()


async def _open_real(tools: Tools, addresses: ToolAddresses) -> dict[str, Tool]:
    # Imported here: qdrant-client alone takes 0.8 s to import, and the embedded services, which
    # are modules of this package and start as processes of their own, need none of these.
    from bench.tools.embed import load_embedder
    from bench.tools.sql import open_sql
    from bench.tools.vector import open_vector
    from bench.tools.web import open_web

    toolbox: dict[str, Tool] = {}
    async with AsyncExitStack() as opened:

        def add(tool: Tool) -> None:
            opened.push_async_callback(tool.close)
            toolbox[tool.name] = tool

        if addresses.sql_dsn:
            add(await open_sql(tools.sql, addresses.sql_dsn))
        if addresses.vector_url:
            embedder = load_embedder()
            add(await open_vector(tools.vector, addresses.vector_url, embedder, addresses.embedded))
        if addresses.web_url:
            add(await open_web(tools.web, addresses.web_url, addresses.embedded))
        opened.pop_all()  # all are open: the caller closes them
    return toolbox


__all__ = ["Tool", "check_toolbox", "open_toolbox"]
