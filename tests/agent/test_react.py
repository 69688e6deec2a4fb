"""Whole episodes against a scripted model and tools: what is sent, what is recorded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from bench.agent import Agent, Order
from bench.client import Connection
from bench.episode import (
    Observation,
    ObservationOutcome,
    PlannedCall,
    PlannedTurn,
    Task,
    ToolDescription,
    Workload,
)
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.run import Endpoint
from bench.scenario import Control, Descriptions
from bench.scenario import Workload as WorkloadConfig

LIMIT_S = 10.0
QUERY = '{"query": "q"}'
SQL = [("sql_query", QUERY)]
BOTH = [("sql_query", QUERY), ("vector_search", QUERY)]
GOOD = Observation(content='{"rows": [[47]]}', rows=1)
Make = Callable[..., Any]
Serve = Callable[..., Any]


class Bench:
    """What an episode needs, and how to run one."""

    def __init__(
        self, faces: list[ToolDescription], sink: Any, tools: list[Any], **workload: Any
    ) -> None:
        self.sink = sink
        config = WorkloadConfig(mix={"react_1": 1.0}, **workload)
        endpoint = Endpoint(base_url="http://x/v1", model="m", simulated=True, label="fake")
        self.agent = Agent(endpoint, config, {t.name: t for t in tools}, faces, 1, False, sink)

    async def run(self, model: Any, task: Task) -> EpisodeRecord:
        connection = Connection(model.url, {})
        try:
            return await self.agent.run(order(), task, connection)
        finally:
            await connection.close()


@pytest.fixture
def tools(fake_tool: Make) -> list[Any]:
    names = ["sql_query", "vector_search", "web_search"]
    return [fake_tool(name, [GOOD]) for name in names]


def order() -> Order:
    return Order(point="u4", user=1, episode=2, scheduled_ns=time.monotonic_ns(), salt="run/u4")


def task_of(workload: Workload = Workload.react_1, *turns: PlannedTurn) -> Task:
    return Task(id="t", workload=workload, question="How many?", turns=list(turns))


def run(body: Any) -> Any:
    return asyncio.run(asyncio.wait_for(body, LIMIT_S))


def kinds(sink: Any) -> list[str]:
    return [type(record).__name__ for record in sink.records]


def test_a_live_episode(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        async with serve(SQL, BOTH, "You signed 47 contracts.") as model:
            episode = await Bench(descriptions, sink, tools).run(model, task_of())
            assert episode.outcome is EpisodeOutcome.answered and episode.error == ""
            assert episode.answer.strip() == "You signed 47 contracts." and episode.turns == 3
            assert (episode.control, episode.tools) == ("live", "live")
            assert kinds(sink) == [
                *("LLMRecord", "ToolRecord"),
                *("LLMRecord", "ToolRecord", "ToolRecord"),
                *("LLMRecord", "EpisodeRecord"),
            ]
            assert sink.episodes == [episode]
            assert [llm.final for llm in sink.llms] == [False, False, True]
            first_answers = [llm.first_answer_ns for llm in sink.llms]
            assert first_answers[:2] == [None, None]  # the thoughts had content, but no answer
            assert episode.first_answer_ns == first_answers[2] is not None
            assert episode.done_ns == sink.llms[2].last_delta_ns < sink.llms[2].done_ns
            _check_bodies(model.bodies)

    run(body())


def _check_bodies(bodies: list[dict[str, Any]]) -> None:
    first, _, third = bodies
    assert first["messages"][0]["content"].startswith("[salt run/u4]\n")
    assert first["messages"][1] == {"role": "user", "content": "How many?"}
    assert [face["function"]["name"] for face in first["tools"]] == [
        "vector_search",
        "sql_query",
        "web_search",
    ]
    assert first["stream_options"] == {"include_usage": True} and first["max_tokens"] == 512
    assert "ignore_eos" not in first and "tool_choice" not in first
    assert first["seed"] != third["seed"]
    # The history only grows: what was sent stays the prefix of what is sent next.
    assert third["messages"][:2] == first["messages"]
    roles = [message["role"] for message in third["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    assert third["messages"][2]["content"] == "Thinking. "
    assert third["messages"][3]["content"] == GOOD.content


def test_seeds_are_the_same_in_every_arm() -> None:
    one, same = order(), order()
    assert [one.request_seed(t) for t in range(3)] == [same.request_seed(t) for t in range(3)]
    other = Order(point="u4", user=2, episode=2, scheduled_ns=0, salt="")
    assert other.request_seed(0) != one.request_seed(0)


def test_the_stamps_add_up_to_the_latency_of_the_episode(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        async with serve(SQL, BOTH, "The answer is long enough.") as model:
            episode = await Bench(descriptions, sink, tools).run(model, task_of())
            total_ns, due_ns = 0, episode.scheduled_ns
            for llm in sink.llms:
                assert llm.scheduled_ns == due_ns
                decode_end_ns = episode.done_ns if llm.final else llm.done_ns
                group = [tool for tool in sink.tools if tool.turn == llm.turn]
                parts = [
                    llm.sent_ns - llm.scheduled_ns,  # client wait
                    llm.first_delta_ns - llm.sent_ns,  # TTFT
                    decode_end_ns - llm.first_delta_ns,  # decode
                ]
                if group:
                    sent_ns = min(tool.sent_ns for tool in group)
                    due_ns = max(tool.done_ns for tool in group)
                    parts += [sent_ns - llm.done_ns, due_ns - sent_ns]  # client wait, tools
                assert min(parts) >= 0
                total_ns += sum(parts)
            assert episode.done_ns is not None
            assert total_ns == episode.done_ns - episode.scheduled_ns
            assert episode.latency_s == pytest.approx(total_ns / 1e9)

    run(body())


def test_parallel_calls_of_an_episode_overlap(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    async def body() -> None:
        meet = asyncio.Barrier(2)
        pair = [fake_tool(name, [GOOD], meet=meet) for name in ("sql_query", "vector_search")]
        async with serve(BOTH, "Done.") as model:
            episode = await Bench(descriptions, sink, pair).run(model, task_of())
            assert episode.outcome is EpisodeOutcome.answered

    run(body())


def test_a_failed_tool_is_retried_once_and_then_an_observation(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, fake_tool: Make
) -> None:
    failure = Observation(
        content='{"error": "timeout after 5s", "tool": "web_search"}',
        outcome=ObservationOutcome.timeout,
        error="timeout after 5s",
    )

    async def body() -> None:
        web = fake_tool("web_search", [failure])
        async with serve([("web_search", QUERY)], "Web search was down.") as model:
            episode = await Bench(descriptions, sink, [web]).run(model, task_of())
            assert episode.outcome is EpisodeOutcome.answered
            assert [tool.attempt for tool in sink.tools] == [0, 1]
            assert model.bodies[1]["messages"][-1]["content"] == failure.content
            assert sink.llms[1].scheduled_ns == sink.tools[1].done_ns

    run(body())


def test_iteration_limit(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        async with serve(SQL) as model:
            bench = Bench(descriptions, sink, tools, iteration_limit=2)
            episode = await bench.run(model, task_of())
            assert episode.outcome is EpisodeOutcome.iteration_limit
            assert len(sink.tools) == 2 and episode.turns == len(sink.llms) == 3
            assert episode.done_ns is None and episode.latency_s is None
            assert not any(llm.final for llm in sink.llms)

    run(body())


def test_bad_calls_come_back_as_observations_and_are_not_replayed(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        bad = [("sql_query", '{"query": "SEL'), ("no_such_tool", QUERY)]
        async with serve(bad, "I could not find out.") as model:
            episode = await Bench(descriptions, sink, tools).run(model, task_of())
            assert episode.outcome is EpisodeOutcome.answered
            assert [llm.outcome for llm in sink.llms] == [LLMOutcome.parse_failure, LLMOutcome.ok]
            assert {tool.outcome for tool in sink.tools} == {
                ToolOutcome.refused,
                ToolOutcome.unknown,
            }
            history = model.bodies[1]["messages"]
            arguments = [call["function"]["arguments"] for call in history[2]["tool_calls"]]
            assert arguments == ["{}", QUERY]
            assert all("error" in json.loads(message["content"]) for message in history[3:])

    run(body())


@pytest.mark.parametrize("turn", [0, 1])
def test_a_failed_model_call_ends_the_episode_with_its_reason(
    serve: Serve,
    descriptions: list[ToolDescription],
    sink: Any,
    tools: list[Any],
    turn: int,
) -> None:
    async def body() -> None:
        async with serve(*[SQL, 400][1 - turn :]) as model:
            episode = await Bench(descriptions, sink, tools).run(model, task_of())
            assert episode.outcome is EpisodeOutcome.failed
            assert episode.error == f"turn {turn}: transport_error: HTTP 400: no such thing"
            assert sink.llms[-1].outcome is LLMOutcome.transport_error
            assert sink.llms[-1].status == 400 and episode.latency_s is None

    run(body())


def test_a_scripted_episode_plays_its_plan(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    plan = [
        PlannedTurn([PlannedCall("sql_query", {"query": "SELECT 1"})], "First the numbers."),
        PlannedTurn([PlannedCall("vector_search"), PlannedCall("web_search")]),
    ]

    async def body() -> None:
        # The model says something else entirely, and nothing of it counts.
        async with serve("bla bla", "<tool_call> bla", "an answer") as model:
            bench = Bench(
                descriptions,
                sink,
                tools,
                control=Control.scripted,
                descriptions=Descriptions.weak,
                call_tokens=7,
                answer_tokens=9,
            )
            episode = await bench.run(model, task_of(Workload.parallel, *plan))
            assert episode.outcome is EpisodeOutcome.answered and episode.control == "scripted"
            assert episode.answer == "" and [llm.content for llm in sink.llms] == ["", "", ""]
            assert [llm.final for llm in sink.llms] == [False, False, True]
            assert episode.first_answer_ns == sink.llms[2].first_answer_ns is not None
            lengths = [(b["min_tokens"], b["max_tokens"], b["ignore_eos"]) for b in model.bodies]
            assert lengths == [(7, 7, True), (7, 7, True), (9, 9, True)]
            assert all(b["tool_choice"] == "none" and b["tools"] for b in model.bodies)
            assert [t.asked for t in tools] == [
                [{"query": "SELECT 1"}],
                [{"query": "How many?"}],
                [{"query": "How many?"}],
            ]
            history = model.bodies[2]["messages"]
            assert history[2]["content"] == "First the numbers."
            names = [c["function"]["name"] for m in history for c in m.get("tool_calls", [])]
            assert names == ["query_data", "search_docs", "search_web"]
            assert [t.tool for t in sink.tools if t.turn == 0] == ["sql_query"]

    run(body())


def test_naive_rag_retrieves_once_and_answers_without_tools(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        async with serve("From the context.") as model:
            task = task_of(Workload.naive_rag)
            episode = await Bench(descriptions, sink, tools).run(model, task)
            assert episode.outcome is EpisodeOutcome.answered and episode.turns == 1
            assert kinds(sink) == ["ToolRecord", "LLMRecord", "EpisodeRecord"]
            [tool], [llm] = sink.tools, sink.llms
            assert (tool.tool, tool.turn, tool.call) == ("vector_search", 0, 0)
            assert llm.scheduled_ns == tool.done_ns and llm.turn == 0 and llm.final
            assert "tools" not in model.bodies[0]
            system, user = model.bodies[0]["messages"]
            assert system["content"].startswith("[salt run/u4]\n")
            assert GOOD.content in user["content"]
            assert user["content"].endswith("\nQuestion: How many?")

    run(body())


def test_a_selection_item_is_one_turn_whose_tool_does_not_run(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        task = task_of(Workload.selection)
        async with serve(BOTH) as model:
            episode = await Bench(descriptions, sink, tools).run(model, task)
            assert episode.outcome is EpisodeOutcome.chosen and episode.error == ""
            assert kinds(sink) == ["LLMRecord", "EpisodeRecord"]
            assert [call.name for call in sink.llms[0].calls] == ["sql_query", "vector_search"]
            assert episode.done_ns == sink.llms[0].last_delta_ns is not None
            assert not sink.llms[0].final and not any(tool.asked for tool in tools)
        async with serve("No tool is needed.") as model:
            abstained = await Bench(descriptions, sink, tools).run(model, task)
            assert abstained.outcome is EpisodeOutcome.chosen and abstained.answer
        async with serve([("sql_query", "{")]) as model:
            failed = await Bench(descriptions, sink, tools).run(model, task)
            assert failed.outcome is EpisodeOutcome.chosen  # the grader judges the parse failure
            assert sink.llms[-1].outcome is LLMOutcome.parse_failure
        async with serve(500) as model:
            lost = await Bench(descriptions, sink, tools).run(model, task)
            assert lost.outcome is EpisodeOutcome.failed

    run(body())


@pytest.mark.parametrize("where", ["model", "tool"])
def test_a_cut_episode_records_what_it_had_begun(
    serve: Serve,
    descriptions: list[ToolDescription],
    sink: Any,
    fake_tool: Make,
    where: str,
) -> None:
    async def body() -> None:
        slow = fake_tool("sql_query", [GOOD], delay_s=60 if where == "tool" else 0.01)
        async with serve(SQL, "") as model:
            bench = Bench(descriptions, sink, [slow])
            running = asyncio.create_task(bench.run(model, task_of()))
            while not (slow.asked if where == "tool" else len(model.bodies) == 2):
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.03)
            running.cancel()
            episode = await running  # returned, not raised
            assert not running.cancelled()
            assert episode.outcome is EpisodeOutcome.cut and episode.latency_s is None
            assert sink.episodes == [episode] and sink.records[-1] is episode
            cut = sink.records[-2]
            if where == "tool":
                assert isinstance(cut, ToolRecord) and cut.outcome is ToolOutcome.cut
            else:
                assert isinstance(cut, LLMRecord) and cut.outcome is LLMOutcome.cut
                assert cut.sent_ns is not None and cut.content == "endless"
                assert cut.first_answer_ns is None and not cut.final

    run(body())


def test_the_whole_answer_is_graded_and_the_call_stored_short(
    serve: Serve, descriptions: list[ToolDescription], sink: Any, tools: list[Any]
) -> None:
    async def body() -> None:
        async with serve("x" * 9000, "y" * 70_000, gap_s=0) as model:
            bench = Bench(descriptions, sink, tools)
            episode = await bench.run(model, task_of())
            assert (len(episode.answer), len(sink.llms[0].content)) == (9001, 4000)
            assert episode.error == ""
            cut = await bench.run(model, task_of())
            assert cut.outcome is EpisodeOutcome.answered and len(cut.answer) == 65_536
            assert cut.error == "the answer of 70001 characters is stored short"

    run(body())
