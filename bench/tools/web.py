"""web_search: SearXNG's JSON API."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec

from bench.episode import Observation, ObservationOutcome
from bench.errors import ToolError
from bench.scenario import Web
from bench.tools.observation import failed, text_argument

OPEN_TIMEOUT_S = 10.0


class WebTool:
    """`{"query": "..."}` -> `[{"title", "url", "content"}, ...]`, at most `top_k`."""

    name = "web_search"

    def __init__(self, client: httpx.AsyncClient, settings: Web) -> None:
        self._client = client
        self._settings = settings

    async def call(self, arguments: dict[str, Any]) -> Observation:
        """Ask the search service once; what it refuses or fails is an observation."""
        query = text_argument(arguments)
        if query is None:
            return failed(self.name, ObservationOutcome.error, "query must be a text")
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                found = await self._search(query)
        except (TimeoutError, httpx.TimeoutException):
            why = f"no answer within {self._settings.timeout_s:g} s"
            return failed(self.name, ObservationOutcome.timeout, why)
        except httpx.HTTPStatusError as error:
            why = _status(error.response)
            return failed(self.name, ObservationOutcome.error, why)
        except (httpx.HTTPError, msgspec.MsgspecError, UnicodeError) as error:
            why = str(error) or type(error).__name__
            return failed(self.name, ObservationOutcome.error, why)
        content = msgspec.json.encode(found[: self._settings.top_k]).decode()
        return Observation(content=content, rows=min(len(found), self._settings.top_k))

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()

    async def _search(self, query: str) -> list[_Result]:
        response = await self._client.get("/search", params={"q": query, "format": "json"})
        response.raise_for_status()
        return msgspec.json.decode(response.content, type=_Answer).results


class _Result(msgspec.Struct):
    """The part of one result that the model reads."""

    title: str
    url: str
    content: str | None = ""


class _Answer(msgspec.Struct):
    """The part of SearXNG's answer that we use."""

    results: list[_Result]


async def open_web(settings: Web, url: str, embedded: bool = False) -> WebTool:
    """Connect and check that the service answers in JSON. Raises ToolError."""
    client = httpx.AsyncClient(
        base_url=url,
        timeout=max(OPEN_TIMEOUT_S, settings.timeout_s + 1),  # `call` has the limit
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        trust_env=not embedded,
    )
    try:
        probe = "/healthz" if embedded else "/search?q=test&format=json"
        (await client.get(probe)).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        await client.aclose()
        raise ToolError(
            f"tools.web.url={url}",
            f"the search service does not answer ({error or type(error).__name__})",
            "check that it runs and that its settings allow format=json",
        ) from error
    return WebTool(client, settings)


def _status(response: httpx.Response) -> str:
    words = {429: "rate limit reached", 503: "service unavailable"}
    return f"HTTP {response.status_code}: {words.get(response.status_code, 'the search failed')}"
