"""Material: what a scenario's folder holds (tasks, selection items, tools, tables, texts, pages).

In go the name of a folder below scenarios/ (or a path) and which selection items to use; out comes
a Material whose tasks and tools are checked. A folder with a `generate.py` is not a dump: its
material is generated once per seed into a cache, by a child process.

    tasks.jsonl  selection.jsonl  tools.json        read here
    tables.sql  tables/<table>.csv                  for sql_query
    documents.jsonl                                 for vector_search
    pages.jsonl                                     for web_search

Only tasks.jsonl and tools.json must exist: a scenario of recorded tools needs no corpus.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.episode import (
    PlannedCall,
    PlannedTurn,
    Task,
    Tool,
    ToolDescription,
    Workload,
    read_tasks,
    read_tools,
)
from bench.errors import ScenarioError
from bench.scenario import Scenario

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "scenarios"
POOL = ROOT.parent / "shared" / "data" / "tool_selection_pool.jsonl"
GENERATE_TIMEOUT_S = 120.0
SAMPLE_KEY = 6  # of the substream that samples selection items; Purpose counts to 5

_STATIC = (
    "tasks.jsonl",
    "selection.jsonl",
    "tools.json",
    "tables.sql",
    "tables",
    "documents.jsonl",
)
_CREATE = re.compile(r"create\s+table\s+(?:if\s+not\s+exists\s+)?(?:\w+\.)?\"?(\w+)\"?", re.I)


class Material(msgspec.Struct, kw_only=True):
    """The material of one run. `directory` holds the corpus files, each of which may be absent."""

    directory: Path
    tasks: list[Task]
    selection: list[Task]
    tools: list[ToolDescription]
    selection_source: str

    @property
    def tables_sql(self) -> Path:
        """The tables' definition."""
        return self.directory / "tables.sql"

    @property
    def tables(self) -> list[Path]:
        """tables/<table>.csv in the order in which tables.sql creates them (foreign keys)."""
        found = {path.stem: path for path in sorted((self.directory / "tables").glob("*.csv"))}
        if not self.tables_sql.exists():
            return list(found.values())
        created = _CREATE.findall(self.tables_sql.read_text(encoding="utf-8"))
        first = [found.pop(name) for name in dict.fromkeys(created) if name in found]
        return [*first, *found.values()]

    @property
    def documents(self) -> Path:
        """The chunks for the vector store: {"id", "text", "payload"} a line."""
        return self.directory / "documents.jsonl"

    @property
    def pages(self) -> Path:
        """The public pages for the web search: {"url", "title", "content"} a line."""
        return self.directory / "pages.jsonl"

    @property
    def content_hash(self) -> str:
        """SHA-256 over tasks, selection, tools and corpus: equal hashes, equal material."""
        digest = hashlib.sha256()
        for part in (self.tasks, self.selection, self.tools):
            digest.update(msgspec.json.encode(part))
        for path in (self.tables_sql, *self.tables, self.documents, self.pages):
            if path.exists():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()


def load_material(
    name: str, selection: str, selection_items: int, seed: int, cache: Path
) -> Material:
    """The checked material of a scenario.

    name: a folder below scenarios/, or a path. selection: "own" (selection.jsonl), "pool" (the
    shared pool; own items where it is absent, which `selection_source` then says), or a JSON-lines
    file of either shape. selection_items: size of the stratified sample, 0 for all. seed: of the
    generator and of the sample. cache: where generated material is kept.

    Raises ScenarioError when the folder, a file in it, or the generator is at fault.
    """
    folder = _find_folder(name)
    directory = _generated(folder, seed, cache) if (folder / "generate.py").exists() else folder
    tools = read_tools(directory / "tools.json")
    if not tools:
        raise ScenarioError(
            f"tools={directory / 'tools.json'}", "describes no tool", "describe at least one"
        )
    tasks = read_tasks(directory / "tasks.jsonl")
    _check_calls(tasks, tools, f"tasks={directory / 'tasks.jsonl'}")
    for task in tasks:
        if task.workload is Workload.selection:
            raise ScenarioError(
                f"tasks={directory / 'tasks.jsonl'}",
                f"task {task.id!r} has workload selection",
                "move it to selection.jsonl",
            )
    items, source = _read_selection(directory, selection)
    _check_calls(items, tools, f"selection={source}")
    _check_ids(tasks, items)
    return Material(
        directory=directory,
        tasks=tasks,
        selection=stratified_sample(items, selection_items, seed),
        tools=tools,
        selection_source=source,
    )


def material_of(scenario: Scenario, cache: Path) -> Material:
    """The material of a scenario, which holds tasks for every workload that the mix deals.

    cache: where generated material is kept. Raises ScenarioError.
    """
    workload = scenario.workload
    material = load_material(
        workload.material, workload.selection, workload.selection_items, scenario.seed, cache
    )
    held = {task.workload.value for task in (*material.tasks, *material.selection)}
    asked = [name for name, weight in workload.mix.items() if weight > 0]
    lacking = [name for name in asked if name not in held]
    if lacking:
        lack = f"has no {_file_of(lacking[0])} (it has {', '.join(sorted(held))})"
        raise ScenarioError(
            f"workload.mix.{lacking[0]}={workload.mix[lacking[0]]:g}",
            f"workload.material={workload.material} {lack}",
            f"set {' '.join(f'workload.mix.{name}=0' for name in lacking)}, or add them",
        )
    return material


def _file_of(workload: str) -> str:
    if workload == Workload.selection.value:
        return "selection items (selection.jsonl, or workload.selection=FILE)"
    return f"task of workload {workload} in tasks.jsonl"


def _find_folder(name: str) -> Path:
    for folder in (SCENARIOS / name, Path(name)):
        if name and folder.is_dir():
            return folder.resolve()
    known = sorted(path.name for path in SCENARIOS.glob("*") if (path / "README.md").exists())
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)} or a path"
    raise ScenarioError(f"workload.material={name}", "there is no such folder", remedy)


def _generated(folder: Path, seed: int, cache: Path) -> Path:
    """The material that generate.py makes, from the cache when it was made before.

    The cache key covers every source file of the folder and the seed. It is written beside its
    place and renamed, so that a reader sees all of it or nothing.
    """
    target = cache / f"{folder.name}-{_source_hash(folder, seed)}"
    if target.is_dir():
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=cache))
        try:
            _run_generator(folder, seed, partial)
            _copy_static(folder, partial)
            partial.chmod(0o755)  # mkdtemp's own is for us alone; a service may run as another user
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        if not target.is_dir():  # else another process has made it at the same time
            raise ScenarioError(
                f"cache={cache}",
                f"generated material cannot be written ({error.strerror})",
                "free disk space or set results=DIR to another disk",
            ) from error
    return target


def _source_hash(folder: Path, seed: int) -> str:
    digest = hashlib.sha256(str(seed).encode())
    for path in sorted(folder.rglob("*")):
        unimportant = path.suffix in (".md", ".pyc") or path.name == "locustfile.py"
        if path.is_file() and not unimportant:
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _run_generator(folder: Path, seed: int, out: Path) -> None:
    script = folder / "generate.py"
    command = [sys.executable, str(script), "--seed", str(seed), "--out", str(out)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    remedy = f"run `python {script} --seed {seed} --out DIR` by hand and correct it"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GENERATE_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        written = error.stderr or error.stdout or b""
        words = _last_line(written.decode(errors="replace"))
        raise ScenarioError(
            f"generator={script}", f"did not end in {GENERATE_TIMEOUT_S:g} s ({words})", remedy
        ) from error
    if done.returncode != 0:
        words = _last_line(done.stderr or done.stdout)
        raise ScenarioError(
            f"generator={script}", f"ended with code {done.returncode} ({words})", remedy
        )


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.strip().splitlines()) if line), "it said nothing")


def _copy_static(folder: Path, out: Path) -> None:
    """Files that the folder holds ready-made and the generator did not write."""
    for name in (*_STATIC, "pages.jsonl"):
        source, target = folder / name, out / name
        if target.exists() or not source.exists():
            continue
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)


def _check_calls(tasks: Iterable[Task], tools: Sequence[ToolDescription], where: str) -> None:
    described = {entry.tool for entry in tools}
    for task in tasks:
        for call in (call for turn in task.turns for call in turn.calls):
            if call.tool not in Tool.__members__:
                reason = f"task {task.id!r} plans unknown tool {call.tool!r}"
                near = difflib.get_close_matches(call.tool, sorted(described), n=1, cutoff=0.4)
                remedy = f"use {near[0] if near else ', '.join(sorted(described))}"
            elif call.tool not in described:
                reason = f"task {task.id!r} plans {call.tool!r}, which tools.json does not describe"
                remedy = "describe it in tools.json or change the plan"
                if where.startswith("selection="):
                    remedy = "describe it in tools.json, or set workload.selection=own or FILE"
            else:
                continue
            raise ScenarioError(where, reason, remedy)


def _check_ids(tasks: Iterable[Task], items: Iterable[Task]) -> None:
    known = {task.id for task in tasks}
    for item in items:
        if item.id in known:
            raise ScenarioError(
                f"selection item {item.id!r}",
                "a task has the same id, and records name tasks by it",
                "give the item an id of its own",
            )


def _read_selection(directory: Path, selection: str) -> tuple[list[Task], str]:
    """All items, and where they come from."""
    own = directory / "selection.jsonl"
    if selection == "pool":
        if POOL.exists():
            return read_selection(POOL), str(POOL)
        if own.exists():
            return read_selection(own), f"{own} (the shared pool is absent)"
        return [], "none (neither the shared pool nor selection.jsonl is there)"
    if selection == "own":
        return (read_selection(own), str(own)) if own.exists() else ([], "none")
    path = Path(selection)
    if not path.is_file():
        raise ScenarioError(
            f"workload.selection={selection}",
            "is neither own, nor pool, nor a file",
            "name a JSON-lines file as scenarios/README.md shows",
        )
    return read_selection(path), str(path)


class _PoolItem(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    question: str
    expected_tool: str | None
    source: str = ""
    licence: str = ""


def read_selection(path: Path) -> list[Task]:
    """The selection items of a JSON-lines file; each line is of Task shape or of the pool's.

    Pool shape: {"id", "question", "expected_tool": name or null, "source", "licence"}. In Task
    shape `workload` may be left out. Raises ScenarioError naming the line.
    """
    remedy = f"write one JSON object a line into {path}, as scenarios/README.md shows"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"selection={path}", f"cannot be read ({error})", remedy) from error
    items = list(_decode_items(lines, path))
    if not items:
        raise ScenarioError(f"selection={path}", "holds no item", remedy)
    return items


def _decode_items(lines: Sequence[str], path: Path) -> Iterator[Task]:
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"selection={path}:{number}"
        try:
            item = _item(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.MsgspecError as error:
            raise ScenarioError(
                where, f"is not a selection item ({error})", "correct this line or remove it"
            ) from error
        if item.workload is not Workload.selection or len(item.turns) > 1:
            raise ScenarioError(
                where, "a selection item is one turn of workload selection", "correct this line"
            )
        if item.id in seen:
            raise ScenarioError(where, f"id {item.id!r} occurs twice", "give it an id of its own")
        _check_tools(item, where)
        seen.add(item.id)
        yield item


def _check_tools(item: Task, where: str) -> None:
    for call in (call for turn in item.turns for call in turn.calls):
        if call.tool not in Tool.__members__:
            raise ScenarioError(
                where, f"unknown tool {call.tool!r}", f"use {', '.join(Tool.__members__)} or null"
            )


def _item(line: dict[str, Any]) -> Task:
    if "expected_tool" not in line:
        return msgspec.convert({"workload": "selection", **line}, Task)
    pool = msgspec.convert(line, _PoolItem)
    expected = pool.expected_tool
    return Task(
        id=pool.id,
        workload=Workload.selection,
        question=pool.question,
        turns=[PlannedTurn([PlannedCall(expected)])] if expected is not None else [],
        stratum=expected or "abstention",
        source=pool.source,
        licence=pool.licence,
    )


def stratified_sample(items: Sequence[Task], size: int, seed: int) -> list[Task]:
    """`size` items, each stratum in its share (at least one each where size allows).

    size 0, or at least the number of items: all of them, in order. The same seed gives the same
    sample, which keeps the order of the items.
    """
    if size <= 0 or size >= len(items):
        return list(items)
    strata: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        strata.setdefault(item.stratum, []).append(place)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SAMPLE_KEY,)))
    chosen: list[int] = []
    for places, count in zip(strata.values(), _shares(strata, size), strict=True):
        chosen += rng.choice(places, count, replace=False).tolist()
    return [items[place] for place in sorted(chosen)]


def _shares(strata: dict[str, list[int]], size: int) -> list[int]:
    """How many of each stratum: proportional by largest remainder, one at least if possible."""
    totals = np.array([len(places) for places in strata.values()], dtype=np.float64)
    floor = 1 if size >= len(totals) else 0
    exact = floor + (size - floor * len(totals)) * (totals - floor) / (totals - floor).sum()
    counts = np.floor(exact).astype(int)
    missing = size - int(counts.sum())
    for place in np.argsort(counts - exact, kind="stable")[:missing]:
        counts[place] += 1
    return [int(count) for count in counts]
