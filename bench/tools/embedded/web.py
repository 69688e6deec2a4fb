"""A web search service of SearXNG's JSON shape over a local index, with a stated latency law.

    python -m bench.tools.embedded.web SPEC.json

The answer is real BM25 over the scenario's pages; the delay stands for the public web:
lognormal with median `delay_s_p50` and shape `delay_sigma`, clipped to [min, max], drawn per
query and occurrence from the seed, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tantivy
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.tools.embedded.service import WebSpec, health_text

RESULTS_PER_PAGE = 10
MAX_WORDS = 64
WRITER_BYTES = 20_000_000
_WORD = re.compile(r"\w+")


class Page(msgspec.Struct, frozen=True):
    """One line of pages.jsonl."""

    url: str
    title: str
    content: str


class Index:
    """A tantivy index in memory: titles count twice."""

    def __init__(self, pages: list[Page]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("title", stored=True, tokenizer_name="en_stem")
        builder.add_text_field("content", stored=True, tokenizer_name="en_stem")
        builder.add_text_field("url", stored=True, tokenizer_name="raw")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(heap_size=WRITER_BYTES, num_threads=1)
        for page in pages:
            writer.add_document(
                tantivy.Document(title=page.title, content=page.content, url=page.url)
            )
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, query: str, limit: int) -> list[tuple[float, Page]]:
        """Score and page of the best matches; query syntax has no meaning here."""
        words = " ".join(_WORD.findall(query)[:MAX_WORDS]).lower()
        parsed, _ = self._index.parse_query_lenient(
            words, ["title", "content"], field_boosts={"title": 2.0}
        )
        hits = self._searcher.search(parsed, limit, count=False).hits
        found = []
        for score, address in hits:
            fields = self._searcher.doc(address)
            values = [str(fields.get_first(name) or "") for name in ("url", "title", "content")]
            found.append((float(score), Page(*values)))
        return found


class DelayLaw:
    """Lognormal delays, clipped, and failures, both keyed by query and occurrence."""

    def __init__(self, spec: WebSpec) -> None:
        self._spec = spec
        self._seen: Counter[str] = Counter()

    def draw(self, query: str) -> tuple[float, bool]:
        """Delay in seconds, and whether this search fails."""
        digest = hashlib.blake2b(query.encode(errors="replace"), digest_size=8).digest()
        key = (int.from_bytes(digest), self._seen[query])
        self._seen[query] += 1
        rng = np.random.default_rng(np.random.SeedSequence(self._spec.seed, spawn_key=key))
        normal, uniform = rng.standard_normal(), rng.random()
        delay_s = self._spec.delay_s_p50 * math.exp(self._spec.delay_sigma * normal)
        clipped_s = min(max(delay_s, self._spec.delay_s_min), self._spec.delay_s_max)
        return clipped_s, uniform < self._spec.failure_rate


class Api:
    """SearXNG's `/search`, and `/healthz`."""

    def __init__(self, index: Index, law: DelayLaw) -> None:
        self._index = index
        self._law = law

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(routes=[Route("/healthz", self.health), Route("/search", self.search)])

    async def health(self, _: Request) -> Response:
        """Ready: the index was built before the port was opened."""
        return Response(health_text(os.getpid()))

    async def search(self, request: Request) -> Response:
        """One page of results, after the delay."""
        started_s = time.monotonic()
        query = request.query_params.get("q", "")
        if request.query_params.get("format") != "json":
            return _json({"error": "only format=json is served here"}, 403)
        if not query.strip():
            return _json({"error": "No query"}, 400)
        delay_s, fails = self._law.draw(query)
        answer = _answer(query, self._index.search(query, RESULTS_PER_PAGE))
        await asyncio.sleep(max(0.0, started_s + delay_s - time.monotonic()))
        if fails:
            return _json({"error": "the upstream engine failed"}, 500)
        return _json(answer)


def _answer(query: str, found: list[tuple[float, Page]]) -> dict[str, Any]:
    results = [
        {
            "url": page.url,
            "title": page.title,
            "content": page.content,
            "engine": "tantivy",
            "engines": ["tantivy"],
            "positions": [position],
            "score": round(score, 4),
            "category": "general",
        }
        for position, (score, page) in enumerate(found, start=1)
    ]
    return {
        "query": query,
        "number_of_results": len(results),
        "results": results,
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [],
    }


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def read_pages(path: Path) -> list[Page]:
    """The pages of a JSON-lines file."""
    decoder = msgspec.json.Decoder(Page)
    return [decoder.decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def main(arguments: list[str]) -> int:
    """Build the index, then serve until SIGTERM."""
    spec = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=WebSpec)
    api = Api(Index(read_pages(Path(spec.pages))), DelayLaw(spec))
    uvicorn.run(api.app(), host=spec.host, port=spec.port, log_level="warning", access_log=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
