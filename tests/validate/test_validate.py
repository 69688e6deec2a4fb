"""The simulated engine against published numbers: errors are asserted, times never."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import bench.validate
from bench.__main__ import main
from bench.validate.page import as_builtins, write_page
from bench.validate.published import read_published as shipped
from bench.validate.rows import Row, misses, rows
from makers import read_published


@cache
def found() -> list[Row]:
    return rows()


def of(table: str, quantity: str = "") -> list[Row]:
    return [row for row in found() if row.table == table and quantity in row.quantity]


def row(published: float, predicted: float, gate: float | None = 0.1, note: str = "") -> Row:
    return Row(
        table="t",
        row="r | 1",
        quantity="TTFT",
        unit="ms",
        kind="measured",
        published=published,
        predicted=predicted,
        gate=gate,
        note=note,
    )


def test_every_gated_row_lies_within_its_gate() -> None:
    assert [f"{r.table} {r.row} {r.quantity} {r.error:+.1%}" for r in misses(found())] == []


def test_nim_is_gated_as_the_methods_ask() -> None:
    assert [r.gate for r in of("nim_1_8_0", "output throughput")] == [0.03] * 8
    assert [r.gate for r in of("nim_1_8_0", "ITL")] == [0.05] * 8
    gates = [r.gate for r in of("nim_1_8_0", "TTFT")]
    assert gates == [0.15, None, None, None, None, 0.15, 0.15, 0.15]
    idle = of("nim_1_8_0 without overheads", "TTFT")[0]
    assert idle.gate == 0.15  # by the coefficients alone, nothing calibrated


def test_ttft_that_is_not_gated_lies_within_its_bracket() -> None:
    bracket = of("nim_1_8_0 bracket")
    assert len(bracket) == 8
    for low, high in zip(bracket[::2], bracket[1::2], strict=True):
        ends = sorted((low.predicted, high.predicted))
        assert ends[0] < low.published < ends[1], low.row


def test_the_law_gives_back_the_tables_that_it_was_fitted_to() -> None:
    decode = of("aiconfigurator_0_12_decode_ms_4k")
    prefill = of("aiconfigurator_0_12_prefill_ms")
    assert (len(decode), len(prefill)) == (12, 24)
    assert np.mean([abs(r.error) for r in decode]) < 0.03
    assert np.mean([abs(r.error) for r in prefill]) < 0.07


def test_the_largest_throughput_of_tensorrt_llm_is_met_in_the_mean() -> None:
    errors = [abs(r.error) for r in of("tensorrt_llm_0_17_max_output_tokens_per_s")]
    assert len(errors) == 12
    assert np.median(errors) < 0.06
    assert np.mean(errors) < 0.1


def test_what_is_not_gated_says_why() -> None:
    assert all(r.note for r in found() if r.gate is None)
    assert {r.table for r in found() if r.gate is None} >= {"llm_d_bf16", "vllm_kv_dtype"}


def test_the_shipped_tables_are_the_published_ones() -> None:
    reference = read_published()
    assert all(table == reference[name] for name, table in shipped().items())


def test_a_page_names_misses_and_the_json_has_the_errors(tmp_path: Path) -> None:
    some = [row(100, 105), row(100, 120), row(100, 300, None, "not gated: x")]
    page = write_page(some, tmp_path / "deep").read_text()
    assert "3 comparisons, 2 gated, 1 of them missed" in page
    assert "| +20.0% | 10% missed |" in page
    assert "[1] not gated: x" in page
    body = json.loads((tmp_path / "deep" / "validation.json").read_text())
    assert body["simulated"] is True
    assert [one["error"] for one in body["rows"]] == pytest.approx([0.05, 0.2, 2.0])
    assert {"table", "row", "quantity", "published", "predicted", "error"} <= set(body["rows"][0])
    assert as_builtins(some)[1]["missed"] is True


def test_the_command_prints_json_and_exits_by_the_gates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.validate, "rows", lambda: [row(100, 105)])
    assert main(["validate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["quantity"] == "TTFT"
    monkeypatch.setattr(bench.validate, "rows", lambda: [row(100, 150)])
    assert main(["validate", "--out", str(tmp_path)]) == 1
    assert (tmp_path / "validation.json").exists()
