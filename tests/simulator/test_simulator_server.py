"""The OpenAI face, in process: surface, stream format, errors, disconnects, counters."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from bench.engine.counters import parse_metrics
from bench.episode import PlannedCall, PlannedTurn, Task, Workload
from bench.scenario import Engine, StepTime
from bench.simulator.choice import load_embedding
from bench.simulator.policy import Material, Policy
from bench.simulator.profile import Profile
from bench.simulator.server import Service, application

LIMIT_S = 30.0
LAW = StepTime(a=1, floor=1, b=0.001, request=2)
QUESTION = "How many contracts did we sign in 2025?"
CALL = PlannedCall("sql_query", {"query": "SELECT 1"})
TASK = Task(
    id="t", workload=Workload.react_1, question=QUESTION, turns=[PlannedTurn([CALL], "Count.")]
)
TOOL = {
    "type": "function",
    "function": {
        "name": "sql_query",
        "description": "Query the SQL database for counts, sums and exact numbers.",
        "parameters": {"type": "object", "required": ["query"]},
    },
}


def service(**options: Any) -> Service:
    engine = Engine(
        name="test-engine", model="m", kv_tokens=20000, max_model_len=4096, step=LAW, **options
    )
    policy = Policy(Material({QUESTION: TASK}, {}), 1, load_embedding())
    return Service(Profile(engine=engine, port=1), policy)


def ask(app: Starlette, work: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.wait_for(work(client), LIMIT_S)

    return asyncio.run(run())


def body(text: str = QUESTION, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "[salt x]\nRules. " * 20},
        {"role": "user", "content": text},
    ]
    return {"model": "m", "messages": messages, "max_tokens": 200, **more}


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.strip().split("\n\n")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_streamed_tool_call_with_usage() -> None:
    request = body(tools=[TOOL], stream=True, stream_options={"include_usage": True})

    async def twice(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await client.post("/v1/chat/completions", json=request) for _ in range(2)]

    first, second = ask(application(service()), twice)
    assert first.status_code == 200
    assert first.headers["x-simulated"] == "test-engine"
    assert first.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in first.headers
    *chunks, usage = events(first)
    assert usage["choices"] == []
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert usage["usage"]["completion_tokens"] > 10
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    prompt = usage["usage"]["prompt_tokens"]
    cached = events(second)[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == (prompt - 1) // 16 * 16


def test_scripted_requests_have_exactly_the_length_asked_for() -> None:
    request = body(tools=[TOOL], tool_choice="none", max_tokens=30, min_tokens=30, ignore_eos=True)

    async def whole(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/v1/chat/completions", json=request)

    answer = ask(application(service()), whole).json()
    assert answer["usage"]["completion_tokens"] == 30
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"messages": [{"role": "user", "content": "word " * 5000}]}, 400, "maximum context"),
        ({"model": "other"}, 404, "does not exist"),
        ({"messages": []}, 400, "messages"),
        ({"n": 2}, 400, "n must be 1"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
    ],
)
def test_requests_that_cannot_be_served(change: dict[str, Any], status: int, text: str) -> None:
    async def post(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/v1/chat/completions", json={**body(), **change})

    response = ask(application(service()), post)
    assert response.status_code == status
    error = response.json()["error"]
    assert text in error["message"]
    assert error["code"] == status
    assert response.headers["x-simulated"] == "test-engine"


def test_the_small_surface() -> None:
    async def visit(client: httpx.AsyncClient) -> None:
        assert (await client.get("/health")).status_code == 200
        assert "version" in (await client.get("/version")).json()
        models = (await client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in models] == ["m"]
        tokens = (await client.post("/tokenize", json={"prompt": "Two words"})).json()
        assert tokens["count"] == len(tokens["tokens"]) == 2
        completion = {"prompt": "Say it.", "max_tokens": 8, "min_tokens": 8, "ignore_eos": True}
        text = (await client.post("/v1/completions", json=completion)).json()
        assert text["object"] == "text_completion"
        assert text["usage"]["completion_tokens"] == 8
        assert (await client.post("/reset_prefix_cache")).status_code == 200

    ask(application(service()), visit)


def test_metrics_count_what_was_served() -> None:
    async def serve(client: httpx.AsyncClient) -> tuple[dict[str, Any], str]:
        answer = (await client.post("/v1/chat/completions", json=body())).json()
        return answer["usage"], (await client.get("/metrics")).text

    usage, text = ask(application(service()), serve)
    values = parse_metrics(text)
    assert values["prompt_tokens"] == values["prefix_queries"] == usage["prompt_tokens"]
    assert values["generation_tokens"] == usage["completion_tokens"]
    assert values["requests"] == values["e2e_count"] == values["ttft_count"] == 1
    assert 0 < values["ttft_sum_s"] <= values["e2e_sum_s"] < LIMIT_S
    assert values["running"] == values["waiting"] == values["preemptions"] == 0
    assert set(values) == {
        "running", "waiting", "kv_usage", "prefix_queries", "prefix_hits", "preemptions",
        "prompt_tokens", "generation_tokens", "requests", "e2e_sum_s", "e2e_count",
        "ttft_sum_s", "ttft_count",
    }  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_cancelled_before_its_first_step_frees_its_request(stream: bool) -> None:
    engine = service()
    request = json.dumps(body(stream=stream, max_tokens=50)).encode()

    async def cancel() -> None:
        serving: asyncio.Future[None]
        messages = [{"type": "http.request", "body": request, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                # The server ends this request in the very turn in which its answer begins.
                asyncio.get_running_loop().call_soon(serving.cancel)
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            return None

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": [],
            "query_string": b"",
        }
        async with asyncio.timeout(LIMIT_S):
            serving = asyncio.ensure_future(application(engine)(scope, receive, send))
            await asyncio.wait({serving})

    asyncio.run(cancel())
    assert (engine.scheduler.running, engine.scheduler.waiting) == (0, 0)
    assert engine.scheduler.blocks.used == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_blocks(stream: bool) -> None:
    engine = service()
    request = json.dumps(
        body(stream=stream, max_tokens=3000, min_tokens=3000, ignore_eos=True)
    ).encode()

    async def leave() -> tuple[int, int]:
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": request, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            return None

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": [],
            "query_string": b"",
        }
        serving = asyncio.ensure_future(application(engine)(scope, receive, send))
        async with asyncio.timeout(LIMIT_S):
            while engine.scheduler.running == 0:
                await asyncio.sleep(0.001)
            held = engine.scheduler.blocks.used
            gone.set()
            await serving
        return held, engine.scheduler.blocks.used

    held, left = asyncio.run(leave())
    assert held > 0
    assert left == 0
    assert engine.scheduler.running == 0


def test_a_preset_serves_scripted_answers_of_known_tasks() -> None:
    preset = service(
        preset_ttft_ms=[5.0, 8.0], preset_tpot_ms=1.0, preset_synthesis_ms={"react_1": 20.0}
    )
    request = body(max_tokens=6, min_tokens=6, ignore_eos=True)
    call = {"id": "1", "type": "function", "function": {"name": "sql_query", "arguments": "{}"}}
    request["messages"] += [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "{}"},
    ]

    async def post(client: httpx.AsyncClient) -> tuple[httpx.Response, float]:
        start_s = asyncio.get_running_loop().time()
        response = await client.post("/v1/chat/completions", json=request)
        return response, asyncio.get_running_loop().time() - start_s

    response, took_s = ask(application(preset), post)
    assert response.json()["usage"]["completion_tokens"] == 6
    assert took_s > 0.0185  # the stated synthesis, not 8 + 5 x 1 ms
    assert preset.driver.playing == 0


def stream(change: dict[str, Any], running: Service | None = None) -> httpx.Response:
    request = body(tools=[TOOL], stream=True, simulate=change)

    async def post(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/v1/chat/completions", json=request)

    answer: httpx.Response = ask(application(running or service()), post)
    return answer


def called(chunks: list[dict[str, Any]]) -> tuple[str, str]:
    parts = [
        call["function"]
        for chunk in chunks
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    return (
        "".join(part.get("name", "") for part in parts),
        "".join(part["arguments"] for part in parts),
    )


@pytest.mark.parametrize(
    "change", [{"tokens_per_chunk": 5}, {"buffer_calls": True}, {"role_first": True}]
)
def test_hostile_streams_say_the_same(change: dict[str, Any]) -> None:
    plain, hostile = events(stream({})), events(stream(change))
    assert called(hostile) == called(plain) != ("", "")
    assert (len(hostile) < len(plain)) != ("role_first" in change)
    assert hostile[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert hostile[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_an_error_in_mid_stream_frees_the_blocks() -> None:
    running = service()
    *before, error = events(stream({"error_after": 3}, running))
    assert error["error"]["type"] == "InternalServerError"
    assert 1 < len(before) <= 5
    assert running.scheduler.running == running.scheduler.blocks.used == 0


def test_a_slow_start_delays_the_response() -> None:
    async def post(client: httpx.AsyncClient) -> float:
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        request = body(stream=True, simulate={"start_delay_s": 0.3})
        await client.post("/v1/chat/completions", json=request)
        return loop.time() - before_s

    assert ask(application(service()), post) >= 0.3


def test_the_error_rate_grows_with_the_load_when_asked_to() -> None:
    assert service().error_rate() == 0
    running = service(error_rate=0.1, error_rate_per_request=0.05)
    assert running.error_rate() == pytest.approx(0.1)
    running.driver.playing = 4
    assert running.error_rate() == pytest.approx(0.3)
