from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.episode import (
    PlannedCall,
    PlannedTurn,
    Purpose,
    Task,
    ToolDescription,
    Workload,
    read_tasks,
    read_tools,
    substream,
)
from bench.errors import ScenarioError

TASK = Task(
    id="t1",
    workload=Workload.react_1,
    question="How many?",
    turns=[PlannedTurn(calls=[PlannedCall(tool="sql_query", arguments={"query": "SELECT 1"})])],
    facts=["47"],
)


def test_tasks_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(msgspec.json.encode(TASK) + b"\n\n")
    assert read_tasks(path) == [TASK]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "holds no task"),
        (b"\n \n", "holds no task"),
        (b'{"id": "x"}\n', "tasks.jsonl:1: is not a task"),
        (b"not json\n", "tasks.jsonl:1: is not a task"),
        (b"\xff\xfe\n", "cannot be read"),
        (msgspec.json.encode(TASK) + b"\n" + msgspec.json.encode(TASK), "occurs twice"),
    ],
)
def test_bad_tasks_are_one_sentence(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=why) as raised:
        read_tasks(path)
    assert "\n" not in str(raised.value)


def test_a_missing_tasks_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_tasks(tmp_path / "none.jsonl")


def test_an_unknown_tool_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    entry = ToolDescription(
        tool="telephone",
        strong_name="telephone",
        strong_description="Call someone.",
        weak_name="call",
        weak_description="Calls.",
        parameters={},
    )
    path.write_bytes(msgspec.json.encode([entry]))
    with pytest.raises(ScenarioError, match="unknown tool 'telephone'; use sql_query"):
        read_tools(path)


def test_faces_differ_in_name_and_text() -> None:
    entry = ToolDescription(
        tool="sql_query",
        strong_name="sql_query",
        strong_description="Counts. NOT for clauses.",
        weak_name="query_data",
        weak_description="Gets data.",
        parameters={"type": "object"},
    )
    strong, weak = entry.face(True)["function"], entry.face(False)["function"]
    assert (strong["name"], weak["name"]) == ("sql_query", "query_data")
    assert strong["parameters"] == weak["parameters"]


def test_substreams_are_keyed_not_ordered() -> None:
    first = substream(7, user=3, episode=5, turn=1, purpose=Purpose.think).random(4)
    substream(7, user=0, episode=0, turn=0, purpose=Purpose.think).random(100)
    again = substream(7, user=3, episode=5, turn=1, purpose=Purpose.think).random(4)
    other = substream(7, user=3, episode=5, turn=1, purpose=Purpose.task).random(4)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
