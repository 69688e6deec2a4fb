"""vector_search: what the model may ask for, and a service that is not there."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException
from qdrant_client.http.models import QueryResponse, ScoredPoint

from bench.episode import ObservationOutcome
from bench.errors import ToolError
from bench.process import free_port
from bench.scenario import Vector
from bench.tools.embed import DIMENSIONS, Embedder, load_embedder
from bench.tools.vector import VectorTool, _top_k, open_vector


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return load_embedder()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, 5), (3, 3), ("3", 3), (3.0, 3), (0, None), (101, None), (True, None), ("x", None),
     (2.5, None), ([3], None), ("9" * 50, None)],
)  # fmt: skip
def test_top_k(value: Any, expected: int | None) -> None:
    assert _top_k(value, 5) == expected


def test_embeddings_are_unit_vectors_that_tell_meaning(embedder: Embedder) -> None:
    rows = embedder.embed(["a penalty for late delivery", "fine for delayed shipment", "blue sky"])
    assert rows.shape == (3, DIMENSIONS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-3)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


def test_a_text_without_words_is_no_nan(embedder: Embedder) -> None:
    assert np.isfinite(embedder.embed([""])).all()


def test_an_unreachable_service_is_one_sentence(embedder: Embedder) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ToolError, match="Qdrant cannot be reached"):
        asyncio.run(open_vector(Vector(), url, embedder, embedded=True))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ResponseHandlingException(httpx.ReadTimeout("slow")), ObservationOutcome.timeout),
        (TimeoutError(), ObservationOutcome.timeout),
        (ResponseHandlingException(httpx.ReadError("reset")), ObservationOutcome.error),
    ],
)
def test_a_timeout_is_one_however_it_is_wrapped(
    embedder: Embedder, error: Exception, outcome: ObservationOutcome
) -> None:
    class Client:
        async def query_points(self, *args: object, **options: object) -> None:
            raise error

    tool = VectorTool(cast(AsyncQdrantClient, Client()), embedder, Vector(timeout_s=30.0))
    assert asyncio.run(tool.call({"query": "x"})).outcome is outcome


def test_a_payload_that_is_no_unicode_is_an_observation(embedder: Embedder) -> None:
    class Client:
        async def query_points(self, *args: object, **options: object) -> QueryResponse:
            point = ScoredPoint(id=1, version=0, score=0.5, payload={"text": "\ud83d"})
            return QueryResponse(points=[point])

    tool = VectorTool(cast(AsyncQdrantClient, Client()), embedder, Vector())
    assert asyncio.run(tool.call({"query": "x"})).outcome is ObservationOutcome.error
