"""Tool selection grades, one by one and as rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.episode import PlannedCall, PlannedTurn, Task, ToolCall, ToolDescription, Workload
from bench.errors import AnalysisError
from bench.fit.level import Level
from bench.quality.selection import Faces, Outcome, grade, selection_rows
from bench.record import EpisodeOutcome, LLMOutcome, LLMRecord
from makers import make_call, make_episode, make_level, make_point

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}, "k": {"default": 5}}}
TOOLS = [
    ToolDescription(
        tool=tool,
        strong_name=tool,
        strong_description="",
        weak_name=weak,
        weak_description="",
        parameters=PARAMETERS,
    )
    for tool, weak in (
        ("sql_query", "query_data"),
        ("vector_search", "search_docs"),
        ("web_search", "search_info"),
    )
]
STRONG = Faces.of(TOOLS, "strong")


def a_record(
    names: list[str],
    outcome: LLMOutcome = LLMOutcome.ok,
    arguments: list[dict[str, Any]] | None = None,
    number: int = 0,
) -> LLMRecord:
    given_arguments = arguments or [{} for _ in names]
    return make_call(
        episode=number,
        workload=Workload.selection,
        scheduled_ns=number,
        outcome=outcome,
        calls=[
            ToolCall(f"c{i}", name, json.dumps(one))
            for i, (name, one) in enumerate(zip(names, given_arguments, strict=True))
        ],
    )


def plan(*tools: str) -> list[PlannedCall]:
    return [PlannedCall(tool) for tool in tools]


@pytest.mark.parametrize(
    ("expected", "called", "outcome"),
    [
        (["sql_query"], ["sql_query"], Outcome.correct),
        (["sql_query"], ["web_search"], Outcome.wrong_tool),
        (["sql_query"], ["sql_query", "web_search"], Outcome.wrong_tool),
        (["sql_query"], ["invented"], Outcome.wrong_tool),
        (["sql_query"], [], Outcome.missed_call),
        (["sql_query", "vector_search"], ["vector_search", "sql_query"], Outcome.correct),
        (["sql_query", "vector_search"], ["vector_search"], Outcome.missed_call),
        (["sql_query", "sql_query"], ["sql_query"], Outcome.missed_call),
        (["sql_query", "sql_query"], ["sql_query", "sql_query"], Outcome.correct),
        ([], [], Outcome.correct),
        ([], ["web_search"], Outcome.false_call),
    ],
)
def test_names(expected: list[str], called: list[str], outcome: Outcome) -> None:
    assert grade(plan(*expected), a_record(called), STRONG).outcome is outcome


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (LLMOutcome.parse_failure, Outcome.parse_failure),
        (LLMOutcome.truncated, Outcome.truncated),
        (LLMOutcome.transport_error, Outcome.transport_error),
        (LLMOutcome.stream_error, Outcome.transport_error),
        (LLMOutcome.cut, Outcome.transport_error),
    ],
)
def test_what_cannot_be_read_is_no_abstention(outcome: LLMOutcome, expected: Outcome) -> None:
    assert grade([], a_record([], outcome), STRONG).outcome is expected
    right_but_failed = grade(plan("sql_query"), a_record(["sql_query"], outcome), STRONG)
    assert right_but_failed.outcome is expected
    assert right_but_failed.chosen is None


def test_weak_names_mean_the_same_tools_and_strong_ones_are_not_offered() -> None:
    weak = Faces.of(TOOLS, "weak")
    assert grade(plan("sql_query"), a_record(["query_data"]), weak).outcome is Outcome.correct
    assert grade(plan("sql_query"), a_record(["sql_query"]), weak).outcome is Outcome.wrong_tool
    with pytest.raises(AnalysisError, match="strong or weak"):
        Faces.of(TOOLS, "medium")


def test_strict_needs_a_matching_of_the_arguments() -> None:
    # A greedy matching would give the first plan the only call that the second one can take.
    expected = [PlannedCall("vector_search"), PlannedCall("vector_search", {"query": "b"})]
    calls = a_record(["vector_search"] * 2, arguments=[{"query": "b"}, {"query": "a"}])
    assert grade(expected, calls, STRONG).strict is True
    calls = a_record(["vector_search"] * 2, arguments=[{"query": "c"}, {"query": "a"}])
    found = grade(expected, calls, STRONG)
    assert (found.outcome, found.strict) == (Outcome.correct, False)
    assert grade(plan("sql_query"), a_record(["sql_query"]), STRONG).strict is None
    asked = [PlannedCall("sql_query", {"query": "x"})]
    assert grade(asked, a_record([], LLMOutcome.truncated), STRONG).strict is False


@given(st.permutations(["sql_query", "vector_search", "web_search", "sql_query"]))
def test_the_order_of_parallel_calls_does_not_count(order: list[str]) -> None:
    expected = plan("sql_query", "sql_query", "vector_search", "web_search")
    assert grade(expected, a_record(order), STRONG).outcome is Outcome.correct


def a_level(items: list[tuple[list[str], LLMRecord | None]], control: str = "live") -> Level:
    tasks, episodes, llm = {}, [], []
    for number, (expected, record) in enumerate(items):
        turns = [PlannedTurn(plan(*expected))] if expected else []
        tasks[f"t{number}"] = Task(
            id=f"t{number}",
            workload=Workload.selection,
            question="q",
            turns=turns,
            stratum="easy" if number % 2 == 0 else "hard",
        )
        episodes.append(
            make_episode(
                episode=number,
                task=f"t{number}",
                workload=Workload.selection,
                control=control,
                scheduled_ns=number,
                outcome=EpisodeOutcome.chosen if record else EpisodeOutcome.failed,
            )
        )
        if record is not None:
            record.episode = number
            llm.append(record)
    return make_level(
        episodes, llm, point=make_point(users=4), control=control, end_ns=100, tasks=tasks
    )


def test_a_row_counts_answered_and_attempted_apart() -> None:
    level = a_level(
        [
            (["sql_query"], a_record(["sql_query"])),
            (["sql_query"], a_record(["web_search"])),
            (["web_search"], a_record([])),
            (["web_search"], a_record([], LLMOutcome.parse_failure)),
            (["web_search"], a_record([], LLMOutcome.transport_error)),
            (["web_search"], None),
            ([], a_record([])),
            ([], a_record(["sql_query", "web_search"])),
        ]
    )
    (row,) = selection_rows([level], TOOLS, "strong")
    assert (row.items, row.users, row.descriptions) == (8, 4, "strong")
    assert (row.tsa.value, row.tsa.n) == (1 / 4, 4)
    assert (row.tsa_attempts.value, row.tsa_attempts.n) == (1 / 6, 6)
    assert (row.abstention.value, row.abstention.n) == (0.5, 2)
    assert (row.tsa_strict.value, row.tsa_strict.n) == (None, 0)
    assert row.outcomes == {
        "correct": 2,
        "wrong_tool": 1,
        "missed_call": 1,
        "false_call": 1,
        "parse_failure": 1,
        "truncated": 0,
        "transport_error": 2,
    }
    assert row.confusion == {
        "none": {"none": 1, "other": 1},
        "sql_query": {"sql_query": 1, "web_search": 1},
        "web_search": {"none": 1},
    }
    assert {name: one.n for name, one in row.by_stratum.items()} == {"easy": 2, "hard": 2}


def test_scripted_choices_are_refused_and_levels_without_items_skipped() -> None:
    with pytest.raises(AnalysisError, match="scripted"):
        selection_rows([a_level([([], a_record([]))], control="scripted")], TOOLS, "strong")
    assert selection_rows([a_level([])], TOOLS, "strong") == []
