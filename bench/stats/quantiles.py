"""Quantiles and rates with intervals for independent observations (methods.md sections 1 and 5).

Observations that depend on each other (turns of one episode, neighbours in time) need
`bench.stats.clusters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bench.errors import AnalysisError
from bench.stats.interval import Interval


def quantile_interval(values: ArrayLike, q: float, confidence: float = 0.95) -> Interval:
    """The q-quantile of independent values, with distribution-free two-sided bounds.

    values: any unit, shape (n,), finite. The value is `numpy.quantile(method="linear")`; the
    bounds are order statistics x_(l), x_(u), counted from 1, in the unit of the values:
    l is the largest with P(K < l) <= (1 - confidence)/2 and u the smallest with
    P(K >= u) <= (1 - confidence)/2, K ~ Binomial(n, q) (David and Nagaraja, Order Statistics,
    section 7.1). A bound that no order statistic gives is None, as is everything for n = 0.
    Each bound alone holds with confidence (1 + confidence)/2.

    Raises AnalysisError for q or confidence outside (0, 1) or values that are not finite.
    """
    ordered = np.sort(_finite(values))
    check_share("q", q)
    check_share("confidence", confidence)
    n = len(ordered)
    if n == 0:
        return Interval(value=None, low=None, high=None, n=0)
    tail = (1 - confidence) / 2
    # binom.ppf gives the smallest k with P(K <= k) >= tail, so P(K < k) < tail.
    low = _last_rank(n, q, tail)
    high = n + 1 - _last_rank(n, 1 - q, tail)
    return Interval(
        value=float(np.quantile(ordered, q, method="linear")),
        low=float(ordered[low - 1]) if low >= 1 else None,
        high=float(ordered[high - 1]) if high <= n else None,
        n=n,
    )


def two_sided(confidence: float) -> float:
    """The two-sided confidence whose bounds each hold one-sidedly with `confidence`."""
    if not 0.5 < confidence < 1:
        raise AnalysisError(
            f"confidence={confidence}", "a one-sided bound needs 0.5 to 1", "use e.g. 0.95"
        )
    return 2 * confidence - 1


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """The share k/n with the Wilson score interval (Wilson 1927). n = 0 gives None throughout.

    Raises AnalysisError unless 0 <= k <= n.
    """
    return _share_interval(k, n, confidence, "wilson")


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """The share k/n with the exact interval (Clopper and Pearson 1934). n = 0 gives None.

    Raises AnalysisError unless 0 <= k <= n.
    """
    return _share_interval(k, n, confidence, "exact")


def check_share(what: str, value: float) -> None:
    """Raise AnalysisError unless 0 < value < 1."""
    if not 0 < value < 1:
        raise AnalysisError(f"{what}={value}", "must lie between 0 and 1", "use e.g. 0.95")


def _share_interval(
    k: int, n: int, confidence: float, method: Literal["exact", "wilson"]
) -> Interval:
    check_share("confidence", confidence)
    if not 0 <= k <= n:
        raise AnalysisError(
            f"k={k} of n={n}", "a count lies between 0 and n", "count hits among all attempts"
        )
    if n == 0:
        return Interval(value=None, low=None, high=None, n=0)
    bounds = stats.binomtest(k, n).proportion_ci(confidence, method=method)
    return Interval(value=k / n, low=float(bounds.low), high=float(bounds.high), n=n)


def _last_rank(n: int, q: float, tail: float) -> int:
    """The largest l with P(Binomial(n, q) < l) <= tail; 0 when there is none."""
    rank = int(stats.binom.ppf(tail, n, q))
    if stats.binom.cdf(rank, n, q) <= tail:  # an exact tie
        rank += 1
    return rank


def _finite(values: ArrayLike | Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.all(np.isfinite(array)):
        raise AnalysisError(
            "values", "hold a number that is not finite", "leave missing values out"
        )
    return array
