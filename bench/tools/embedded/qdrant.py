"""The part of Qdrant's REST API that the tool uses, over Qdrant's own engine, in this process.

    python -m bench.tools.embedded.qdrant SPEC.json

Routes: `/`, `/healthz`, and of a collection: exists, info, create, upsert, query by vector. What
is not served (filters, named vectors, other queries) is answered with 400, never ignored.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import qdrant_edge as edge
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.tools.embed import DIMENSIONS, load_embedder
from bench.tools.embedded.service import QdrantSpec, health_text

INDEXING_THRESHOLD_KB = 100  # below it a plain scan is as fast as HNSW
LOAD_BATCH = 2_000


class Document(msgspec.Struct, frozen=True):
    """One line of documents.jsonl."""

    id: int
    text: str
    payload: dict[str, Any] = {}


class Collection:
    """One collection: a shard of the engine. All calls block; run them in a thread."""

    def __init__(self, directory: Path, size: int, distance: str) -> None:
        self.size = size
        self.distance = distance
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=size, distance=getattr(edge.Distance, distance)),
            optimizers=edge.EdgeOptimizersConfig(
                indexing_threshold=INDEXING_THRESHOLD_KB, default_segment_number=1
            ),
            wal_enabled=False,
        )
        directory.mkdir(parents=True, exist_ok=True)
        self._shard = edge.EdgeShard.create(str(directory), config)

    def upsert(self, points: Sequence[edge.Point]) -> None:
        """Add or replace points and build the index over them."""
        self._shard.update(edge.UpdateOperation.upsert_points(list(points)))

    def index(self) -> None:
        """Build HNSW over what was added since; without it each query scans all vectors."""
        self._shard.optimize()

    def nearest(self, vector: list[float], limit: int, payload: bool) -> list[dict[str, Any]]:
        """The nearest points as Qdrant's REST API shows them."""
        request = edge.QueryRequest(
            limit=limit, query=edge.Query.Nearest(vector), with_payload=payload
        )
        return [
            {"id": p.id, "version": p.version, "score": p.score, "payload": p.payload}
            for p in self._shard.query(request)
        ]

    def info(self) -> dict[str, Any]:
        """Collection info in the shape of Qdrant's REST API."""
        facts = self._shard.info()
        vectors = {"size": self.size, "distance": self.distance}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": facts.segments_count,
            "points_count": facts.points_count,
            "indexed_vectors_count": facts.indexed_vectors_count,
            "payload_schema": {},
            "config": {
                "params": {"vectors": vectors},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 1,
                    "flush_interval_sec": 5,
                    "indexing_threshold": INDEXING_THRESHOLD_KB,
                },
            },
        }

    def close(self) -> None:
        """Release the engine's files."""
        self._shard.close()


class QueryBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /collections/C/points/query`: by vector only."""

    query: list[float] | dict[str, Any]
    limit: int = 10
    with_payload: bool = False
    with_vector: bool = False
    offset: int | None = None
    params: Any = None
    filter: Any = None
    prefetch: Any = None
    using: str | None = None
    score_threshold: float | None = None
    lookup_from: Any = None
    shard_key: Any = None


class UpsertPoint(msgspec.Struct):
    """One point of an upsert."""

    id: int | str
    vector: list[float]
    payload: dict[str, Any] | None = None


class UpsertBody(msgspec.Struct):
    """`PUT /collections/C/points`."""

    points: list[UpsertPoint]


class VectorsBody(msgspec.Struct):
    """Size and distance of a new collection's vectors."""

    size: int
    distance: str


class CreateBody(msgspec.Struct):
    """`PUT /collections/C`."""

    vectors: VectorsBody


class Api:
    """The routes over a set of collections."""

    def __init__(self, directory: Path, collections: dict[str, Collection]) -> None:
        self._directory = directory
        self._collections = collections

    def app(self) -> Starlette:
        """The ASGI application; it closes the collections when it ends."""
        base = "/collections/{collection}"
        return Starlette(
            routes=[
                Route("/", self.root),
                Route("/healthz", self.health),
                Route(f"{base}/exists", self.exists),
                Route(base, self.info),
                Route(base, self.create, methods=["PUT"]),
                Route(f"{base}/points", self.upsert, methods=["PUT"]),
                Route(f"{base}/points/query", self.query, methods=["POST"]),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        for collection in self._collections.values():
            collection.close()

    async def root(self, _: Request) -> Response:
        """Title and version, as Qdrant greets."""
        title = "qdrant engine, embedded by react-bench"
        return _json({"title": title, "version": version("qdrant-edge-py")})

    async def health(self, _: Request) -> Response:
        """Ready: the collections were loaded before the port was opened."""
        return Response(health_text(os.getpid()))

    async def exists(self, request: Request) -> Response:
        """Is the collection there?"""
        return _result({"exists": _name(request) in self._collections})

    async def info(self, request: Request) -> Response:
        """Size, state and configuration of a collection."""
        collection = self._collections.get(_name(request))
        if collection is None:
            return _missing(request)
        return _result(await asyncio.to_thread(collection.info))

    async def create(self, request: Request) -> Response:
        """Make an empty collection with one unnamed dense vector per point."""
        name = _name(request)
        if name in self._collections:
            return _error(409, f"Collection `{name}` already exists!")
        try:
            vectors = msgspec.json.decode(await request.body(), type=CreateBody).vectors
        except msgspec.MsgspecError as error:
            return _error(400, f"Format error in JSON body: {error}")
        if vectors.distance not in ("Cosine", "Dot", "Euclid", "Manhattan") or vectors.size < 1:
            return _error(400, f"no vectors of size {vectors.size}, distance {vectors.distance}")
        place = self._directory / f"{len(self._collections)}"
        self._collections[name] = await asyncio.to_thread(
            Collection, place, vectors.size, vectors.distance
        )
        return _result(True)

    async def upsert(self, request: Request) -> Response:
        """Add or replace points; answered once they are indexed."""
        collection = self._collections.get(_name(request))
        if collection is None:
            return _missing(request)
        try:
            body = msgspec.json.decode(await request.body(), type=UpsertBody)
        except msgspec.MsgspecError as error:
            return _error(400, f"Format error in JSON body: {error}")
        for point in body.points:
            if len(point.vector) != collection.size:
                return _error(400, _dimension(collection.size, len(point.vector)))
        points = [edge.Point(p.id, p.vector, p.payload) for p in body.points]
        await asyncio.to_thread(_upsert_and_index, collection, points)
        return _result({"operation_id": 0, "status": "completed"})

    async def query(self, request: Request) -> Response:
        """Nearest points to a vector."""
        collection = self._collections.get(_name(request))
        if collection is None:
            return _missing(request)
        try:
            body = msgspec.json.decode(await request.body(), type=QueryBody)
            vector = _nearest_vector(body)
        except msgspec.MsgspecError as error:
            return _error(400, f"Format error in JSON body: {error}")
        except ValueError as error:
            return _error(400, str(error))
        if len(vector) != collection.size:
            return _error(400, _dimension(collection.size, len(vector)))
        points = await asyncio.to_thread(collection.nearest, vector, body.limit, body.with_payload)
        return _result({"points": points})


def _nearest_vector(body: QueryBody) -> list[float]:
    """The vector of a query that this service can answer; ValueError for any other."""
    unserved = (body.filter, body.prefetch, body.using, body.score_threshold, body.offset)
    if any(value is not None for value in unserved) or body.with_vector or body.limit < 1:
        raise ValueError("only plain queries by vector are served here")
    if isinstance(body.query, list):
        return body.query
    return msgspec.convert(body.query.get("nearest"), list[float])


def _upsert_and_index(collection: Collection, points: Sequence[edge.Point]) -> None:
    collection.upsert(points)
    collection.index()


def _name(request: Request) -> str:
    return str(request.path_params["collection"])


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _result(result: object) -> Response:
    return _json({"result": result, "status": "ok", "time": 0.0})


def _error(status: int, why: str) -> Response:
    return _json({"status": {"error": why}, "time": 0.0}, status)


def _missing(request: Request) -> Response:
    return _error(404, f"Not found: Collection `{_name(request)}` doesn't exist!")


def _dimension(expected: int, got: int) -> str:
    return f"Wrong input: Vector dimension error: expected dim: {expected}, got {got}"


def load_documents(directory: Path, documents: Path) -> Collection:
    """A collection of the embedded documents, indexed. A text is in the payload as `text`."""
    collection = Collection(directory, DIMENSIONS, "Cosine")
    embedder = load_embedder()
    decoder = msgspec.json.Decoder(Document)
    lines = [line for line in documents.read_bytes().splitlines() if line.strip()]
    for start in range(0, len(lines), LOAD_BATCH):
        batch = [decoder.decode(line) for line in lines[start : start + LOAD_BATCH]]
        vectors = embedder.embed([document.text for document in batch])
        collection.upsert(
            [
                edge.Point(
                    document.id, vector.tolist(), {"text": document.text, **document.payload}
                )
                for document, vector in zip(batch, vectors, strict=True)
            ]
        )
    collection.index()
    return collection


def main(arguments: list[str]) -> int:
    """Load the documents, then serve until SIGTERM."""
    spec = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=QdrantSpec)
    directory = Path(spec.directory)
    shutil.rmtree(directory, ignore_errors=True)
    started_s = time.monotonic()
    loaded = load_documents(directory / "loaded", Path(spec.documents))
    sys.stderr.write(f"documents loaded in {time.monotonic() - started_s:.2f} s\n")
    api = Api(directory, {spec.collection: loaded})
    uvicorn.run(api.app(), host=spec.host, port=spec.port, log_level="warning", access_log=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
