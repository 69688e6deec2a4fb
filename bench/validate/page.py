"""results/validation/: validation.json for programs, README.md for people. No time stamp: the same
code writes the same page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from bench.run import write_atomically
from bench.validate.rows import Row, misses

SCHEMA = "react-bench/validation/1"
TITLES = {
    "nim_1_8_0": "NVIDIA NIM 1.8.0 (TensorRT-LLM), Llama 3.3 70B FP8, 2 x H100, 5,000 in, 500 out",
    "nim_1_8_0 without overheads": "The same with the published coefficients alone",
    "nim_1_8_0 bracket": "The same: both ends of what the unstated settings could make of TTFT",
    "aiconfigurator_0_12_decode_ms_4k": "aiconfigurator 0.12, decode steps at 4,096 tokens",
    "aiconfigurator_0_12_prefill_ms": "aiconfigurator 0.12, prefill of one request",
    "kv_capacity": "KV cache by the memory formula, Llama 70B on 80 GB GPUs",
    "tensorrt_llm_0_17_max_output_tokens_per_s": "TensorRT-LLM 0.17, largest throughput, FP8",
    "vllm_kv_dtype": "vLLM 0.20.2, BF16 weights, TP=4, KV cache in BF16 and FP8",
    "llm_d_bf16": "llm-d-benchmark, vLLM, BF16, 9,999 in, 1,000 out",
}
INTRODUCTION = """\
# Validation of the simulated engine

`bench validate` wrote this page: what the simulated engine predicts beside what others published.
`validation.json` has the same rows for programs. Error = (predicted - published) / published.
"Measured" was measured by the publisher on the named hardware; "predicted" came from their model.

A gated row must lie within its gate, or `make test` fails. What is not gated says why.

What remains, and why (NIM, `bench/validate/nim.py`):

* TTFT at 5 to 50 users is decided by how requests are grouped. With equal lengths, users whose
  answers end within a few steps send their next prompts together, and each waits for the prefill
  of all: the mean more than doubles. Lengths that vary by 10 % dissolve the groups. The published
  values lie between the two ends; the publisher states neither the spread nor the window.
* TTFT at 100 users is decided by how many requests fit: with vLLM's rule (0.9 of the memory, blocks
  taken as needed) about 85, with TensorRT-LLM's (0.9 of what is free, longest output reserved) 89.
  A place is worth half a second; the published value lies between.
* TP=4 rests on predictions and on throughput tables only: no measured FP8 latency table is public.
"""


def write_page(found: Sequence[Row], directory: Path) -> Path:
    """Write both files; the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    body = {"schema": SCHEMA, "simulated": True, "rows": as_builtins(found)}
    write_atomically(
        directory / "validation.json", msgspec.json.format(msgspec.json.encode(body), indent=1)
    )
    page = directory / "README.md"
    write_atomically(page, "\n".join(_lines(found)).encode() + b"\n")
    return page


def as_builtins(found: Sequence[Row]) -> list[dict[str, object]]:
    """The rows with their errors, for JSON."""
    return [{**msgspec.to_builtins(row), "error": row.error, "missed": row.missed} for row in found]


def _lines(found: Sequence[Row]) -> Iterator[str]:
    yield INTRODUCTION.rstrip()
    gated = [row for row in found if row.gate is not None]
    missed = misses(found)
    yield ""
    yield (
        f"**{len(found)} comparisons, {len(gated)} gated, {len(missed)} of them missed.** "
        + "; ".join(f"{row.table}, {row.row}, {row.quantity}: {row.error:+.1%}" for row in missed)
    ).rstrip()
    for table, group in groupby(_in_order(found), key=lambda row: row.table):
        yield from _table(table, list(group))


def _in_order(found: Sequence[Row]) -> list[Row]:
    names = list(dict.fromkeys(row.table for row in found))
    return sorted(found, key=lambda row: names.index(row.table))


def _table(table: str, group: Sequence[Row]) -> Iterator[str]:
    size = sum(abs(row.error) for row in group) / len(group)
    yield from ("", f"## {TITLES.get(table, table)}", "")
    yield f"`{table}`, {group[0].kind} by the publisher; mean absolute error {size:.1%}."
    yield from ("", "| row | quantity | published | predicted | error | gate |")
    yield "|---|---|---:|---:|---:|---:|"
    notes: dict[str, int] = {}
    for row in group:
        gate = "" if row.gate is None else f"{row.gate:.0%}{' missed' if row.missed else ''}"
        mark = f" [{notes.setdefault(row.note, len(notes) + 1)}]" if row.note else ""
        yield (
            f"| {row.row} | {row.quantity}, {row.unit}{mark} | {_number(row.published)} | "
            f"{_number(row.predicted)} | {row.error:+.1%} | {gate} |"
        )
    if notes:
        yield ""
        yield from (f"[{number}] {note}  " for note, number in notes.items())


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"
