"""Calls of a turn: really parallel, retried at most once, every attempt recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.agent import Order
from bench.agent.toolbelt import Toolbelt
from bench.episode import Observation, ObservationOutcome, ToolCall, ToolDescription
from bench.errors import RecordError
from bench.record import ToolOutcome

LIMIT_S = 5.0
ORDER = Order(point="u1", user=3, episode=4, scheduled_ns=0, salt="s")
GOOD = Observation(content="fine é", rows=2)
BAD = Observation(content='{"error": "e"}', outcome=ObservationOutcome.error, error="e")
Make = Callable[..., Any]


def run(body: Any) -> Any:
    return asyncio.run(asyncio.wait_for(body, LIMIT_S))


def belt(
    descriptions: list[ToolDescription], sink: Any, *tools: Any, retries: int = 1, **more: Any
) -> Toolbelt:
    return Toolbelt(
        {tool.name: tool for tool in tools},
        descriptions,
        more.get("strong", True),
        retries,
        more.get("recorded", False),
        sink,
    )


def ask(name: str, arguments: str = '{"query": "q"}') -> ToolCall:
    return ToolCall("c", name, arguments)


def test_calls_of_one_turn_overlap(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    async def body() -> None:
        meet = asyncio.Barrier(3)  # nobody passes until all three are inside
        sql = fake_tool("sql_query", [GOOD], meet=meet)
        web = fake_tool("web_search", [GOOD], meet=meet)
        toolbelt = belt(descriptions, sink, sql, web)
        calls = [ask("sql_query"), ask("web_search"), ask("sql_query", '{"query": "other"}')]
        seen = await toolbelt.execute(ORDER, 2, calls)
        assert [each.content for each in seen] == ["fine é"] * 3
        records = sorted(sink.tools, key=lambda record: record.call)
        assert max(r.sent_ns for r in records) < min(r.done_ns for r in records)
        assert [r.in_flight for r in records] == [0, 0, 1]
        assert [(r.turn, r.call, r.attempt) for r in records] == [(2, n, 0) for n in range(3)]
        assert {r.bytes for r in records} == {len("fine é".encode())} and records[0].rows == 2
        assert [each.arrived_ns for each in seen] == [r.done_ns for r in records]

    run(body())


@pytest.mark.parametrize("outcome", [ObservationOutcome.error, ObservationOutcome.timeout])
def test_a_failure_is_retried_once_as_a_record_of_its_own(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make, outcome: ObservationOutcome
) -> None:
    failure = Observation(content="{}", outcome=outcome, error="why")
    tool = fake_tool("sql_query", [failure, GOOD])
    [seen] = run(belt(descriptions, sink, tool).execute(ORDER, 0, [ask("sql_query")]))
    assert seen.content == "fine é"
    assert [(r.attempt, r.outcome.value, r.error) for r in sink.tools] == [
        (0, outcome.value, "why"),
        (1, "ok", ""),
    ]
    assert sink.tools[1].sent_ns >= sink.tools[0].done_ns


def test_never_twice_and_a_refusal_never(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    refused = Observation(content="{}", outcome=ObservationOutcome.refused, error="not a SELECT")
    sql, web = fake_tool("sql_query", [refused]), fake_tool("web_search", [BAD])
    toolbelt = belt(descriptions, sink, sql, web)
    seen = run(toolbelt.execute(ORDER, 0, [ask("sql_query"), ask("web_search")]))
    assert len(sql.asked) == 1 and len(web.asked) == 2
    assert seen[1].content == '{"error": "e"}'
    assert len(belt(descriptions, sink, web, retries=0).faces) == 3
    run(belt(descriptions, sink, web, retries=0).execute(ORDER, 1, [ask("web_search")]))
    assert len(web.asked) == 3


def test_an_unknown_tool_and_bad_arguments_are_observations(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    sql = fake_tool("sql_query", [GOOD])
    toolbelt = belt(descriptions, sink, sql)
    calls = [ask("drop_table"), ask("sql_query", '{"query": "SEL'), ask("web_search")]
    seen = run(toolbelt.execute(ORDER, 0, calls))
    assert sql.asked == []
    outcomes = [r.outcome for r in sorted(sink.tools, key=lambda r: r.call)]
    # web_search is described but no such tool was opened: it cannot be called either.
    assert outcomes == [ToolOutcome.unknown, ToolOutcome.refused, ToolOutcome.unknown]
    for each, name in zip(seen, ["drop_table", "sql_query", "web_search"], strict=True):
        told = json.loads(each.content)
        assert told["error"] and told["tool"] == name


def test_weak_names_are_the_models_and_canonical_ones_the_records(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    sql = fake_tool("sql_query", [GOOD])
    toolbelt = belt(descriptions, sink, sql, strong=False, recorded=True)
    assert [face["function"]["name"] for face in toolbelt.faces] == [
        "search_docs",
        "query_data",
        "search_web",
    ]
    run(toolbelt.execute(ORDER, 0, [ask("query_data"), ask("sql_query")]))
    good, unknown = sorted(sink.tools, key=lambda r: r.call)
    assert (good.tool, good.name, good.outcome) == ("sql_query", "query_data", ToolOutcome.ok)
    assert good.recorded and unknown.outcome is ToolOutcome.unknown
    planned = toolbelt.call_of("id", "sql_query", None, "How many é?")
    assert planned == ToolCall("id", "query_data", '{"query": "How many é?"}')


def test_a_cut_call_is_recorded_as_cut(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    async def body() -> None:
        slow, quick = fake_tool("web_search", [GOOD], delay_s=60), fake_tool("sql_query", [GOOD])
        toolbelt = belt(descriptions, sink, slow, quick)
        turn = asyncio.create_task(
            toolbelt.execute(ORDER, 0, [ask("web_search"), ask("sql_query")])
        )
        while not sink.tools:
            await asyncio.sleep(0.002)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert [(r.tool, r.outcome) for r in sink.tools] == [
            ("sql_query", ToolOutcome.ok),
            ("web_search", ToolOutcome.cut),
        ]
        assert sink.tools[1].done_ns >= sink.tools[1].sent_ns
        await toolbelt.execute(ORDER, 1, [ask("sql_query")])
        assert sink.tools[-1].in_flight == 0

    run(body())


def test_a_full_disk_ends_the_turn_with_its_own_error(
    descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    class FullSink:
        def tool(self, record: object) -> None:
            raise RecordError("records=x", "cannot be written", "free disk space")

    tools = [fake_tool("sql_query", [GOOD]), fake_tool("web_search", [GOOD], delay_s=60)]
    toolbelt = belt(descriptions, FullSink(), *tools)
    with pytest.raises(RecordError, match="free disk space"):
        run(toolbelt.execute(ORDER, 0, [ask("sql_query"), ask("web_search")]))
