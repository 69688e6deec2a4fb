"""The generated scenario: deterministic, and every expected fact is what the data says."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bench.sql
from bench.episode import PlannedCall, PlannedTurn, Task, Tool, Workload, read_tasks
from bench.material import SCENARIOS, Material, load_material
from bench.simulator.completion import pieces_of
from bench.simulator.policy import Call, Reply

SEED = 20260604
FUNCTIONS = ("count", "sum", "min", "max")
TABLES = ("public.contracts", "public.providers", "public.payments")


def generate(seed: int, out: Path) -> None:
    script = SCENARIOS / "contracts" / "generate.py"
    command = [sys.executable, str(script), "--seed", str(seed), "--out", str(out)]
    subprocess.run(command, check=True, timeout=60)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return load_material("contracts", "own", 0, SEED, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def database(material: Material) -> Iterator[sqlite3.Connection]:
    """The tables in SQLite: the same rows and statements, another engine."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(material.tables_sql.read_text().replace("public.", ""))
    for path in material.tables:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        values = [[None if field == "" else field for field in row] for row in rows]
        marks = ",".join("?" * len(header))
        connection.executemany(
            f"INSERT INTO {path.stem} ({','.join(header)}) VALUES ({marks})", values
        )
    yield connection
    connection.close()


def sql_values(database: sqlite3.Connection, call: PlannedCall) -> list[str]:
    assert call.arguments is not None
    params = {str(n): value for n, value in enumerate(call.arguments.get("params", []), start=1)}
    rows = database.execute(call.arguments["query"], params).fetchall()
    return [str(value) for row in rows for value in row]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def calls_of(task: Task, tool: Tool) -> list[PlannedCall]:
    return [call for turn in task.turns for call in turn.calls if call.tool == tool.value]


def test_the_same_seed_gives_the_same_bytes(material: Material, tmp_path: Path) -> None:
    generate(SEED, tmp_path)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert len(made) == 8
    for name in made:
        assert (tmp_path / name).read_bytes() == (material.directory / name).read_bytes(), name


def test_another_seed_gives_other_material_of_the_same_size(
    material: Material, tmp_path: Path
) -> None:
    generate(7, tmp_path)
    for name in ("tasks.jsonl", "selection.jsonl", "documents.jsonl", "pages.jsonl"):
        new, old = (folder / name for folder in (tmp_path, material.directory))
        assert new.read_bytes() != old.read_bytes()
    for name in ("tasks.jsonl", "selection.jsonl"):
        old_count = len(read_lines(material.directory / name))
        assert len(read_lines(tmp_path / name)) == old_count


def test_sizes(material: Material, database: sqlite3.Connection) -> None:
    counts = {
        table: database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
        for table in ("providers", "contracts", "payments")
    }
    assert counts["providers"] == 200 and counts["contracts"] == 5000
    assert counts["payments"] > 7000
    documents = read_lines(material.documents)
    assert len(documents) > 3000
    assert [document["id"] for document in documents] == list(range(1, len(documents) + 1))
    words = [len(document["text"].split()) for document in documents]
    assert min(words) >= 60 and max(words) <= 120
    pages = read_lines(material.pages)
    assert 200 <= len(pages) <= 600
    assert len({page["url"] for page in pages}) == len(pages)


def test_the_seeds_own_query_works(database: sqlite3.Connection) -> None:
    query = (
        "SELECT COUNT(*), SUM(amount) FROM contracts "
        "WHERE amount > $1 AND year = $2 AND provider_region = $3"
    )
    count, total = database.execute(query, {"1": 100_000, "2": 2025, "3": "EU"}).fetchone()
    assert count > 40 and total > 100_000 * count
    [name] = database.execute("SELECT provider FROM contracts ORDER BY id LIMIT 1").fetchone()
    assert database.execute("SELECT * FROM contracts WHERE provider = $1", {"1": name}).fetchall()


def test_rows_are_consistent(database: sqlite3.Connection) -> None:
    for wrong in (
        "SELECT 1 FROM contracts c JOIN providers p ON p.id = c.provider_id "
        "WHERE c.provider_region <> p.region OR c.provider <> p.name",
        "SELECT 1 FROM payments p JOIN contracts c ON c.id = p.contract_id "
        "WHERE p.provider <> c.provider",
        "SELECT 1 FROM contracts WHERE CAST(substr(signed_on, 1, 4) AS integer) <> year",
        "SELECT 1 FROM payments WHERE (status = 'paid') <> (paid_on IS NOT NULL)",
        "SELECT 1 FROM payments WHERE paid_on IS NOT NULL "
        "AND julianday(paid_on) - julianday(invoiced_on) <> days",
        "SELECT 1 FROM payments p JOIN contracts c ON c.id = p.contract_id "
        "GROUP BY c.id HAVING SUM(p.amount) > c.amount",
    ):
        assert database.execute(wrong).fetchone() is None, wrong


def test_workloads_and_their_plans(material: Material) -> None:
    counts = Counter(task.workload.value for task in material.tasks)
    assert set(counts) == {"naive_rag", "react_1", "react_2", "react_3", "parallel", "web"}
    assert min(counts.values()) >= 20
    shapes: dict[str, Counter[str]] = {}
    for task in material.tasks:
        shape = ">".join("+".join(call.tool[0] for call in turn.calls) for turn in task.turns)
        shapes.setdefault(task.workload.value, Counter())[shape] += 1
    assert set(shapes["naive_rag"]) == {"v"}
    assert set(shapes["react_1"]) == {"s", "v"} and shapes["react_1"]["s"] > shapes["react_1"]["v"]
    assert set(shapes["react_2"]) == {"s>v"} and set(shapes["react_3"]) == {"s>v>s"}
    assert set(shapes["parallel"]) == {"s+v"} and set(shapes["web"]) == {"s>w", "v>w"}
    for task in material.tasks:
        assert task.facts and all(task.facts)
        for turn in task.turns:
            assert 3 <= len(turn.thought.split()) <= 6
            assert not any(tool.value in turn.thought for tool in Tool)
            assert all(call.arguments for call in turn.calls)


def tokens_of(turn: PlannedTurn) -> int:
    """Of thought, names and arguments, as the simulated engine generates them."""
    calls = [Call(c.tool, json.dumps(c.arguments, ensure_ascii=False)) for c in turn.calls]
    return len(pieces_of(Reply(content=turn.thought, calls=calls)))


@pytest.mark.parametrize("seed", [SEED, 7])
def test_a_thought_and_its_call_are_about_thirty_tokens(
    seed: int, material: Material, tmp_path: Path
) -> None:
    """The seed's assumption for the decode of a turn; naive_rag's first step is no generation."""
    tasks = material.tasks
    if seed != SEED:
        generate(seed, tmp_path)
        tasks = read_tasks(tmp_path / "tasks.jsonl")
    turns = [turn for t in tasks if t.workload is not Workload.naive_rag for turn in t.turns]
    alone = sorted(tokens_of(turn) for turn in turns if len(turn.calls) == 1)
    beside = sorted(tokens_of(turn) for turn in turns if len(turn.calls) == 2)
    assert 28 <= alone[len(alone) // 2] <= 36
    assert alone[len(alone) * 9 // 10] < 45
    assert 55 <= beside[len(beside) // 2] <= 66


def test_text_is_always_a_parameter(material: Material) -> None:
    """The seed's rule: no value that somebody wrote is part of the statement."""
    for task in (*material.tasks, *material.selection):
        for call in calls_of(task, Tool.sql_query):
            if call.arguments:
                query, params = call.arguments["query"], call.arguments.get("params", [])
                assert "'" not in query and '"' not in query
                assert set(re.findall(r"\$(\d+)", query)) == {
                    str(n) for n in range(1, len(params) + 1)
                }


def test_questions_are_unique(material: Material) -> None:
    questions = [task.question for task in (*material.tasks, *material.selection)]
    assert len(set(questions)) == len(questions)
    assert not any(re.search(r"[{}]", question) for question in questions)


def test_pure_sql_facts_are_the_queries_results(
    material: Material, database: sqlite3.Connection
) -> None:
    """Facts come from Python, results from SQL: two computations, one value."""
    checked = 0
    for task in material.tasks:
        if task.stratum != "sql":
            continue
        [call] = calls_of(task, Tool.sql_query)
        values = sql_values(database, call)
        assert set(task.facts) <= set(values), task.id
        checked += 1
    assert checked >= 12


def test_every_fact_is_held_by_an_observation(
    material: Material, database: sqlite3.Connection
) -> None:
    """SQL results, the five nearest chunks by exact cosine, the three best pages."""
    search_documents = nearest_documents(material)
    search_pages = best_pages(material)
    for task in material.tasks:
        values = {v for c in calls_of(task, Tool.sql_query) for v in sql_values(database, c)}
        texts = [
            text
            for tool, search in (
                (Tool.vector_search, search_documents),
                (Tool.web_search, search_pages),
            )
            for call in calls_of(task, tool)
            for text in search((call.arguments or {})["query"])
        ]
        for fact in task.facts:
            heads = (" ".join(re.split(r"(?<=\.) ", text)[:2]) for text in texts)
            assert fact in values or any(fact in head for head in heads), (task.id, fact)


def test_sql_facts_do_not_come_from_texts(material: Material, database: sqlite3.Connection) -> None:
    """Each SQL call of a graded task contributes at least one fact of its own."""
    for task in material.tasks:
        for call in calls_of(task, Tool.sql_query):
            assert set(sql_values(database, call)) & set(task.facts), task.id


def test_the_next_call_names_what_the_first_one_finds(
    material: Material, database: sqlite3.Connection
) -> None:
    for task in material.tasks:
        if task.stratum.startswith("sql>vector"):
            first, second = task.turns[0].calls[0], task.turns[1].calls[0]
            found = sql_values(database, first)
            query = (second.arguments or {})["query"]
            assert any(value in query for value in found if not value.isdigit()), task.id


def nearest_documents(material: Material) -> Any:
    wordllama = pytest.importorskip("wordllama")
    model = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
    texts = [document["text"] for document in read_lines(material.documents)]
    vectors = model.embed(texts, norm=True)

    def search(query: str) -> list[str]:
        near = np.argsort(-(vectors @ model.embed([query], norm=True)[0]))[:5]
        return [texts[place] for place in near]

    return search


def best_pages(material: Material) -> Any:
    tantivy = pytest.importorskip("tantivy")
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True)
    builder.add_text_field("content", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for page in read_lines(material.pages):
        writer.add_document(tantivy.Document(title=page["title"], content=page["content"]))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        parsed, _ = index.parse_query_lenient(query, ["title", "content"])
        return [searcher.doc(place)["content"][0] for _, place in searcher.search(parsed, 3).hits]

    return search


def test_the_guard_lets_every_planned_statement_pass(material: Material) -> None:
    statements = {
        call.arguments["query"]
        for task in (*material.tasks, *material.selection)
        for call in calls_of(task, Tool.sql_query)
        if call.arguments
    }
    assert len(statements) >= 60
    for statement in statements:
        assert bench.sql.check(statement, TABLES, FUNCTIONS) is None, statement


def test_selection_strata(material: Material) -> None:
    counts = Counter(item.stratum for item in material.selection)
    assert sum(counts.values()) >= 120
    assert set(counts) == {"sql", "vector", "web", "parallel", "abstention", "adversarial"}
    assert min(counts.values()) >= 20 and max(counts.values()) <= 2 * min(counts.values())
    single = {"sql": "sql_query", "vector": "vector_search", "web": "web_search"}
    for item in material.selection:
        tools = [call.tool for turn in item.turns for call in turn.calls]
        if item.stratum in single:
            assert tools == [single[item.stratum]]
        elif item.stratum == "parallel":
            assert len(set(tools)) == 2 and "sql_query" in tools
        elif item.stratum == "abstention":
            assert tools == []
        else:
            assert len(tools) <= 1
    adversarial = Counter(
        tuple(call.tool for turn in item.turns for call in turn.calls)
        for item in material.selection
        if item.stratum == "adversarial"
    )
    assert len(adversarial) == 4 and min(adversarial.values()) >= 5


def test_selection_arguments_find_something(
    material: Material, database: sqlite3.Connection
) -> None:
    checked = 0
    for item in material.selection:
        for call in calls_of(item, Tool.sql_query):
            if call.arguments is not None:
                values = sql_values(database, call)
                assert values and "None" not in values, item.id
                checked += 1
    assert checked >= 60


def test_both_faces_of_the_tools(material: Material) -> None:
    assert {entry.tool for entry in material.tools} == set(Tool.__members__)
    for entry in material.tools:
        assert entry.strong_name == entry.tool != entry.weak_name
        assert "NOT for" in entry.strong_description and "NOT" not in entry.weak_description
        assert len(entry.weak_description) < len(entry.strong_description) / 2
        assert "query" in entry.parameters["required"]
    [sql] = [entry for entry in material.tools if entry.tool == "sql_query"]
    ddl = material.tables_sql.read_text()
    for table in re.findall(r"CREATE TABLE public\.(\w+) \((.*?)\n\);", ddl, re.DOTALL):
        columns = re.findall(r"^ +(\w+)", table[1], re.MULTILINE)
        assert f"{table[0]}({', '.join(columns)})" in sql.strong_description
