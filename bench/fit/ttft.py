"""The law of TTFT on an idle engine (methods.md section 4), milliseconds:

    TTFT = host + softmax(floor, a*chunks + b*u) + c*u*(p + u/2)/1e6

u uncached and p cached prompt tokens, chunks = ceil(u / token budget of a step),
softmax_w(x, y) = w*log(exp(x/w) + exp(y/w)) with w = 3 ms (../shared/reference/published.json,
step_time_profiles). `a` holds the fixed cost of a step, its host overhead included; `host` the
fixed cost of a request. Queueing is not in it: the grid runs at concurrency 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from bench.fit.law import Coefficient, Law, coefficient, refusal
from bench.record import LLMOutcome, LLMRecord, PointKind
from bench.run import Run

Floats = NDArray[np.float64]
MS_PER_S = 1e3
SOFTMAX_WIDTH_MS = 3.0
NAMES = ("a", "b", "c", "host", "floor")
UNITS = {
    "a": "ms per chunk",
    "b": "ms per uncached token",
    "c": "ms per 1e6 token pairs",
    "host": "ms",
    "floor": "ms",
}
REPLICATES = 200
MIN_CELLS = 3


class GridSample(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the idle grid: token medians and the TTFT of every repeat, seconds."""

    engine: str
    prompt_tokens: float
    cached_tokens: float
    ttft_s: list[float]


class _Data(msgspec.Struct):
    """Columns of the fit, one row a request, and the median TTFT of each row's cell."""

    uncached: Floats
    cached: Floats
    chunks: Floats
    ttft_ms: Floats
    scale_ms: Floats
    cells: int


class _Fit(msgspec.Struct):
    names: list[str]
    theta: Floats
    residual: Floats  # relative to the cell's median


def grid_records(run: Run) -> list[LLMRecord]:
    """The samples of the run's idle grid: answered, with TTFT and token counts, no primers.

    Cached tokens that the server does not report are unknown, so only cold cells of such a
    server are kept.
    """
    return [record for record in run.llm if _is_sample(run, record)]


def grid_cells(run: Run) -> list[GridSample]:
    """The cells of the idle grid in order of cached, then prompt tokens."""
    engine = run.facts.scenario.engine.name
    cells = []
    for records in _cells(grid_records(run)).values():
        cells.append(
            GridSample(
                engine=engine,
                prompt_tokens=float(np.median([r.prompt_tokens or 0 for r in records])),
                cached_tokens=float(np.median([r.cached_tokens or 0 for r in records])),
                ttft_s=[r.ttft_s for r in records if r.ttft_s is not None],
            )
        )
    return sorted(cells, key=lambda cell: (cell.cached_tokens, cell.prompt_tokens))


def fit_ttft(
    records: Sequence[LLMRecord],
    engine: str,
    token_budget: int,
    confidence: float = 0.95,
    seed: int = 0,
) -> Law | None:
    """The TTFT law of idle records (`grid_records`); None below three cells.

    token_budget: uncached tokens that one step computes at most (max_num_batched_tokens).
    Bounded least squares on residuals relative to the cell's median, soft_l1 at three robust
    standard deviations. Of the nested laws with and without `host` and `floor` the smallest AICc
    is taken; the note says what was merged. Intervals: value +- Student quantile * standard
    error of a seeded wild bootstrap; for k simultaneous intervals give confidence 1 - 0.05/k.
    A coefficient without bounds is not identified by these records. Accepted with b identified
    and a MAPE of at most 10 %.
    """
    data = _data(records, token_budget)
    if data.cells < MIN_CELLS:
        return None
    fits = [_fit(data, names) for names in _candidates(data)]
    spread = min(_spread(fit.residual) for fit in fits)
    best = min(fits, key=lambda fit: _aicc(fit, spread))
    errors = _bootstrap(data, best, seed)
    freedom = max(len(data.ttft_ms) - len(best.theta), 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom))
    predicted = own_work_ms(best.names, best.theta, data.uncached, data.cached, data.chunks)
    budget = Coefficient(
        name="token_budget",
        value=float(token_budget),
        low=float(token_budget),
        high=float(token_budget),
        unit="tokens per step (given)",
    )
    coefficients = [
        coefficient(name, float(value), float(error), reach, UNITS[name], value <= 1e-9)
        for name, value, error in zip(best.names, best.theta, errors, strict=True)
    ]
    mape = float(np.mean(np.abs(predicted - data.ttft_ms) / data.ttft_ms))
    refused = refusal(mape, coefficients, [("b",)])
    return Law(
        name="ttft",
        engine=engine,
        family="step-time",
        coefficients=[*coefficients, budget],
        range={
            "uncached_tokens": _range(data.uncached),
            "cached_tokens": _range(data.cached),
            "prompt_tokens": _range(data.uncached + data.cached),
        },
        n=len(data.ttft_ms),
        mape=mape,
        accepted=not refused,
        note="; ".join(note for note in (refused, _note(data, best.names)) if note),
    )


def predict_ttft(law: Law, uncached: float, cached: float) -> float:
    """TTFT in seconds of a prompt on the idle engine, by a law of `fit_ttft`.

    Tokens are counts of this prompt. Outside `law.range` it is an extrapolation
    (`law.extrapolated(uncached_tokens=..., cached_tokens=...)`).
    """
    return float(predict_ttfts(law, np.array([uncached]), np.array([cached]))[0])


def predict_ttfts(law: Law, uncached: Floats, cached: Floats) -> Floats:
    """As `predict_ttft`, for many prompts at once; arrays of one shape, seconds."""
    names = [name for name in NAMES if law.coefficient(name) is not None]
    theta = np.array([law.value(name) for name in names])
    chunks = np.ceil(uncached / law.value("token_budget"))
    seconds: Floats = own_work_ms(names, theta, uncached, cached, chunks) / MS_PER_S
    return seconds


def own_work_ms(
    names: Sequence[str], theta: Floats, uncached: Floats, cached: Floats, chunks: Floats
) -> Floats:
    """The law with the coefficients named; without `floor` the soft maximum is its second term."""
    value = dict(zip(names, theta, strict=True))
    work = value["a"] * chunks + value["b"] * uncached
    if "floor" in value:
        width = SOFTMAX_WIDTH_MS
        work = width * np.logaddexp(value["floor"] / width, work / width)
    pairs = uncached * (cached + uncached / 2) / 1e6
    total: Floats = work + value["c"] * pairs + value.get("host", 0.0)
    return total


def _is_sample(run: Run, record: LLMRecord) -> bool:
    point = run.points.get(record.point)
    if not record.cell or record.is_primer:
        return False
    if point is not None and point.kind is not PointKind.grid:
        return False
    if record.ttft_s is None or record.prompt_tokens is None or record.calls:
        return False
    if record.cached_tokens is None and not record.is_planned_cold:
        return False
    return record.outcome in (LLMOutcome.ok, LLMOutcome.truncated)


def _cells(records: Iterable[LLMRecord]) -> dict[str, list[LLMRecord]]:
    cells: defaultdict[str, list[LLMRecord]] = defaultdict(list)
    for record in records:
        cells[record.cell_of_repeats].append(record)
    return cells


def _data(records: Sequence[LLMRecord], token_budget: int) -> _Data:
    rows: list[tuple[int, int, float, float]] = []
    cells = _cells(records)
    for members in cells.values():
        known = [r for r in members if r.ttft_s is not None and r.uncached_tokens is not None]
        times_ms = [(r.ttft_s or 0.0) * MS_PER_S for r in known]
        for record, ttft_ms in zip(known, times_ms, strict=True):
            rows.append(
                (
                    record.uncached_tokens or 0,
                    record.cached_tokens or 0,
                    ttft_ms,
                    float(np.median(times_ms)),
                )
            )
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return _Data(
        uncached=table[:, 0],
        cached=table[:, 1],
        chunks=np.ceil(table[:, 0] / token_budget),
        ttft_ms=table[:, 2],
        scale_ms=table[:, 3],
        cells=len(np.unique(table[:, :2] // 16, axis=0)),
    )


def _candidates(data: _Data) -> list[list[str]]:
    """The laws that these cells could tell apart: a, b, c always (with three cells just so)."""
    base = ["a", "b", "c"]
    found = [base]
    spare = data.cells - len(base)
    if spare >= 2 and len(np.unique(data.chunks)) > 1:
        found.append([*base, "host"])
    if spare >= 3:
        found.extend([*names, "floor"] for names in list(found))
    return found


def _fit(data: _Data, names: list[str]) -> _Fit:
    """Robust fit in three rounds: the first spread may rest on a start that outliers bent."""
    theta = _start(data, names)
    for _ in range(3):
        residual = _residual(data, names, theta)
        theta = _solve(data, names, data.ttft_ms, np.maximum(theta, 1e-6), _spread(residual))
    return _Fit(names=names, theta=theta, residual=_residual(data, names, theta))


def _aicc(fit: _Fit, spread: float) -> float:
    """Akaike's criterion of the robust loss; `spread` must be that of all laws compared."""
    n, k = len(fit.residual), len(fit.theta) + 1
    loss = 2 * spread**2 * float(np.sum(np.sqrt(1 + (fit.residual / spread) ** 2) - 1))
    small = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return n * math.log(max(loss, 1e-300) / n) + 2 * k + small


def _residual(data: _Data, names: list[str], theta: Floats) -> Floats:
    predicted = own_work_ms(names, theta, data.uncached, data.cached, data.chunks)
    residual: Floats = (data.ttft_ms - predicted) / data.scale_ms
    return residual


def _spread(residual: Floats) -> float:
    """Three robust standard deviations: where the loss turns from square to linear."""
    return max(3 * 1.4826 * float(np.median(np.abs(residual))), 1e-4)


def _start(data: _Data, names: list[str]) -> Floats:
    """Start values from a non-negative linear fit."""
    columns = {
        "a": data.chunks,
        "b": data.uncached,
        "c": data.uncached * (data.cached + data.uncached / 2) / 1e6,
        "host": np.ones_like(data.uncached),
    }
    linear = [name for name in names if name != "floor"]
    design = np.stack([columns[name] for name in linear], axis=1) / data.scale_ms[:, None]
    scale = np.maximum(np.abs(design).max(axis=0), 1e-12)
    solution, _ = optimize.nnls(design / scale, np.minimum(data.ttft_ms / data.scale_ms, 2.0))
    start = dict(zip(linear, solution / scale, strict=True))
    start["floor"] = max(start["a"], 1.0)
    tiny = {"a": 1e-2, "b": 1e-5, "c": 1e-4, "host": 1e-2, "floor": 1e-2}
    return np.array([max(start[name], tiny[name]) for name in names])


def _solve(data: _Data, names: list[str], ttft_ms: Floats, start: Floats, spread: float) -> Floats:
    def residual(theta: Floats) -> Floats:
        predicted = own_work_ms(names, theta, data.uncached, data.cached, data.chunks)
        found: Floats = (predicted - ttft_ms) / data.scale_ms
        return found

    def jacobian(theta: Floats) -> Floats:
        return _jacobian(data, names, theta)

    solved = optimize.least_squares(
        residual,
        start,
        jac=jacobian,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=spread,
        x_scale="jac",
        max_nfev=200,
    )
    theta: Floats = np.asarray(solved.x, dtype=np.float64)
    return theta


def _jacobian(data: _Data, names: list[str], theta: Floats) -> Floats:
    value = dict(zip(names, theta, strict=True))
    share = np.ones_like(data.uncached)  # of the second term in the soft maximum
    if "floor" in value:
        work = value["a"] * data.chunks + value["b"] * data.uncached
        gap = np.clip((value["floor"] - work) / SOFTMAX_WIDTH_MS, -500, 500)
        share = 1 / (1 + np.exp(gap))
    columns = {
        "a": share * data.chunks,
        "b": share * data.uncached,
        "c": data.uncached * (data.cached + data.uncached / 2) / 1e6,
        "host": np.ones_like(share),
        "floor": 1 - share,
    }
    jacobian: Floats = np.stack([columns[name] for name in names], axis=1)
    return jacobian / data.scale_ms[:, None]


def _bootstrap(data: _Data, fit: _Fit, seed: int) -> Floats:
    """Standard errors of the coefficients: a wild bootstrap (Wu 1986, Davidson and Flachaire 2008).

    Each residual keeps its place and changes its sign at random, because long prompts scatter
    more than short ones; divided by 1 - leverage, because a fit follows its far points.
    """
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(_jacobian(data, fit.names, fit.theta))
    leverage = np.minimum(np.sum(basis**2, axis=1), 0.9)
    inflated = fit.residual / (1 - leverage)
    predicted = own_work_ms(fit.names, fit.theta, data.uncached, data.cached, data.chunks)
    spread = _spread(fit.residual)
    start = np.maximum(fit.theta, 1e-6)
    found = [
        _solve(
            data,
            fit.names,
            predicted + data.scale_ms * inflated * rng.choice((-1.0, 1.0), len(inflated)),
            start,
            spread,
        )
        for _ in range(REPLICATES)
    ]
    errors: Floats = np.std(np.array(found), axis=0, ddof=1)
    return errors


def _note(data: _Data, names: Sequence[str]) -> str:
    notes = []
    if "host" not in names:
        one = len(np.unique(data.chunks)) == 1
        why = "every prompt took the same number of chunks" if one else "not told apart (AICc)"
        notes.append(f"host is contained in a: {why}")
    if "floor" not in names:
        notes.append("floor is not identified by these prompts")
    return "; ".join(notes)


def _range(values: Floats) -> list[float]:
    return [float(values.min()), float(values.max())]
