"""Recorded tools: the stated delay, never less, and a toolbox of them."""

from __future__ import annotations

import asyncio
import json
import time

from bench.episode import ObservationOutcome
from bench.run import ToolAddresses
from bench.scenario import Tools, ToolSource
from bench.tools import open_toolbox
from bench.tools.recorded import RecordedTool, wait_until


def test_waits_at_least_the_stated_delay_and_hardly_longer() -> None:
    async def overshoots() -> list[float]:
        found = []
        for delay_s in (0.0, 0.0005, 0.003, 0.0101, 0.02):
            for _ in range(4):
                started_s = time.monotonic()
                await wait_until(started_s + delay_s)
                found.append(time.monotonic() - started_s - delay_s)
        return found

    found = asyncio.run(overshoots())
    assert min(found) >= 0
    assert sorted(found)[len(found) // 2] < 0.001  # the median: single ones feel the machine


def test_calls_overlap() -> None:
    async def run() -> float:
        tool = RecordedTool("sql_query", 0.2)
        started_s = time.monotonic()
        await asyncio.gather(*(tool.call({}) for _ in range(20)))
        await tool.close()
        return time.monotonic() - started_s

    assert asyncio.run(run()) < 20 * 0.2 / 2


def test_the_toolbox_holds_what_has_a_delay() -> None:
    tools = Tools(source=ToolSource.recorded, delays_s={"sql_query": 0.001, "web_search": 0.002})

    async def run() -> None:
        toolbox = await open_toolbox(tools, ToolAddresses(), 1)
        assert list(toolbox) == ["sql_query", "web_search"]
        found = await toolbox["web_search"].call({"query": "x"})
        assert found.outcome is ObservationOutcome.ok
        assert json.loads(found.content) == {"tool": "web_search", "recorded": True}

    asyncio.run(run())
