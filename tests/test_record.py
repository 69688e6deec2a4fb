from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record import PRIMER_SUFFIX, EpisodeOutcome, LLMRecord, cell_name
from makers import MS, make_call, make_episode, make_tool


def llm(**changes: Any) -> LLMRecord:
    facts: dict[str, Any] = {
        "scheduled_ns": 0,
        "sent_ns": 2 * MS,
        "first_delta_ns": 152 * MS,
        "last_delta_ns": 352 * MS,
        "done_ns": 353 * MS,
        "output_tokens": 21,
    }
    return make_call(**(facts | changes))


def test_metrics_of_a_call() -> None:
    record = llm(prompt_tokens=1000, cached_tokens=600)
    assert record.ttft_s == pytest.approx(0.150)
    assert record.ttft_scheduled_s == pytest.approx(0.152)
    assert record.lag_s == pytest.approx(0.002)
    assert record.tpot_s == pytest.approx(0.010)
    assert record.latency_s == pytest.approx(0.351)
    assert record.uncached_tokens == 400


def test_missing_is_missing() -> None:
    record = llm(sent_ns=None, first_delta_ns=None, prompt_tokens=None)
    assert record.ttft_s is None
    assert record.tpot_s is None
    assert record.lag_s is None
    assert record.uncached_tokens is None
    assert llm(output_tokens=1).tpot_s is None
    assert llm(output_tokens=None).tpot_s is None


def test_a_collapsed_stream_has_no_ttft() -> None:
    record = llm(collapsed=True)
    assert record.ttft_s is None
    assert record.ttft_scheduled_s is None
    assert record.tpot_s is None
    assert record.latency_s is not None


def test_only_answered_episodes_have_a_latency() -> None:
    answered = make_episode(done_ns=500 * MS, first_answer_ns=400 * MS, started_ns=1)
    assert answered.latency_s == pytest.approx(0.5)
    assert answered.ttfat_s == pytest.approx(0.4)
    failed = msgspec.structs.replace(answered, outcome=EpisodeOutcome.failed)
    assert failed.latency_s is None


def test_tool_latency() -> None:
    record = make_tool(done_ns=50 * MS)
    assert record.latency_s == pytest.approx(0.05)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(2, 10**5), st.text(max_size=20))
def test_records_survive_json(sent_ns: int, gap_ns: int, tokens: int, content: str) -> None:
    record = llm(
        sent_ns=sent_ns, first_delta_ns=sent_ns + gap_ns, output_tokens=tokens, content=content
    )
    again = msgspec.json.decode(msgspec.json.encode(record), type=LLMRecord)
    assert again == record
    assert again.ttft_s == pytest.approx(gap_ns / 1e9)


def test_a_cells_name_is_read_back() -> None:
    warm, cold = (make_call(cell=cell_name(4096, rate, 12)) for rate in (0.5, 0.0))
    assert (warm.cell, cold.cell) == ("p4096-h0.5-r12", "p4096-h0-r12")
    assert (warm.cell_of_repeats, cold.cell_of_repeats) == ("p4096-h0.5", "p4096-h0")
    assert (warm.is_planned_cold, cold.is_planned_cold) == (False, True)
    assert not warm.is_primer
    assert make_call(cell=warm.cell + PRIMER_SUFFIX).is_primer


def test_uncached_tokens_are_not_known_unless_the_cached_are() -> None:
    assert make_call(prompt_tokens=100, cached_tokens=40).uncached_tokens == 60
    assert make_call(prompt_tokens=100).uncached_tokens is None
    assert make_call(cached_tokens=40).uncached_tokens is None
    # A cell that was planned cold has none cached, whether the server says so or not.
    assert make_call(prompt_tokens=100, cell=cell_name(100, 0, 0)).uncached_tokens == 100
    assert make_call(prompt_tokens=100, cell=cell_name(100, 0.5, 0)).uncached_tokens is None
