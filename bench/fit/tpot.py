"""The law of TPOT under load (methods.md section 4), milliseconds per output token:

    TPOT = c0 + d*n + e*KV/1e3 + b*w + c*v/1e6

n decoding sequences (this one included), KV the sum of their context tokens, both averaged over
the time in which the sequence decodes; w prompt tokens that the engine computed for others in that
time, per token of this sequence, v their token pairs u*(p + u/2). w and v are there because a step
that also computes a chunk of another prompt lasts longer: without them that time would be charged
to d, as prompts grow with load.

One call's w and v are known only to the resolution of its neighbours' stamps, so no regression on
single calls: calls are averaged in bins first (section 4). Only completions without a tool call are
fitted: the first tokens of a call are withheld, so its decode starts before its first delta.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from bench.fit.law import Law, coefficient, refusal
from bench.record import NS_PER_S, LLMOutcome, LLMRecord
from bench.run import Run
from bench.stats.clusters import time_blocks

Floats = NDArray[np.float64]
MS_PER_S = 1e3
NAMES = ("c0", "d", "e", "b", "c")
UNITS = {
    "c0": "ms",
    "d": "ms per decoding sequence",
    "e": "ms per 1e3 decoding KV tokens",
    "b": "ms per prompt token computed meanwhile",
    "c": "ms per 1e6 token pairs computed meanwhile",
}
MIN_CALLS = 30
MIN_TOKENS = 8  # shorter answers take too few steps to tell a time per token
BLOCKS = 20
REPLICATES = 200
BINS = (8, 3, 3)  # by sequences, then by context of one sequence, then by prompt work
MIN_PER_BIN = 5


def points_of(runs: Iterable[Run]) -> list[list[LLMRecord]]:
    """Every model call of the runs, the idle grid's too, apart by run and point."""
    found: list[list[LLMRecord]] = []
    for run in runs:
        by_point: defaultdict[str, list[LLMRecord]] = defaultdict(list)
        for record in run.llm:
            by_point[record.point].append(record)
        found.extend(by_point.values())
    return found


class Concurrency(msgspec.Struct):
    """One row per model call that decoded, in order of its first delta; shape (n,) each.

    sequences, kv_tokens: means over its decode; prompt_tokens, pairs: computed for others
    meanwhile.
    """

    tpot_ms: Floats
    called: NDArray[np.bool_]
    output_tokens: Floats
    sequences: Floats
    kv_tokens: Floats
    prompt_tokens: Floats
    pairs: Floats
    start_ns: NDArray[np.int64]
    episode: NDArray[np.int64]


def concurrency(records: Sequence[LLMRecord]) -> Concurrency:
    """What shared the engine with each model call, from the overlap of the records themselves.

    A call decodes from first to last delta and holds its prompt and half of its output; its
    uncached prompt is taken as computed evenly from its own sent stamp, or the first delta before
    its own, whichever is later, to its own first delta. Give every record of a point, not only
    the members of a level: warm-up and tail were in the engine too. O(n log n).
    """
    table = _table([record for record in records if _decoded(record)])
    sent, first, last, prompt, uncached, output = table[:6]
    order = np.argsort(first, kind="stable")
    sent, first, last, prompt, uncached, output = table[:6][:, order]
    span = last - first
    held = prompt + output / 2
    sequences = _overlap(first, last, np.ones_like(first), first, last) / span
    kv_tokens = _overlap(first, last, held, first, last) / span
    # Prompts are computed one after another: work begins when the one before has its first token.
    begin = np.maximum(sent, np.concatenate([[-np.inf], first[:-1]]))
    begin = np.minimum(begin, first - 1e-6)
    per_second = 1 / (first - begin)
    work = uncached * (prompt - uncached / 2)  # p + u/2 = P - u/2
    others = _overlap(begin, first, uncached * per_second, first, last)
    pairs = _overlap(begin, first, work * per_second, first, last)
    users, episodes = table[6][order], table[7][order]
    return Concurrency(
        tpot_ms=span / (output - 1) * MS_PER_S,
        called=table[8][order] > 0,
        output_tokens=output,
        sequences=sequences,
        kv_tokens=kv_tokens,
        prompt_tokens=others,
        pairs=pairs,
        start_ns=np.round(first * NS_PER_S).astype(np.int64),
        episode=(users * 2**32 + episodes).astype(np.int64),
    )


def fit_tpot(
    points: Sequence[Sequence[LLMRecord]],
    engine: str,
    confidence: float = 0.95,
    seed: int = 0,
) -> Law | None:
    """The TPOT law of one engine from all its points (`points_of`); None below 30 completions.

    Completions of 8 tokens or more are averaged in bins (8 by sequences, each 3 by context, each 3
    by prompt work); the law is fitted to the bin means by non-negative least squares on relative
    residuals, weighted with the number in the bin. Intervals: seeded bootstrap over time blocks of
    whole episodes, 20 a point, as value +- Student quantile * standard error. A coefficient
    without bounds is not identified: at one context length n and KV rise together. Accepted with
    c0 and one of d, e identified and a MAPE of at most 10 %.
    """
    rows = _pool([concurrency(records) for records in points])
    if rows is None:
        return None
    table, block, blocks = rows
    bins = _bins(table)
    count = np.bincount(bins)
    theta = _solve(table, bins, np.ones(len(bins)))
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(REPLICATES):
        drawn = np.bincount(rng.integers(0, blocks, blocks), minlength=blocks)
        found.append(_solve(table, bins, drawn[block].astype(np.float64)))
    errors = np.std(np.array(found), axis=0, ddof=1)
    reach = float(stats.t.ppf((1 + confidence) / 2, max(blocks - len(NAMES), 1)))
    means = _means(table, bins, np.ones(len(bins)))
    predicted = means[:, :-1] @ theta
    mape = float(np.average(np.abs(predicted - means[:, -1]) / means[:, -1], weights=count))
    coefficients = [
        coefficient(name, float(value), float(error), reach, UNITS[name], value <= 0)
        for name, value, error in zip(NAMES, theta, errors, strict=True)
    ]
    # At one context length d and e are told apart by nothing, and their sum still is.
    refused = refusal(mape, coefficients, [("c0",), ("d", "e")])
    return Law(
        name="tpot",
        engine=engine,
        family="linear",
        coefficients=coefficients,
        range={
            "sequences": _range(means[:, 1]),
            "kv_tokens": _range(means[:, 2] * 1e3),
            "prompt_tokens_per_token": _range(means[:, 3]),
        },
        n=len(table),
        mape=mape,
        accepted=not refused,
        note="; ".join(
            [*([refused] if refused else []), f"fitted to {len(count)} bin means; MAPE is of these"]
        ),
    )


def predict_tpot(
    law: Law,
    sequences: float,
    kv_tokens: float,
    prompt_tokens_per_token: float = 0.0,
    pairs_per_token: float = 0.0,
) -> float:
    """TPOT in seconds with so many decoding sequences that hold `kv_tokens` in sum.

    prompt_tokens_per_token, pairs_per_token: computed for others per output token.
    """
    total_ms = (
        law.value("c0")
        + law.value("d") * sequences
        + law.value("e") * kv_tokens / 1e3
        + law.value("b") * prompt_tokens_per_token
        + law.value("c") * pairs_per_token / 1e6
    )
    return total_ms / MS_PER_S


def _decoded(record: LLMRecord) -> bool:
    return (
        record.outcome in (LLMOutcome.ok, LLMOutcome.truncated)
        and record.sent_ns is not None
        and record.uncached_tokens is not None  # else its work for others is not known
        and record.tpot_s is not None
        and record.tpot_s > 0
    )


def _table(records: Sequence[LLMRecord]) -> Floats:
    """Rows: sent, first, last (seconds from the first), prompt, uncached, output, user, episode,
    and whether it called a tool; a column a record.
    """
    rows = [
        (
            record.sent_ns or 0,
            record.first_delta_ns or 0,
            record.last_delta_ns or 0,
            record.prompt_tokens or 0,
            record.uncached_tokens or 0,
            record.output_tokens or 0,
            record.user,
            record.episode,
            bool(record.calls),
        )
        for record in records
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 9).T
    origin = table[0].min() if table.shape[1] else 0
    floats = table.astype(np.float64)
    floats[:3] = (table[:3] - origin) / NS_PER_S
    return floats


def _overlap(start: Floats, end: Floats, weight: Floats, since: Floats, until: Floats) -> Floats:
    """The integral over [since, until] of the summed weights of all [start, end] that are active.

    With A(t) = sum of weight * (length of [start, end] before t), it is A(until) - A(since), and
    A is a sum of ramps, read off two sorted lists.
    """

    def ramps(at: Floats, of: Floats) -> Floats:
        order = np.argsort(at, kind="stable")
        slope = np.concatenate([[0.0], np.cumsum(weight[order])])
        moment = np.concatenate([[0.0], np.cumsum((weight * at)[order])])
        index = np.searchsorted(at[order], of, side="right")
        area: Floats = slope[index] * of - moment[index]
        return area

    def before(t: Floats) -> Floats:
        return ramps(start, t) - ramps(end, t)

    return before(until) - before(since)


def _pool(parts: Sequence[Concurrency]) -> tuple[Floats, NDArray[np.intp], int] | None:
    """Columns 1, n, KV/1e3, w, v/1e6, TPOT of each completion, with its time block."""
    tables, numbers, blocks = [], [], 0
    for part in parts:
        keep = (part.output_tokens >= MIN_TOKENS) & ~part.called
        if not np.any(keep):
            continue
        tables.append(
            np.stack(
                [
                    np.ones(int(keep.sum())),
                    part.sequences[keep],
                    part.kv_tokens[keep] / 1e3,
                    part.prompt_tokens[keep] / (part.output_tokens[keep] - 1),
                    part.pairs[keep] / (part.output_tokens[keep] - 1) / 1e6,
                    part.tpot_ms[keep],
                ],
                axis=1,
            )
        )
        block, _, used = time_blocks(part.start_ns[keep], part.episode[keep], BLOCKS)
        numbers.append(block + blocks)
        blocks += used
    if sum(map(len, tables)) < MIN_CALLS:
        return None
    return np.concatenate(tables), np.concatenate(numbers), blocks


def _bins(table: Floats) -> NDArray[np.intp]:
    """The bin of each call: nested quantile groups of (almost) equal size."""
    n = len(table)
    shape = [max(1, min(BINS[0], n // (MIN_PER_BIN * BINS[1] * BINS[2])))]
    shape += [max(1, min(bins, n // (MIN_PER_BIN * shape[0]))) for bins in BINS[1:2]]
    shape += [max(1, min(BINS[2], n // (MIN_PER_BIN * shape[0] * shape[1])))]
    keys = (table[:, 1], table[:, 2] / table[:, 1], table[:, 3])
    group = np.zeros(n, dtype=np.intp)
    for key, parts in zip(keys, shape, strict=True):
        order = np.lexsort((key, group))
        size = np.bincount(group)
        first = np.concatenate([[0], np.cumsum(size)[:-1]])
        rank = np.empty(n, dtype=np.intp)
        rank[order] = np.arange(n) - first[group[order]]
        group = group * parts + rank * parts // size[group]
    _, bins = np.unique(group, return_inverse=True)
    return bins


def _means(table: Floats, bins: NDArray[np.intp], weight: Floats) -> Floats:
    """Weighted bin means of the columns; bins without weight are left out."""
    total = np.bincount(bins, weights=weight)
    sums = np.stack([np.bincount(bins, weights=weight * column) for column in table.T], axis=1)
    used = total > 0
    means: Floats = sums[used] / total[used, None]
    return means


def _solve(table: Floats, bins: NDArray[np.intp], weight: Floats) -> Floats:
    total = np.bincount(bins, weights=weight)
    means = _means(table, bins, weight)
    root = np.sqrt(total[total > 0])[:, None] / means[:, -1:]
    design, target = means[:, :-1] * root, (means[:, -1:] * root)[:, 0]
    scale = np.maximum(np.abs(design).max(axis=0), 1e-12)
    theta, _ = optimize.nnls(design / scale, target)
    solution: Floats = theta / scale
    return solution


def _range(values: Floats) -> list[float]:
    return [float(values.min()), float(values.max())]
