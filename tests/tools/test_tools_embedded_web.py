"""The embedded web search: what it finds, and the delay law it states."""

from __future__ import annotations

import asyncio
import math

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tools.embedded.service import WebSpec
from bench.tools.embedded.web import Api, DelayLaw, Index, Page

SPEC = WebSpec(
    host="127.0.0.1",
    port=1,
    pages="",
    seed=7,
    delay_s_p50=0.6,
    delay_sigma=0.35,
    delay_s_min=0.2,
    delay_s_max=2.0,
    failure_rate=0.0,
)
QUICK = msgspec.structs.replace(SPEC, delay_s_p50=0.001, delay_s_min=0.0, delay_s_max=0.001)
INDEX = Index(
    [
        Page("https://a", "Steel prices in the EU", "They rose in 2025."),
        Page("https://b", "Weather", "It rains on steel roofs. AND NOT sunny."),
        Page("https://c", "Football", "Nothing else."),
    ]
)


def test_titles_count_more_and_word_forms_match() -> None:
    assert [page.url for _, page in INDEX.search("price of steel?", 5)] == [
        "https://a",
        "https://b",
    ]


@given(st.text(max_size=100))
def test_no_query_has_syntax(query: str) -> None:
    assert len(INDEX.search(query, 2)) <= 2


@pytest.mark.parametrize("query", ["NOT steel", "title:steel", '"steel', "steel AND (", "-steel"])
def test_operators_are_words(query: str) -> None:
    assert "https://a" in [page.url for _, page in INDEX.search(query, 5)]


def test_the_delay_law_is_the_stated_one() -> None:
    law = DelayLaw(SPEC)
    delays = np.array([law.draw(f"query {n}")[0] for n in range(4000)])
    assert delays.min() >= 0.2
    assert delays.max() <= 2.0
    inside = delays[(delays > 0.2) & (delays < 2.0)]
    assert np.quantile(delays, 0.5) == pytest.approx(0.6, rel=0.03)
    assert np.log(inside).std() == pytest.approx(0.35, rel=0.06)
    p90 = 0.6 * math.exp(0.35 * 1.2816)
    assert np.quantile(delays, 0.9) == pytest.approx(p90, rel=0.05)


def test_delays_repeat_by_query_and_occurrence_whatever_else_was_asked() -> None:
    first, second = DelayLaw(SPEC), DelayLaw(SPEC)
    second.draw("another")
    assert [first.draw("x") for _ in range(3)] == [second.draw("x") for _ in range(3)]
    assert first.draw("x") != first.draw("x")
    other = DelayLaw(msgspec.structs.replace(SPEC, seed=8))
    assert other.draw("x") != DelayLaw(SPEC).draw("x")


def test_failures_come_at_the_stated_rate() -> None:
    law = DelayLaw(msgspec.structs.replace(SPEC, failure_rate=0.3))
    rate = np.mean([law.draw(f"query {n}")[1] for n in range(4000)])
    assert rate == pytest.approx(0.3, abs=0.03)


def get(spec: WebSpec, params: dict[str, str]) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(Api(INDEX, DelayLaw(spec)).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.get("/search", params=params)

    return asyncio.run(run())


def test_answers_in_searxngs_shape() -> None:
    answer = get(QUICK, {"q": "steel", "format": "json"}).json()
    assert answer["query"] == "steel"
    assert answer["number_of_results"] == 2
    assert (
        answer["results"][0].items()
        >= {
            "url": "https://a",
            "title": "Steel prices in the EU",
            "content": "They rose in 2025.",
            "engine": "tantivy",
        }.items()
    )


def test_refuses_what_it_does_not_serve() -> None:
    assert get(QUICK, {"q": "steel"}).status_code == 403
    assert get(QUICK, {"q": " ", "format": "json"}).status_code == 400
    failing = msgspec.structs.replace(QUICK, failure_rate=1.0)
    assert get(failing, {"q": "steel", "format": "json"}).status_code == 500
