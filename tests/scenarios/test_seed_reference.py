"""The preset scenario: its plans are the rows of the seed's latency table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import bench.sql
from bench.material import SCENARIOS, Material, load_material

TOOL_MS = {"sql_query": 50, "vector_search": 20, "web_search": 600}
TTFT_MS = (150, 180, 200)
SYNTHESIS_MS = {"react_1": 300, "react_2": 400, "react_3": 450, "parallel": 400, "web": 300}
STATED_MS = {"react_1": 500, "react_2": 800, "react_3": 1100, "parallel": 600, "web": 1500}


@pytest.fixture
def material(tmp_path: Path) -> Material:
    return load_material("seed_reference", "own", 0, 1, tmp_path)


def test_it_needs_no_corpus(material: Material) -> None:
    assert material.directory == SCENARIOS / "seed_reference"
    assert material.tables == [] and material.selection == []
    assert not material.documents.exists() and not material.pages.exists()


def test_several_tasks_for_each_row(material: Material) -> None:
    counts = Counter(task.workload.value for task in material.tasks)
    assert set(counts) == {*STATED_MS, "naive_rag"} and min(counts.values()) >= 3
    assert all(task.facts == [] for task in material.tasks)
    assert len({task.question for task in material.tasks}) == len(material.tasks)


def test_the_plans_add_up_to_the_stated_totals(material: Material) -> None:
    """TTFT + the slowest tool of each turn, then the final call."""
    for task in material.tasks:
        tools_ms = [max(TOOL_MS[call.tool] for call in turn.calls) for turn in task.turns]
        name = task.workload.value
        if name == "naive_rag":
            assert tools_ms == [20]  # + 280 = 300
            continue
        turns_ms = sum(t + tool for t, tool in zip(TTFT_MS, tools_ms, strict=False))
        assert turns_ms + SYNTHESIS_MS[name] == STATED_MS[name], task.id


def test_the_statements_are_sound(material: Material) -> None:
    tables = ("contracts", "providers", "payments")
    for task in material.tasks:
        for call in (call for turn in task.turns for call in turn.calls):
            assert call.arguments is not None
            if call.tool == "sql_query":
                assert bench.sql.check(call.arguments["query"], tables, ("count", "sum")) is None
                wanted = {f"${n}" for n in range(1, len(call.arguments["params"]) + 1)}
                assert all(mark in call.arguments["query"] for mark in wanted)
