from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.errors import RecordError
from bench.report.content import Content, GridCell
from bench.report.files import FILES, write_report

NAMES = sorted([*(f"{name}.json" for name in FILES), "report.html", "report.md"])


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def load(directory: Path, name: str) -> dict[str, Any]:
    text = (directory / "analysis" / f"{name}.json").read_text(encoding="utf-8")
    body: dict[str, Any] = json.loads(text, parse_constant=refuse)
    assert body["schema"] == f"react-bench/{name}/1"
    return body


@pytest.fixture(scope="module")
def written(rich: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    assert write_report(rich, directory) == directory / "analysis" / "report.html"
    return directory


def test_it_writes_every_file_and_names_the_page(written: Path) -> None:
    assert sorted(item.name for item in (written / "analysis").iterdir()) == NAMES
    for name in FILES:
        assert load(written, name)["simulated"] is True


def test_the_same_content_gives_the_same_bytes(
    written: Path, rich: Content, tmp_path: Path
) -> None:
    first = written / "analysis"
    second = write_report(rich, tmp_path).parent
    for name in NAMES:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_only_the_pages_know_when_they_were_made(small: Content, tmp_path: Path) -> None:
    first = write_report(small, tmp_path / "a").parent
    later = msgspec.structs.replace(small, generated="2027-01-01 00:00:00")
    second = write_report(later, tmp_path / "b").parent
    differ = [n for n in NAMES if (first / n).read_bytes() != (second / n).read_bytes()]
    assert differ == ["report.html", "report.md"]


def test_verdict_json(written: Path) -> None:
    body = load(written, "verdict")
    objective = body["objectives"][0]
    assert set(objective) >= {
        "name", "metric", "bound", "observed", "low", "high", "n", "verdict", "valid",
        "infeasible", "reasons", "engine", "users",
    }  # fmt: skip
    assert objective["bound"] == 0.45
    assert objective["observed"] == pytest.approx(0.336)
    assert len(body["objectives"]) == 18
    assert [level["users"] for level in body["levels"]] == [4, 8, 16, 4, 8, 16]
    assert body["objectives"][2]["observed"] is None


def test_fits_json(written: Path) -> None:
    laws = load(written, "fits")["laws"]
    assert [law["name"] for law in laws][:3] == [
        "tool.sql_query",
        "tool.vector_search",
        "tool.web_search",
    ]
    assert set(laws[0]["coefficients"][0]) == {"name", "value", "low", "high", "unit"}
    assert laws[0]["error"] == {"mape": None, "quantile_error": 0.07}
    assert laws[-1]["range"]["uncached_tokens"] == [51.0, 8192.0]
    assert laws[-1]["n"] == 27


def test_selection_json(written: Path) -> None:
    body = load(written, "selection")
    level = body["levels"][0]
    assert (level["users"], level["n"]) == (4, 120)
    assert level["low"] < level["tsa"] < level["high"]
    assert level["confusion"]["sql_query"]["none"] == 1
    assert level["outcomes"]["correct"] == 104
    assert level["tsa_strict"] == {"value": None, "low": None, "high": None, "n": 0}
    assert body["answers"][0]["workload"] == "all"
    assert body["answers"][0]["n"] == 90


def test_latency_json(written: Path) -> None:
    levels = load(written, "latency")["levels"]
    keys = [(x["engine"], x["run"], x["users"], x["workload"]) for x in levels]
    assert len(keys) == len(set(keys)) == 6 * 7
    whole = next(x for x in levels if x["workload"] == "all")
    assert whole["critical_path"] is None
    assert whole["n"] == 90
    assert whole["metrics"]["latency_s"]["p95"]["high"] is None
    path = next(x for x in levels if x["workload"] == "react_2")["critical_path"]
    assert sum(path["parts_s"].values()) == pytest.approx(path["total_s"])
    assert sum(path["shares"].values()) == pytest.approx(1)
    assert len(path["turns"]) == 3


def test_plan_and_seed_latency_json(written: Path) -> None:
    plan = load(written, "plan")
    assert plan["target_users"] == 100
    assert plan["rows"][0]["users_per_group"] is None
    row = load(written, "seed_latency")["rows"][0]
    assert {"row", "stated_ms", "seed_accounting_ms", "measured_ms"} <= set(row)
    assert row["omitted_share"] == pytest.approx(295 / 800)


def test_nan_and_infinity_become_null(small: Content, hostile: Content, tmp_path: Path) -> None:
    write_report(msgspec.structs.replace(small, latency=hostile.latency), tmp_path)
    for name in FILES:
        load(tmp_path, name)
    level = load(tmp_path, "latency")["levels"][0]
    found = next(iter(level["metrics"].values()))["p50"]
    assert found == {"value": None, "low": None, "high": None, "n": 3}


def test_numpy_numbers_are_written_as_numbers(empty: Content, tmp_path: Path) -> None:
    cell = GridCell(
        engine="e",
        prompt_tokens=np.float64(512),
        cached_tokens=np.float64(math.nan),
        ttft_s=[np.float64(0.1)],
    )
    write_report(msgspec.structs.replace(empty, grid=[cell]), tmp_path)
    grid = load(tmp_path, "latency")["grid"]
    assert grid == [{"engine": "e", "prompt_tokens": 512.0, "cached_tokens": None, "ttft_s": [0.1]}]


def test_an_empty_content_writes_every_file(empty: Content, tmp_path: Path) -> None:
    write_report(empty, tmp_path)
    assert load(tmp_path, "verdict")["objectives"] == []
    assert load(tmp_path, "plan")["rows"] == []


def test_a_directory_that_cannot_be_written_is_a_record_error(
    empty: Content, tmp_path: Path
) -> None:
    (tmp_path / "analysis").write_text("in the way")
    with pytest.raises(RecordError, match="cannot be written"):
        write_report(empty, tmp_path)
