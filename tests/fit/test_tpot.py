"""Concurrency by overlap against a sum written out, and the TPOT law on a known engine."""

from __future__ import annotations

import numpy as np
import pytest

from bench.episode import ToolCall
from bench.fit.law import Coefficient, refusal
from bench.fit.tpot import concurrency, fit_tpot, predict_tpot
from bench.record import LLMRecord
from makers import MS, S, make_call


def a_call(
    episode: int,
    sent_ms: float,
    first_ms: float,
    last_ms: float,
    prompt: int = 1000,
    cached: int = 0,
    output: int = 51,
) -> LLMRecord:
    return make_call(
        episode=episode,
        scheduled_ns=0,
        sent_ns=round(sent_ms * MS),
        first_delta_ns=round(first_ms * MS),
        done_ns=round(last_ms * MS),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
    )


def test_two_calls_that_overlap_by_half() -> None:
    found = concurrency([a_call(0, 0, 100, 300), a_call(1, 100, 200, 400, prompt=2000)])
    assert found.tpot_ms == pytest.approx([4.0, 4.0])
    assert found.sequences == pytest.approx([1.5, 1.5])
    # A sequence holds its prompt and half of its 51 tokens.
    assert found.kv_tokens == pytest.approx([1025.5 + 2025.5 / 2, 2025.5 + 1025.5 / 2])
    # The second prompt was computed from 100 to 200 ms, while the first decoded.
    assert found.prompt_tokens == pytest.approx([2000.0, 0.0], abs=1e-3)
    assert found.pairs == pytest.approx([2000 * 1000, 0.0], abs=1.0)


def test_it_equals_the_plain_double_sum() -> None:
    rng = np.random.default_rng(0)
    sent = np.sort(rng.uniform(0, 5000, 60))
    first = sent + rng.uniform(10, 300, 60)
    last = first + rng.uniform(20, 2000, 60)
    records = [a_call(i, *at) for i, at in enumerate(zip(sent, first, last, strict=True))]
    found = concurrency(records)
    order = np.argsort(first)
    for row, i in enumerate(order):
        shared = np.minimum(last, last[i]) - np.maximum(first, first[i])
        by_hand = np.sum(np.maximum(shared, 0)) / (last[i] - first[i])
        assert found.sequences[row] == pytest.approx(by_hand, rel=1e-6)


def a_closed_loop(users: int, seed: int, minutes: float = 2.0) -> list[LLMRecord]:
    """Decode only (prompts are free): 15 ms + 0.5 ms a sequence + 0.2 ms a thousand KV tokens."""
    rng = np.random.default_rng(seed)
    clock_ms, records = 0.0, []
    live: list[list[float]] = []  # episode, first_ms, prompt, output, produced
    started = 0
    while clock_ms < minutes * 60_000:
        while len(live) < users:
            prompt, output = float(rng.integers(500, 12_000)), float(rng.integers(20, 80))
            live.append([started, clock_ms, prompt, output, 1.0])
            started += 1
        held = sum(one[2] + one[4] for one in live) / 1e3
        clock_ms += (15 + 0.5 * len(live) + 0.2 * held) * float(rng.lognormal(0, 0.02))
        for one in live:
            one[4] += 1
        for one in [one for one in live if one[4] >= one[3]]:
            live.remove(one)
            episode, first_ms, prompt, output = int(one[0]), one[1], int(one[2]), int(one[3])
            records.append(
                a_call(episode, first_ms - 1, first_ms, clock_ms, prompt, prompt - 1, output)
            )
    return records


def test_a_known_law_comes_back() -> None:
    points = [a_closed_loop(users, users) for users in (1, 4, 8, 16)]
    law = fit_tpot(points, "e", confidence=1 - 0.05 / 3)
    assert law is not None
    for name, truth in (("c0", 15.0), ("d", 0.5), ("e", 0.2)):
        found = law.coefficient(name)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low <= truth <= found.high, name
    assert predict_tpot(law, 8, 48_000) * 1e3 == pytest.approx(15 + 4 + 9.6, rel=0.02)
    assert law.mape is not None
    assert law.mape < 0.02
    assert fit_tpot(points, "e") == fit_tpot(points, "e")


def test_completions_that_call_a_tool_count_as_load_and_are_not_fitted() -> None:
    calls = [a_call(i, i * 100, i * 100 + 10, i * 100 + 200) for i in range(60)]
    for call in calls[::2]:
        call.calls = [ToolCall("c", "sql_query", "{}")]
    law = fit_tpot([calls], "e")
    assert law is not None
    assert law.n == 30
    assert concurrency(calls).sequences[10] == pytest.approx((190 + 90 + 90) / 190)


def test_too_few_or_too_short_completions_give_no_law() -> None:
    assert fit_tpot([], "e") is None
    few = [a_call(i, i * 1000, i * 1000 + 10, i * 1000 + 500) for i in range(29)]
    assert fit_tpot([few], "e") is None
    short = [a_call(i, i * 1000, i * 1000 + 10, i * 1000 + 50, output=7) for i in range(100)]
    assert fit_tpot([short], "e") is None


def test_one_constant_load_identifies_no_slope() -> None:
    calls = [a_call(i, i * 600, i * 600 + 10, i * 600 + 510) for i in range(100)]
    law = fit_tpot([calls], "e")
    assert law is not None
    slopes = [law.coefficient(name) for name in ("d", "e")]
    assert all(one is not None and one.low is None and one.high is None for one in slopes)


def test_a_law_is_accepted_only_when_it_fits_and_its_load_is_identified() -> None:
    def known(name: str) -> Coefficient:
        return Coefficient(name=name, value=1.0, low=0.9, high=1.1, unit="ms")

    needed = [("c0",), ("d", "e")]
    assert refusal(0.02, [known("c0"), known("e")], needed) == ""
    assert refusal(0.02, [known("c0")], needed) == "d and e not identified"
    assert refusal(0.2, [known("c0"), known("d")], needed) == ("the mean error of 20% exceeds 10%")


def test_records_without_cached_tokens_give_no_law() -> None:
    """What the engine computed for others is then not known, and 0 would charge it to d."""
    calls = [
        make_call(
            episode=number,
            sent_ns=number * S,
            first_delta_ns=number * S + S // 10,
            done_ns=number * S + S,
            prompt_tokens=2000,
            output_tokens=30,
        )
        for number in range(60)
    ]
    assert fit_tpot([calls], "e") is None
    for call in calls:
        call.cached_tokens = 0
    assert fit_tpot([calls], "e") is not None
