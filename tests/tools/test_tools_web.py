"""web_search against a scripted service: what fails there is an observation here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from bench.episode import Observation, ObservationOutcome
from bench.errors import ToolError
from bench.process import free_port
from bench.scenario import Web
from bench.tools.web import WebTool, open_web

Handler = Callable[[httpx.Request], httpx.Response]


def search(handler: Handler, query: object = "steel", timeout_s: float = 5.0) -> Observation:
    async def run() -> Observation:
        transport = httpx.MockTransport(handler)
        client = httpx.AsyncClient(transport=transport, base_url="http://web")
        tool = WebTool(client, Web(top_k=2, timeout_s=timeout_s))
        try:
            return await tool.call({"query": query})
        finally:
            await tool.close()

    return asyncio.run(run())


def test_asks_searxngs_json_api_and_cuts_at_top_k() -> None:
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        results = [
            {"title": f"t{n}", "url": f"u{n}", "content": None if n else "c", "score": 1.0}
            for n in range(3)
        ]
        return httpx.Response(200, json={"query": "x", "results": results})

    found = search(handler, "steel & iron")
    assert asked == [{"q": "steel & iron", "format": "json"}]
    assert found.outcome is ObservationOutcome.ok
    assert found.rows == 2
    assert json.loads(found.content) == [
        {"title": "t0", "url": "u0", "content": "c"},
        {"title": "t1", "url": "u1", "content": None},
    ]


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (httpx.Response(429), "HTTP 429: rate limit reached"),
        (httpx.Response(500), "HTTP 500"),
        (httpx.Response(302), "HTTP 302"),
        (httpx.Response(200, text="<html>"), "malformed"),
        (httpx.Response(200, json={"results": 5}), "array"),
    ],
)
def test_failures_are_observations(response: httpx.Response, words: str) -> None:
    found = search(lambda request: response)
    assert found.outcome is ObservationOutcome.error
    assert words in found.error
    assert json.loads(found.content) == {"error": found.error, "tool": "web_search"}


def test_a_reset_connection_is_an_observation() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset")

    assert search(handler).outcome is ObservationOutcome.error


def test_a_slow_service_is_a_timeout() -> None:
    async def run() -> Observation:
        async def handler(request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(30)
            return httpx.Response(200)

        client = httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://web")
        return await WebTool(client, Web(timeout_s=0.05)).call({"query": "x"})

    assert asyncio.run(run()).outcome is ObservationOutcome.timeout


@pytest.mark.parametrize("query", [None, "", "  ", 5, ["x"]])
def test_a_query_that_is_no_text_asks_nobody(query: object) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        pytest.fail("it asked")

    assert search(handler, query).outcome is ObservationOutcome.error


def test_an_unreachable_service_is_one_sentence() -> None:
    with pytest.raises(ToolError, match="the search service does not answer"):
        asyncio.run(open_web(Web(), f"http://127.0.0.1:{free_port()}"))
