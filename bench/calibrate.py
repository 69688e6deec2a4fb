"""`bench calibrate RUN`: a profile of the simulated engine from what a run measured.

The TTFT law of the idle grid gives a, b, c and the overhead of a request, the TPOT law under load
c0, d and e (bench.sizing.coefficients). The file is a choice for `engine=`: put it into
conf/engine/. Intervals, ranges and errors of the fits stand in it as comments.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.errors import AnalysisError
from bench.fit.law import Coefficient, Law
from bench.fit.tpot import fit_tpot, points_of
from bench.fit.ttft import fit_ttft, grid_records
from bench.record import LLMRecord
from bench.run import Run, find_runs, read_run, write_atomically
from bench.scenario import Engine, StepTime
from bench.sizing.coefficients import measured_step

REPEATS = 3  # of a cell, to tell its spread
SOURCE = {
    "a": ("ttft", "a"),
    "floor": ("tpot", "c0"),
    "b": ("ttft", "b"),
    "c": ("ttft", "c"),
    "d": ("tpot", "d"),
    "e": ("tpot", "e"),
    "request": ("ttft", "host"),
}


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted profile: the engine that was measured, its coefficients and where they come from."""

    engine: Engine
    step: StepTime
    laws: dict[str, Law]  # ttft, tpot
    runs: list[str]
    simulated: bool


def calibrate(directory: Path, out: Path) -> Path:
    """Fit the runs below `directory` and write OUT/<engine>_calibrated.yaml; its path.

    Raises AnalysisError when the runs measured several engines, or one of the laws is missing.
    """
    found = calibration_of([read_run(path) for path in find_runs(directory)])
    path = out / f"{found.engine.name}_calibrated.yaml"
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, profile_text(found).encode())
    return path


def calibration_of(runs: Sequence[Run]) -> Calibration:
    """The coefficients of the one engine that these runs measured. Raises AnalysisError."""
    names = sorted({run.facts.scenario.engine.name for run in runs})
    if len(names) != 1:
        raise AnalysisError(
            f"engines={', '.join(names)}", "a profile is of one engine", "calibrate one launch"
        )
    engine = runs[0].facts.scenario.engine
    records = [record for run in runs for record in grid_records(run)]
    fitted = {
        "ttft": fit_ttft(records, engine.name, engine.max_num_batched_tokens),
        "tpot": fit_tpot(points_of(runs), engine.name),
    }
    laws = {name: law for name, law in fitted.items() if law is not None and law.accepted}
    step = measured_step(engine, list(laws.values()))
    if step is None:
        missing = " and ".join(sorted(set(fitted) - set(laws)))
        raise AnalysisError(
            f"runs={len(runs)}",
            f"they give no accepted law of {missing}",
            "measure an idle grid (load.grid) and at least 30 answers under load",
        )
    step.jitter_cv = jitter_cv(records, step.request)
    return Calibration(
        engine=engine,
        step=step,
        laws=laws,
        runs=[run.facts.id for run in runs],
        simulated=any(run.facts.endpoint.simulated for run in runs),
    )


def jitter_cv(records: Sequence[LLMRecord], request_ms: float) -> float:
    """Coefficient of variation of the engine's own time in TTFT: the median over the idle cells.

    0 when no cell has enough repeats to tell.
    """
    cells: defaultdict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.ttft_s is not None:
            cells[record.cell_of_repeats].append(1e3 * record.ttft_s - request_ms)
    spreads = [
        float(np.std(values, ddof=1) / np.mean(values))
        for values in cells.values()
        if len(values) >= REPEATS and np.mean(values) > 0
    ]
    return float(np.median(spreads)) if spreads else 0.0


def profile_text(found: Calibration) -> str:
    """The YAML file, a choice of conf/engine."""
    engine, step = found.engine, found.step
    kind = "a simulated engine" if found.simulated else "a measured engine"
    fits = "; ".join(_fit(law) for law in found.laws.values())
    source = f"calibrated on {kind}, run {', '.join(found.runs)}: {fits}"
    lines = [
        f"# Calibrated by `bench calibrate` on {kind}: {engine.name}.",
        *(f"# {law.name} law: {law.note}" for law in found.laws.values() if law.note),
        "defaults:",
        "  - simulated",
        "  - _self_",
        "",
        f"name: {_text(f'{engine.name}-calibrated')}",
        *(
            f"{name}: {_text(getattr(engine, name))}"
            for name in ("model", "gpu", "quantization", "kv_dtype")
            if getattr(engine, name)
        ),
        *(
            f"{name}: {getattr(engine, name)}"
            for name in (
                "tensor_parallel",
                "max_model_len",
                "max_num_seqs",
                "max_num_batched_tokens",
                "block_size",
            )
        ),
        f"prefix_caching: {'true' if engine.prefix_caching else 'false'}",
        _kv_line(engine),
        f"provenance: {_text(source)}",
        "step:",
    ]
    for name, (law, coefficient) in SOURCE.items():
        fitted = found.laws[law].coefficient(coefficient)
        moved = name == "a" and fitted is not None and fitted.value != step.a
        of = "a and request together" if moved else ""
        interval = _interval(fitted, "an empty decode step" if name == "floor" else of)
        lines.append(f"  {name}: {getattr(step, name):.6g}{interval}")
    lines.append(f"  jitter_cv: {step.jitter_cv:.3g}  # median spread of the idle cells")
    return "\n".join(lines) + "\n"


def _kv_line(engine: Engine) -> str:
    if engine.kv_tokens:
        return f"kv_tokens: {engine.kv_tokens}"
    return "kv_tokens: 0  # not known: write what the engine logs as its KV cache size, in tokens"


def _text(value: str) -> str:
    """A string as YAML takes it (JSON's form is YAML's too)."""
    return msgspec.json.encode(value).decode()


def _fit(law: Law) -> str:
    error = "unknown" if law.mape is None else f"{law.mape:.1%}"
    reach = ", ".join(
        f"{name} {low:g} to {high:g}"
        for name, (low, high) in law.range.items()
        if math.isfinite(low) and math.isfinite(high)
    )
    return f"{law.name} n={law.n}, mean error in sample {error}, range {reach or 'unknown'}"


def _interval(found: Coefficient | None, what: str) -> str:
    """A comment; `what` is what was fitted, when it is not the coefficient itself."""
    if found is None:
        return "  # told apart from the others by assumption only"
    of = f" of {what}, {found.value:.4g} ms" if what else ""
    if found.low is None or found.high is None:
        return f"  # 95 %{of}: not identified by the data"
    return f"  # 95 %{of}: {found.low:.4g} to {found.high:.4g}"
