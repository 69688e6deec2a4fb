"""Expected facts in answers, and the rows of a level."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.episode import Task, Workload
from bench.fit.level import Level
from bench.quality.answers import answer_rows, has_facts
from bench.record import EpisodeOutcome
from makers import make_episode, make_level, make_point


@pytest.mark.parametrize(
    ("fact", "answer", "found"),
    [
        ("47", "There are 47 contracts.", True),
        ("47", "There are 47.", True),
        ("47", "There are 147 contracts.", False),
        ("47", "47.5 on average", False),
        ("47", "0.47 of them", False),
        ("47", "1,047 of them", False),
        ("47", "47,000 of them", False),
        ("47", "a change of -47", False),
        ("-47", "a change of \u221247", True),
        ("47", "A47 and 47B", False),
        ("47", "**47** contracts", True),
        ("47", "_47_ contracts", True),
        ("47", "47.00 euros", True),
        ("8300000", "a total of 8,300,000 euros", True),
        ("8300000", "a total of \u20ac8300000.00", True),
        ("8300000", "8.300.000 EUR", True),
        ("8300000", "8\u202f300\u202f000", True),
        ("8,300,000", "8300000", True),
        ("8300000", "18,300,000", False),
        ("8300000", "8,300,001", False),
        ("12.5", "12.50 days", True),
        ("12.5", "12.51 days", False),
        ("12.50", "12.5 days", True),
        ("Nordwind AG", "the provider is nordwind  ag.", True),
        ("Nordwind", "Nordwinds", False),
        ("EMEA", "in `EMEA`", True),
        ("2024-03-01", "signed on 2024-03-01.", True),
        ("2024-03-01", "signed on 2024-03-011", False),
        ("5 %", "a penalty of 5 %", True),
    ],
)
def test_one_fact(fact: str, answer: str, found: bool) -> None:
    assert has_facts(answer, [fact]) is found


def test_every_fact_is_needed() -> None:
    assert has_facts("47 contracts in EMEA", ["47", "emea"])
    assert not has_facts("47 contracts", ["47", "EMEA"])
    assert not has_facts("", ["47"])


@given(st.integers(0, 10**12))
def test_any_number_is_found_however_it_is_grouped(number: int) -> None:
    for text in (f"{number}", f"{number:,}", f"{number:,}.00"):
        assert has_facts(f"The sum is ({text}).", [str(number)])
        assert not has_facts(f"The sum is 1{text}.", [str(number)])


def a_level(control: str = "live") -> Level:
    done = EpisodeOutcome.answered
    cases = [
        (Workload.react_1, "a", "47 it is", done),
        (Workload.react_1, "a", "48 it is", done),
        (Workload.react_1, "a", "47", EpisodeOutcome.iteration_limit),
        (Workload.web, "b", "", EpisodeOutcome.failed),
        (Workload.web, "free", "anything", done),
        (Workload.selection, "a", "47", EpisodeOutcome.chosen),
    ]
    episodes = [
        make_episode(
            episode=number,
            task=task,
            workload=workload,
            control=control,
            scheduled_ns=number,
            outcome=outcome,
            answer=answer,
        )
        for number, (workload, task, answer, outcome) in enumerate(cases)
    ]
    facts = {"a": ["47"], "b": ["48"], "free": []}
    tasks = {
        name: Task(id=name, workload=Workload.react_1, question="q", facts=expected)
        for name, expected in facts.items()
    }
    return make_level(episodes, point=make_point(users=4), control=control, end_ns=100, tasks=tasks)


def test_rows_are_over_every_attempt() -> None:
    rows = {row.workload: row for row in answer_rows([a_level()])}
    assert list(rows) == ["all", "react_1", "web"]
    assert (rows["all"].correct.value, rows["all"].correct.n) == (1 / 4, 4)
    assert (rows["all"].completed.value, rows["all"].completed.n) == (3 / 5, 5)
    assert (rows["react_1"].correct.value, rows["react_1"].completed.value) == (1 / 3, 2 / 3)
    assert (rows["web"].correct.value, rows["web"].correct.n) == (0.0, 1)


def test_scripted_answers_are_not_graded() -> None:
    assert answer_rows([a_level("scripted")]) == []
