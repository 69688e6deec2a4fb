"""The two shipped scenarios, whole, as `make demo` and `make seed` run them. Serial: minutes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.episode import Workload
from bench.record import EpisodeOutcome, PointKind
from bench.run import find_runs, read_run

LIMIT_S = 900
FIGURES = ("fig-load", "fig-waterfall", "fig-growth", "fig-grid", "fig-tools", "fig-selection")


def run(scenario: str, results: Path) -> Path:
    """Run a scenario as shipped; the directory of the campaign or run."""
    command = [sys.executable, "-m", "bench", "run", f"scenario={scenario}", f"results={results}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    (directory,) = (results / scenario).iterdir()
    assert done.stdout.strip().endswith(f"{directory}/analysis/report.html")
    return directory


def test_the_demo_as_shipped(tmp_path: Path) -> None:
    directory = run("demo", tmp_path)
    runs = [read_run(path) for path in find_runs(directory)]
    assert [one.facts.scenario.engine.tensor_parallel for one in runs] == [2, 4]
    for one in runs:
        assert one.complete, one.incomplete_reason
        assert one.manifest is not None
        assert one.manifest.scheduled == one.manifest.episodes == len(one.episodes)
        load = [point for point in one.points.values() if point.kind is PointKind.load]
        assert [point.users for point in load] == [4, 8, 16]
        assert not [point.error for point in load if point.error]
        assert {episode.workload for episode in one.episodes} == set(Workload)
        assert not [e.error for e in one.episodes if e.outcome is EpisodeOutcome.failed]
        assert not [call.error for call in one.llm if call.status not in (None, 200)]
        cells = [call for call in one.llm if call.cell and not call.is_primer]
        assert len(cells) == 27, "a 3 x 3 grid of 3 repeats"
        assert all(call.ttft_s is not None for call in cells)
    page = (directory / "analysis" / "report.html").read_text(encoding="utf-8")
    assert "SIMULATED ENGINE" in page
    assert "INCOMPLETE" not in page
    for figure in FIGURES:
        assert f'id="{figure}"' in page
    plan = json.loads((directory / "analysis" / "plan.json").read_bytes())
    assert [row["layout"] for row in plan["rows"]] == ["TP=2", "TP=4", "2 x TP=2"]
    laws = json.loads((directory / "analysis" / "fits.json").read_bytes())["laws"]
    assert {law["name"] for law in laws} == {
        "ttft", "tpot", "tool.sql_query", "tool.vector_search", "tool.web_search",
    }  # fmt: skip


def test_the_seeds_table_is_given_back(tmp_path: Path) -> None:
    directory = run("seed_reference", tmp_path)
    document = json.loads((directory / "analysis" / "seed_latency.json").read_bytes())
    rows = {row["row"]: row for row in document["rows"]}
    stated = {
        "naive_rag": 300, "react_1": 500, "react_2": 800, "react_3": 1100, "parallel": 600,
        "web": 1500,
    }  # fmt: skip
    assert {name: row["stated_ms"] for name, row in rows.items()} == stated
    for name, total_ms in stated.items():
        assert rows[name]["seed_accounting_ms"] == pytest.approx(total_ms, rel=0.05), name
        assert rows[name]["measured_ms"] >= rows[name]["seed_accounting_ms"]
