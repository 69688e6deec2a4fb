"""vector_search: nearest documents in a Qdrant collection, over its REST API."""

from __future__ import annotations

import asyncio
import math
import os
from typing import Any

import httpx
import msgspec
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.http.models import VectorParams

from bench.episode import Observation, ObservationOutcome
from bench.errors import ToolError
from bench.scenario import Vector
from bench.tools.embed import DIMENSIONS, Embedder
from bench.tools.observation import failed, text_argument

MAX_TOP_K = 100
OPEN_TIMEOUT_S = 10
MAX_CONNECTIONS = 1024
FAILURES = (UnexpectedResponse, ResponseHandlingException, httpx.HTTPError, OSError, ValueError)


class VectorTool:
    """`{"query": "...", "top_k": 5}` -> `[{"id", "score", "text", ...payload}, ...]`."""

    name = "vector_search"

    def __init__(self, client: AsyncQdrantClient, embedder: Embedder, settings: Vector) -> None:
        self._client = client
        self._embedder = embedder
        self._settings = settings

    async def call(self, arguments: dict[str, Any]) -> Observation:
        """Embed the query and fetch the nearest documents."""
        query = text_argument(arguments)
        top_k = _top_k(arguments.get("top_k"), self._settings.top_k)
        if query is None or top_k is None:
            return failed(
                self.name,
                ObservationOutcome.error,
                f"query must be a text and top_k a number from 1 to {MAX_TOP_K}",
            )
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                vector = self._embedder.embed([query])[0].tolist()
                answer = await self._client.query_points(
                    self._settings.collection, query=vector, limit=top_k, with_payload=True
                )
            found = [
                {"id": point.id, "score": round(point.score, 4), **(point.payload or {})}
                for point in answer.points
            ]
            content = msgspec.json.encode(found).decode()
        except FAILURES as error:
            if _is_timeout(error):
                why = f"no answer within {self._settings.timeout_s:g} s"
                return failed(self.name, ObservationOutcome.timeout, why)
            return failed(self.name, ObservationOutcome.error, reason(error))
        return Observation(content=content, rows=len(found))

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.close()


async def open_vector(
    settings: Vector, url: str, embedder: Embedder, embedded: bool = False
) -> VectorTool:
    """Connect and check that the collection is there and fits the embedder.

    The key comes from QDRANT_API_KEY (the embedded service has none). Raises ToolError.
    """
    client = AsyncQdrantClient(
        url=url,
        api_key=None if embedded else os.environ.get("QDRANT_API_KEY"),
        timeout=max(OPEN_TIMEOUT_S, math.ceil(settings.timeout_s) + 1),  # `call` has the limit
        check_compatibility=False,
        pool_size=MAX_CONNECTIONS,
        trust_env=not embedded,
    )
    try:
        await _check_collection(client, settings.collection, url)
    except BaseException:
        await client.close()
        raise
    return VectorTool(client, embedder, settings)


async def _check_collection(client: AsyncQdrantClient, collection: str, url: str) -> None:
    try:
        if not await client.collection_exists(collection):
            raise ToolError(
                f"tools.vector.collection={collection}",
                f"is not at {url}",
                "build the collection, or name one that is there",
            )
        info = await client.get_collection(collection)
    except FAILURES as error:
        raise ToolError(
            f"tools.vector.url={url}",
            f"Qdrant cannot be reached ({reason(error)})",
            "check that it runs, the URL, and QDRANT_API_KEY",
        ) from error
    vectors = info.config.params.vectors
    if not isinstance(vectors, VectorParams) or vectors.size != DIMENSIONS:
        raise ToolError(
            f"tools.vector.collection={collection}",
            f"does not hold plain vectors of {DIMENSIONS} dimensions",
            "build it with the embedder of this tool",
        )


def _top_k(value: Any, default: int) -> int | None:
    """The number of documents to fetch; None when the model's value makes no sense."""
    if value is None:
        return default
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:9])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOP_K:
        return None
    return value


def _is_timeout(error: Exception) -> bool:
    """True for our own limit, and for the client's, which qdrant-client wraps."""
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, httpx.TimeoutException)
    return isinstance(error, TimeoutError | httpx.TimeoutException)


def reason(error: Exception) -> str:
    """What a failed HTTP call says, in one line."""
    text = " ".join(str(error).split())
    return text or type(error).__name__
