"""The seed's accounting, on episodes whose every part is known."""

from __future__ import annotations

import pytest

from bench.episode import Workload
from bench.fit.level import Level
from bench.fit.seed import (
    STATED_EPISODE_MS,
    accounting_rows,
    seed_accounting_s,
    tool_time_s,
    tools_time_s,
)
from bench.record import EpisodeOutcome, EpisodeRecord, LLMRecord, ToolOutcome, ToolRecord
from makers import MS, make_call, make_episode, make_level, make_tool, read_published

DECODE_MS = 320  # thought and call: what the seed leaves out

Turn = tuple[int, list[int]]  # TTFT, tool times; milliseconds


def call(turn: int, at_ms: int, ttft_ms: int, decode_ms: int, user: int = 0) -> LLMRecord:
    sent = at_ms * MS
    return make_call(
        user=user,
        turn=turn,
        sent_ns=sent,
        first_delta_ns=sent + ttft_ms * MS,
        done_ns=sent + (ttft_ms + decode_ms) * MS,
        output_tokens=30,
    )


def tool(turn: int, number: int, at_ms: int, ms: int | None, user: int = 0) -> ToolRecord:
    return make_tool(
        user=user,
        turn=turn,
        call=number,
        sent_ns=at_ms * MS,
        done_ns=None if ms is None else (at_ms + ms) * MS,
        outcome=ToolOutcome.ok if ms is not None else ToolOutcome.cut,
    )


def episode(
    workload: Workload, turns: list[Turn], synthesis_ms: int, user: int = 0, retrieve_ms: int = 0
) -> tuple[EpisodeRecord, list[LLMRecord], list[ToolRecord]]:
    """One episode, laid out in time; between its parts nothing passes."""
    now = 0
    calls: list[LLMRecord] = []
    tools: list[ToolRecord] = []
    if retrieve_ms:
        tools.append(tool(0, 0, now, retrieve_ms, user))
        now += retrieve_ms
    for number, (ttft_ms, tool_ms) in enumerate(turns):
        calls.append(call(number, now, ttft_ms, DECODE_MS, user))
        now += ttft_ms + DECODE_MS
        tools += [tool(number, index, now, ms, user) for index, ms in enumerate(tool_ms)]
        now += max(tool_ms)
    calls.append(call(len(turns), now, 100, synthesis_ms - 100, user))
    now += synthesis_ms
    record = make_episode(
        user=user, workload=workload, control="scripted", tools="recorded", done_ns=now * MS
    )
    return record, calls, tools


def level(parts: list[tuple[EpisodeRecord, list[LLMRecord], list[ToolRecord]]]) -> Level:
    return make_level(
        [record for record, _, _ in parts],
        [one for _, calls, _ in parts for one in calls],
        [one for _, _, tools in parts for one in tools],
        engine="seed",
        control="scripted",
    )


SEED_EPISODES: list[tuple[Workload, list[Turn], int, int]] = [
    (Workload.naive_rag, [], 280, 20),
    (Workload.react_1, [(150, [50])], 300, 0),
    (Workload.react_2, [(150, [50]), (180, [20])], 400, 0),
    (Workload.react_3, [(150, [50]), (180, [20]), (200, [50])], 450, 0),
    (Workload.parallel, [(150, [50, 20])], 400, 0),
    (Workload.web, [(150, [50]), (180, [600])], 520, 0),
]


def test_the_seeds_own_parts_give_its_totals() -> None:
    parts = [
        episode(workload, turns, synthesis, user, retrieve)
        for user, (workload, turns, synthesis, retrieve) in enumerate(SEED_EPISODES)
    ]
    rows = accounting_rows([level(parts)], STATED_EPISODE_MS)
    assert [row.row for row in rows] == list(STATED_EPISODE_MS)
    for row, (_, turns, _, _) in zip(rows, SEED_EPISODES, strict=True):
        assert row.stated_ms == STATED_EPISODE_MS[row.row]
        assert row.seed_accounting_ms == pytest.approx(row.stated_ms, abs=1e-6)
        assert row.omitted_ms == pytest.approx(len(turns) * DECODE_MS, abs=1e-6)
        assert row.measured_ms == pytest.approx(row.seed_accounting_ms + row.omitted_ms, abs=1e-6)


def test_stated_totals_are_those_of_the_reference() -> None:
    stated = read_published()["seed_latency"]["episode_ms"]
    stated["web"] = stated.pop("with_web")
    assert stated == STATED_EPISODE_MS


def test_a_row_holds_medians_of_whole_episodes() -> None:
    parts = [
        episode(Workload.react_1, [(ttft, [50])], 300, user)
        for user, ttft in enumerate((100, 150, 900))
    ]
    (row,) = accounting_rows([level(parts)], {})
    assert (row.n, row.stated_ms) == (3, None)
    assert row.seed_accounting_ms == pytest.approx(500)


def test_unanswered_and_selection_episodes_are_left_out() -> None:
    good = episode(Workload.react_1, [(150, [50])], 300, 0)
    failed = episode(Workload.react_1, [(150, [50])], 300, 1)
    failed[0].outcome = EpisodeOutcome.failed
    chosen = episode(Workload.selection, [], 300, 2)
    (row,) = accounting_rows([level([good, failed, chosen])], STATED_EPISODE_MS)
    assert (row.row, row.n) == ("react_1", 1)


def test_an_episode_with_an_unknown_part_is_left_out() -> None:
    collapsed = episode(Workload.react_1, [(150, [50])], 300, 0)
    collapsed[1][0].collapsed = True
    lost = episode(Workload.react_1, [(150, [50])], 300, 1)
    lost[2][0].done_ns = None
    silent = episode(Workload.react_1, [(150, [50])], 300, 2)
    silent[1][-1].last_delta_ns = None
    assert accounting_rows([level([collapsed, lost, silent])], STATED_EPISODE_MS) == []


def test_levels_of_one_engine_and_load_are_pooled() -> None:
    levels = [level([episode(Workload.react_1, [(150, [50])], 300)]) for _ in range(2)]
    levels[1].run = "another"
    (row,) = accounting_rows(levels, STATED_EPISODE_MS)
    assert row.n == 2


def test_parallel_tools_count_once_and_retries_in_full() -> None:
    assert tool_time_s([tool(0, 0, 0, 50), tool(0, 1, 2, 20)]) == pytest.approx(0.05)
    assert tool_time_s([tool(0, 0, 0, 50), tool(0, 0, 50, 30)]) == pytest.approx(0.08)
    assert tool_time_s([tool(0, 0, 0, None)]) is None
    assert tool_time_s([]) == 0.0
    assert tools_time_s([tool(0, 0, 0, 50), tool(1, 0, 500, 20)]) == pytest.approx(0.07)


def test_no_call_is_no_accounting() -> None:
    assert seed_accounting_s([], []) is None
