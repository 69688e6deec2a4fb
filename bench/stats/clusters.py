"""Bounds of a quantile when observations depend on each other (methods.md section 5).

Turns cluster in episodes and episodes share a queue, so n values carry less than n values' worth.
The dependence is measured where the question is, on the indicator 1{X > x_q}:

1. Episodes are ordered by their first start and cut into `min_blocks` blocks of equal numbers of
   whole episodes. Few long blocks, because a block must outlast the dependence.
2. In block b of B: m_b values, y_b of them above the sample quantile x_q; p = sum y / sum m.
   The share p as a ratio has the linearised variance V = B/(B-1) * sum (y_b - p*m_b)^2 / M^2
   (Cochran, Sampling Techniques, section 6.4), M = sum m. Independent values would have
   V_0 = p*(1-p)/M; the design effect is V/V_0, never taken below 1.
3. When the residuals of neighbouring blocks still correlate significantly (r above 1.645/sqrt(B)),
   the blocks were too short: the design effect is multiplied by (1 + r)/(1 - r).
4. n_eff = M / effect * (z/t)^2, z and t the normal and Student quantiles of the confidence with
   B - 1 degrees of freedom: the price of an effect estimated from few blocks
   (Korn and Graubard 1998, for shares near 0 or 1).
5. Bounds by inverting the exact binomial test with n_eff values: `high` is the smallest observed x
   with "P(X > x) < 1 - q" significant, `low` the largest with "P(X >= x) > 1 - q" significant.
   Without dependence these are the order statistics of `quantiles.quantile_interval`, one-sided.
6. It may be judged (`decidable`) with at least `min_blocks` blocks and n_eff*(1 - q) >= 10.
"""

from __future__ import annotations

import bisect
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from bench.errors import AnalysisError
from bench.stats.interval import Interval
from bench.stats.quantiles import check_share, two_sided

MIN_BLOCKS = 20
MIN_EXCEEDANCES = 10.0  # n_eff*(1 - q) below this is undecided


class QuantileBounds(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile with one-sided bounds; judge it only when `decidable`.

    `n` counts values, `episodes` the clusters. `reason` is a code with a colon and a sentence.
    """

    q: float
    value: float | None
    low: float | None
    high: float | None
    n: int
    episodes: int
    blocks: int
    design_effect: float | None
    n_eff: float
    decidable: bool
    reason: str


def quantile_bounds(
    start_ns: ArrayLike,
    episode: ArrayLike,
    values: ArrayLike,
    q: float,
    confidence: float = 0.95,
    min_blocks: int = MIN_BLOCKS,
) -> QuantileBounds:
    """The q-quantile of dependent values with a lower and an upper one-sided bound.

    start_ns (n,): start of each value's episode (or of the value: the earliest of an episode
    counts); episode (n,): integers that are the same for values of one episode; values (n,): any
    unit. Each bound alone holds with `confidence`. The method is in the module's docstring.

    Raises AnalysisError when lengths differ, a value is not finite, or a share is outside (0, 1).
    """
    check_share("q", q)
    two_sided(confidence)
    array = np.asarray(values, dtype=np.float64)
    starts = np.asarray(start_ns, dtype=np.int64)
    keys = np.asarray(episode)
    if not (len(array) == len(starts) == len(keys)) or not np.all(np.isfinite(array)):
        raise AnalysisError(
            f"values={len(array)}, starts={len(starts)}, episodes={len(keys)}",
            "must be of one length and finite",
            "leave missing values out of all three",
        )
    n = len(array)
    if n == 0:
        return _nothing(q)
    value = float(np.quantile(array, q, method="linear"))
    block, episodes, blocks = time_blocks(starts, keys, min_blocks)
    effect = _design_effect(block, blocks, array > value)
    n_eff = float(n)
    if effect is not None:
        price = float(stats.norm.ppf(confidence) / stats.t.ppf(confidence, blocks - 1))
        n_eff = n / effect * price**2
    low, high = _invert(np.sort(array), q, confidence, n_eff)
    reason = _undecidable(blocks, min_blocks, n_eff, q)
    return QuantileBounds(
        q=q,
        value=value,
        low=low,
        high=high,
        n=n,
        episodes=episodes,
        blocks=blocks,
        design_effect=effect,
        n_eff=n_eff,
        decidable=not reason,
        reason=reason,
    )


def clustered_interval(
    start_ns: ArrayLike,
    episode: ArrayLike,
    values: ArrayLike,
    q: float,
    confidence: float = 0.95,
) -> Interval:
    """The q-quantile of dependent values with two-sided bounds, for tables and figures.

    Arguments as `quantile_bounds`. With fewer than 20 blocks it is an indication, not a verdict.
    """
    bounds = quantile_bounds(start_ns, episode, values, q, (1 + confidence) / 2)
    return Interval(value=bounds.value, low=bounds.low, high=bounds.high, n=bounds.n)


def time_blocks(
    start_ns: NDArray[np.int64], episode: NDArray[Any], blocks: int
) -> tuple[NDArray[np.intp], int, int]:
    """The block of each value, the number of episodes, and the number of blocks.

    Blocks hold equal numbers (to one) of whole episodes in order of first start; there are
    `blocks` of them, or as many as there are episodes.
    """
    _, index = np.unique(episode, return_inverse=True)
    count = int(index.max()) + 1 if len(index) else 0
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, index, start_ns)
    rank = np.empty(count, dtype=np.intp)
    rank[np.argsort(first, kind="stable")] = np.arange(count)
    used = min(blocks, count)
    return rank[index] * used // max(count, 1), count, used


def _design_effect(
    block: NDArray[np.intp], blocks: int, exceeds: NDArray[np.bool_]
) -> float | None:
    """V/V_0 of the share of exceedances, steps 2 and 3; None when there is nothing to measure."""
    size = np.bincount(block, minlength=blocks).astype(np.float64)
    hits = np.bincount(block, weights=exceeds, minlength=blocks)
    total = float(size.sum())
    share = float(hits.sum()) / total
    if blocks < 2:
        return None
    if not 0 < share < 1:
        return 1.0
    residual = hits - share * size
    squares = float(np.sum(residual**2))
    effect = blocks / (blocks - 1) * squares / (total * share * (1 - share))
    if squares > 0:
        lag1 = float(np.sum(residual[1:] * residual[:-1])) / squares
        if lag1 > 1.645 / np.sqrt(blocks):
            effect *= (1 + lag1) / (1 - lag1)
    return max(1.0, effect)


def _invert(
    ordered: NDArray[np.float64], q: float, confidence: float, n_eff: float
) -> tuple[float | None, float | None]:
    """Step 5 on sorted values: the lower and the upper one-sided bound."""
    n = len(ordered)

    def passes(rank: int) -> bool:
        # At most (n - rank)/n of the values lie above the one of this rank (from 1).
        above = n_eff * (n - rank) / n
        return bool(special.betainc(above + 1, n_eff - above, 1 - q) >= confidence)

    def fails(rank: int) -> bool:
        # At least (n - rank + 1)/n of the values lie at it or above.
        reach = n_eff * (n - rank + 1) / n
        return bool(special.betainc(reach, n_eff - reach + 1, 1 - q) <= 1 - confidence)

    # Both are monotone in the rank: `passes` turns true once, `fails` turns false once.
    ranks = range(1, n + 1)
    high = bisect.bisect_left(ranks, True, key=passes)
    low = bisect.bisect_left(ranks, True, key=lambda rank: not fails(rank))
    return (
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high]) if high < n else None,
    )


def _undecidable(blocks: int, min_blocks: int, n_eff: float, q: float) -> str:
    if blocks < min_blocks:
        return f"blocks_too_few: {blocks} of {min_blocks} time blocks of whole episodes"
    if n_eff * (1 - q) < MIN_EXCEEDANCES:
        return (
            f"n_too_small: {n_eff:.0f} effective values give {n_eff * (1 - q):.1f} "
            f"exceedances of the {MIN_EXCEEDANCES:.0f} needed"
        )
    return ""


def _nothing(q: float) -> QuantileBounds:
    return QuantileBounds(
        q=q,
        value=None,
        low=None,
        high=None,
        n=0,
        episodes=0,
        blocks=0,
        design_effect=None,
        n_eff=0.0,
        decidable=False,
        reason="no_data: there is no value",
    )
