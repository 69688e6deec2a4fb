"""Latency rows, the critical path and TTFT growth on episodes whose every part is known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.episode import ToolCall, Workload
from bench.fit.latency import PARTS, critical_path, growth, latency_rows, path_rows, samples_of
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)
from makers import MS, make_call, make_episode, make_level, make_tool


def a_call(turn: int, sent_ms: float, first_ms: float, done_ms: float, final: bool) -> LLMRecord:
    return make_call(
        turn=turn,
        workload=Workload.react_1,
        sent_ns=round(sent_ms * MS),
        first_delta_ns=round(first_ms * MS),
        done_ns=round(done_ms * MS),
        prompt_tokens=1000 + 600 * turn,
        cached_tokens=960 * min(turn, 1),
        output_tokens=31,
        calls=[] if final else [ToolCall("c", "sql_query", "{}")],
        final=final,
    )


def a_tool(turn: int, call: int, sent_ms: float, done_ms: float | None) -> ToolRecord:
    return make_tool(
        turn=turn,
        call=call,
        sent_ns=round(sent_ms * MS),
        done_ns=None if done_ms is None else round(done_ms * MS),
        outcome=ToolOutcome.timeout if done_ms is None else ToolOutcome.ok,
    )


def an_episode(done_ms: float | None, workload: Workload = Workload.react_1) -> EpisodeRecord:
    return make_episode(
        workload=workload,
        first_answer_ns=None if done_ms is None else round((done_ms - 30) * MS),
        done_ns=None if done_ms is None else round(done_ms * MS),
        outcome=EpisodeOutcome.failed if done_ms is None else EpisodeOutcome.answered,
    )


# wait 2 | TTFT 100 | call 50 | wait 1 | tools 40 (two in parallel) | wait 3 | TTFT 80 | answer 60
LLM = [a_call(0, 2, 102, 152, False), a_call(1, 196, 276, 336, True)]
TOOLS = [a_tool(0, 0, 153, 173), a_tool(0, 1, 155, 193)]


def test_the_path_of_a_known_episode() -> None:
    path = critical_path(an_episode(336), LLM, TOOLS)
    assert path is not None
    first, second = path
    assert list(first) == list(PARTS)
    assert first == pytest.approx(
        {"client_wait": 0.003, "ttft": 0.1, "call_decode": 0.05, "tools": 0.04, "answer_decode": 0}
    )
    assert second == pytest.approx(
        {"client_wait": 0.003, "ttft": 0.08, "call_decode": 0, "tools": 0, "answer_decode": 0.06}
    )


def test_naive_rag_retrieves_before_its_only_call() -> None:
    path = critical_path(an_episode(150), [a_call(0, 30, 100, 150, True)], [a_tool(0, 0, 5, 25)])
    assert path is not None
    assert path[0] == pytest.approx(
        {
            "client_wait": 0.01,
            "ttft": 0.07,
            "call_decode": 0,
            "tools": 0.02,
            "answer_decode": 0.05,
        }
    )


def test_paths_that_cannot_be_told_are_left_out() -> None:
    assert critical_path(an_episode(336), LLM, [a_tool(0, 0, 153, None)]) is None
    assert critical_path(an_episode(336), [], TOOLS) is None
    overlapping = [a_tool(0, 0, 140, 193)]  # sent before the call that asked for it had ended
    assert critical_path(an_episode(336), LLM, overlapping) is None
    rows = path_rows(make_level([an_episode(None)], LLM, TOOLS))
    assert rows == []


def test_path_row_sums_to_the_whole() -> None:
    shorter = [msgspec.structs.replace(one, user=1) for one in (a_call(0, 1, 61, 101, True),)]
    quick = msgspec.structs.replace(an_episode(101), user=1)
    (row,) = path_rows(make_level([an_episode(336), quick], [*LLM, *shorter], TOOLS))
    assert (row.workload, row.n) == ("react_1", 2)
    assert row.total_s == pytest.approx((0.336 + 0.101) / 2)
    assert sum(row.parts_s.values()) == pytest.approx(row.total_s)
    assert sum(row.shares.values()) == pytest.approx(1.0)
    for part in PARTS:
        assert sum(turn[part] for turn in row.turns) == pytest.approx(row.parts_s[part])


@given(st.lists(st.integers(0, 400), min_size=9, max_size=9))
@settings(max_examples=100, deadline=None)
def test_parts_sum_for_any_order_of_stamps(gaps_ms: list[int]) -> None:
    at = np.cumsum(gaps_ms).tolist()
    llm = [a_call(0, at[0], at[1], at[2], False), a_call(1, at[5], at[6], at[7], True)]
    path = critical_path(an_episode(at[7]), llm, [a_tool(0, 0, at[3], at[4])])
    assert path is not None
    assert sum(sum(turn.values()) for turn in path) == pytest.approx(at[7] / 1e3)


def test_rows_count_every_attempt() -> None:
    lost = make_call(user=1, workload=Workload.react_1, outcome=LLMOutcome.transport_error)
    failed = msgspec.structs.replace(an_episode(None), user=1)
    chosen = msgspec.structs.replace(
        an_episode(50, Workload.selection), user=2, outcome=EpisodeOutcome.chosen
    )
    item = msgspec.structs.replace(a_call(0, 0, 40, 50, False), user=2, workload=Workload.selection)
    level = make_level([an_episode(336), failed, chosen], [*LLM, lost, item], TOOLS)
    rows = {(row.workload, row.metric): row for row in latency_rows(level)}
    found = {key: (row.n, row.missing) for key, row in rows.items()}
    assert found["all", "ttft_s.call"] == (1, 1)
    assert found["all", "ttft_s.answer"] == (1, 1)
    assert found["all", "tpot_s"] == (2, 1)
    assert found["all", "latency_s"] == (1, 1)
    assert found["all", "ttfat_s"] == (1, 1)
    assert found["all", "tool_s.sql_query"] == (2, 0)
    assert found["selection", "ttft_s.call"] == (1, 0)
    assert ("selection", "ttfat_s") not in found
    assert rows["react_1", "latency_s"].p50.value == pytest.approx(0.336)
    assert rows["react_1", "tpot_s"].p50.value == pytest.approx((50 + 60) / 2 / 30 / 1e3)
    assert rows["react_1", "latency_s"].p99.high is None  # one episode bounds nothing


def test_one_token_has_no_time_per_token_and_is_not_missing() -> None:
    single = msgspec.structs.replace(LLM[1], output_tokens=1)
    sample = samples_of(make_level([an_episode(336)], [LLM[0], single], []))["all"]["tpot_s"]
    assert (len(sample.values), sample.missing) == (1, 0)


def test_growth_by_turn_takes_calls_only() -> None:
    second = a_call(1, 196, 296, 336, False)
    answer = a_call(2, 400, 900, 960, True)
    rows = growth([make_level([an_episode(960)], [LLM[0], second, answer], TOOLS)])
    assert [(row.turn, row.n) for row in rows] == [(0, 1), (1, 1)]
    assert [row.prompt_tokens_p50 for row in rows] == [1000, 1600]
    assert [row.uncached_tokens_p50 for row in rows] == [1000, 640]
    assert [row.ttft_s_p50.value for row in rows] == pytest.approx([0.1, 0.1])
