"""Loading material: folders, generators, selection shapes, samples, and every way to be wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench.material
from bench.episode import Task, Workload
from bench.errors import ScenarioError
from bench.material import POOL, load_material, read_selection, stratified_sample

TASK: dict[str, Any] = {
    "id": "t1",
    "workload": "react_1",
    "question": "How many?",
    "turns": [{"thought": "count", "calls": [{"tool": "sql_query", "arguments": None}]}],
}
ITEM: dict[str, Any] = {
    "id": "s1",
    "question": "How many orders?",
    "turns": [{"calls": [{"tool": "sql_query", "arguments": None}]}],
    "stratum": "sql",
}


def tool(name: str) -> dict[str, Any]:
    face = {"strong_name": name, "strong_description": "s", "weak_name": f"w_{name}"}
    return {"tool": name, **face, "weak_description": "w", "parameters": {"type": "object"}}


def lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    (made / "tools.json").write_text(json.dumps([tool("sql_query"), tool("vector_search")]))
    (made / "tasks.jsonl").write_text(lines(TASK))
    return made


def load(folder: Path, selection: str = "own", items: int = 0, seed: int = 1) -> Any:
    return load_material(str(folder), selection, items, seed, folder.parent / "cache")


def refusal(folder: Path, selection: str = "own") -> str:
    with pytest.raises(ScenarioError) as caught:
        load(folder, selection)
    message = str(caught.value)
    assert "\n" not in message and message.count("; ") >= 1
    return message


def test_a_folder_without_corpus_is_enough(folder: Path) -> None:
    material = load(folder)
    assert [task.id for task in material.tasks] == ["t1"]
    assert material.selection == [] and material.selection_source == "none"
    assert material.directory == folder and material.tables == []
    assert not material.documents.exists() and len(material.content_hash) == 64


def test_tables_come_in_the_order_of_their_creation(folder: Path) -> None:
    (folder / "tables").mkdir()
    for name in ("a_child", "parent", "z_extra"):
        (folder / "tables" / f"{name}.csv").write_text("id\n1\n")
    (folder / "tables.sql").write_text(
        "CREATE TABLE public.parent (id int);\ncreate table if not exists a_child (id int);\n"
    )
    assert [path.stem for path in load(folder).tables] == ["parent", "a_child", "z_extra"]


def test_the_hash_follows_the_content(folder: Path) -> None:
    before = load(folder).content_hash
    assert load(folder).content_hash == before
    (folder / "documents.jsonl").write_text('{"id": 1, "text": "x", "payload": {}}\n')
    assert load(folder).content_hash != before


def test_an_unknown_name_suggests_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "README.md").write_text("card")
    monkeypatch.setattr(bench.material, "SCENARIOS", tmp_path)
    with pytest.raises(ScenarioError, match=r"workload\.material=contarcts.*'contracts'"):
        load_material("contarcts", "own", 0, 1, tmp_path)
    with pytest.raises(ScenarioError, match="use contracts or a path"):
        load_material("zzz", "own", 0, 1, tmp_path)


def test_an_empty_tasks_file_is_refused(folder: Path) -> None:
    (folder / "tasks.jsonl").write_text("\n")
    assert "holds no task" in refusal(folder)


def test_unreadable_tasks_name_the_line(folder: Path) -> None:
    (folder / "tasks.jsonl").write_text(lines(TASK) + "{nonsense\n")
    assert "tasks.jsonl:2" in refusal(folder)


def test_missing_files_are_refused(folder: Path) -> None:
    (folder / "tasks.jsonl").unlink()
    assert "cannot be read" in refusal(folder)
    (folder / "tools.json").unlink()
    assert "tools.json" in refusal(folder)


def test_unknown_tools_are_refused(folder: Path) -> None:
    plan = [{"calls": [{"tool": "sql_qery"}]}]
    (folder / "tasks.jsonl").write_text(lines({**TASK, "turns": plan}))
    message = refusal(folder)
    assert "'sql_qery'" in message and "use sql_query" in message
    plan = [{"calls": [{"tool": "web_search"}]}]
    (folder / "tasks.jsonl").write_text(lines({**TASK, "turns": plan}))
    assert "tools.json does not describe" in refusal(folder)
    (folder / "tools.json").write_text(json.dumps([tool("telepathy")]))
    assert "unknown tool 'telepathy'" in refusal(folder)
    (folder / "tools.json").write_text("[]")
    assert "describes no tool" in refusal(folder)


def test_selection_items_do_not_hide_among_tasks(folder: Path) -> None:
    (folder / "tasks.jsonl").write_text(lines({**TASK, "workload": "selection"}))
    assert "move it to selection.jsonl" in refusal(folder)


def test_both_shapes_of_selection_items(folder: Path) -> None:
    path = folder / "picked.jsonl"
    path.write_text(
        lines(
            ITEM,
            {
                "id": "s2",
                "question": "Hi",
                "expected_tool": None,
                "source": "ours",
                "licence": "MIT",
            },
            {"id": "s3", "question": "Policy?", "expected_tool": "vector_search"},
        )
    )
    material = load(folder, str(path))
    assert material.selection_source == str(path)
    assert all(item.workload is Workload.selection for item in material.selection)
    assert [item.licence for item in material.selection] == ["", "MIT", ""]
    expected = [[c.tool for t in item.turns for c in t.calls] for item in material.selection]
    assert expected == [["sql_query"], [], ["vector_search"]]
    assert [item.stratum for item in material.selection] == ["sql", "abstention", "vector_search"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "is not a selection item"),
        ("[1]", "is not a selection item"),
        ('{"id": "x", "expected_tool": "sql_query"}', "question"),
        ('{"id": "x", "question": "q", "expected_tool": "sql"}', "unknown tool 'sql'"),
        ('{"id": "s1", "question": "q", "expected_tool": null}', "occurs twice"),
        ('{"id": "x", "question": "q", "workload": "react_1"}', "one turn of workload selection"),
        ('{"id": "x", "question": "q", "turns": [{"calls": []}, {"calls": []}]}', "one turn"),
    ],
)
def test_bad_selection_lines_are_named(folder: Path, bad: str, reason: str) -> None:
    path = folder / "picked.jsonl"
    path.write_text(lines(ITEM) + bad + "\n")
    message = refusal(folder, str(path))
    assert "picked.jsonl:2" in message and reason in message


def test_selection_files_that_are_missing_or_empty(folder: Path) -> None:
    assert "neither own, nor pool, nor a file" in refusal(folder, "poool")
    (folder / "picked.jsonl").write_text("\n")
    assert "holds no item" in refusal(folder, str(folder / "picked.jsonl"))


def test_an_item_may_not_share_a_tasks_id(folder: Path) -> None:
    (folder / "selection.jsonl").write_text(lines({**ITEM, "id": "t1"}))
    assert "a task has the same id" in refusal(folder)


def test_without_the_pool_own_items_step_in_and_say_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.material, "POOL", folder / "absent.jsonl")
    assert load(folder, "pool").selection_source.startswith("none")
    (folder / "selection.jsonl").write_text(lines(ITEM))
    material = load(folder, "pool")
    assert [item.id for item in material.selection] == ["s1"]
    assert "absent" in material.selection_source


@pytest.mark.skipif(not POOL.exists(), reason="../shared is not here")
def test_the_shared_pool_is_read_whole() -> None:
    items = read_selection(POOL)
    assert len(items) == 565
    assert all(item.source and item.licence for item in items)
    counts = Counter(item.stratum for item in items)
    assert counts == {
        "sql_query": 200,
        "vector_search": 200,
        "web_search": 150,
        "abstention": 15,
    }


GENERATOR = """\
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--out", type=pathlib.Path)
chosen = parser.parse_args()
with (pathlib.Path(__file__).parent.parent / "calls").open("a") as calls:
    calls.write("x")
task = {"id": f"g{chosen.seed}", "workload": "naive_rag", "question": "Q"}
(chosen.out / "tasks.jsonl").write_text(json.dumps(task))
"""


def test_a_generator_runs_once_per_seed_and_source(folder: Path) -> None:
    (folder / "tasks.jsonl").unlink()
    (folder / "generate.py").write_text(GENERATOR)
    calls = folder.parent / "calls"
    first = load(folder)
    assert first.tasks[0].id == "g1" and first.directory.parent == folder.parent / "cache"
    assert (first.directory / "tools.json").exists()  # static, copied
    assert load(folder).directory == first.directory and calls.read_text() == "x"
    assert load(folder, seed=2).tasks[0].id == "g2" and calls.read_text() == "xx"
    (folder / "sibling.py").write_text("NEW = 1\n")
    assert load(folder).directory != first.directory and calls.read_text() == "xxx"
    assert [p.name for p in (folder.parent / "cache").iterdir() if p.name.startswith(".")] == []


def test_a_failing_generator_is_quoted_and_leaves_nothing(folder: Path) -> None:
    (folder / "generate.py").write_text("raise SystemExit('first\\nno oil in the engine')\n")
    message = refusal(folder)
    assert "ended with code 1 (no oil in the engine)" in message
    assert list((folder.parent / "cache").iterdir()) == []


def test_a_hanging_generator_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.material, "GENERATE_TIMEOUT_S", 0.5)
    (folder / "generate.py").write_text(
        "import sys, time\nprint('still busy', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    assert "did not end in 0.5 s" in refusal(folder)


def test_a_cache_that_cannot_be_written(folder: Path) -> None:
    (folder / "generate.py").write_text(GENERATOR)
    (folder.parent / "cache").write_text("a file, not a folder")
    assert "generated material cannot be written" in refusal(folder)


def items_of(sizes: list[int]) -> list[Task]:
    return [
        Task(id=f"{stratum}-{n}", workload=Workload.selection, question="q", stratum=str(stratum))
        for stratum, size in enumerate(sizes)
        for n in range(size)
    ]


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32),
)
def test_samples_are_stratified(sizes: list[int], share: float, seed: int) -> None:
    items = items_of(sizes)
    size = max(1, round(share * len(items)))
    sample = stratified_sample(items, size, seed)
    assert len(sample) == size and len({item.id for item in sample}) == size
    assert sample == [item for item in items if item in sample]  # in order
    assert sample == stratified_sample(items, size, seed)
    counts = Counter(item.stratum for item in sample)
    for stratum, available in enumerate(sizes):
        exact = size * available / len(items)
        assert counts[str(stratum)] <= available
        assert abs(counts[str(stratum)] - exact) <= len(sizes) + 1
        assert counts[str(stratum)] >= (size >= len(sizes))


def test_samples_differ_by_seed_and_zero_takes_all() -> None:
    items = items_of([50, 50])
    assert stratified_sample(items, 0, 1) == items
    assert stratified_sample(items, 20, 1) != stratified_sample(items, 20, 2)
