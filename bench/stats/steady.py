"""Where does the warm-up end? MSER-5 (White 1997; methods.md section 5)."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

BATCH = 5
# The statistic is not trustworthy when fewer batches are left (Hoad, Robinson and Davies 2010).
BATCHES_LEFT = 5


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """`cut`: values to leave out at the front. `settled`: the rest may be called steady."""

    cut: int
    settled: bool
    reason: str = ""  # why not settled


def mser5(series: ArrayLike) -> Steady:
    """The truncation of a series, in order of start, that minimises MSER over batches of 5.

    With batch means z_1..z_k, MSER(d) = sum over j > d of (z_j - mean)^2 / (k - d)^2, the squared
    standard error of the mean of what is left; d runs over 0..k-5. A minimum beyond k/2 is not
    settled: the cut is then k/2, so that there is something to show. Below 10 batches (50 values)
    nothing can be said: no cut, not settled. A last partial batch takes no part in the choice.
    """
    values = np.asarray(series, dtype=np.float64)
    k = len(values) // BATCH
    if k < 2 * BATCHES_LEFT:
        needed = 2 * BATCHES_LEFT * BATCH
        return Steady(
            cut=0, settled=False, reason=f"{len(values)} of {needed} values that MSER-5 needs"
        )
    means = values[: k * BATCH].reshape(k, BATCH).mean(axis=1)
    means = means - means.mean()  # against cancellation in the sums of squares
    left = np.arange(k, 0, -1)
    tail_sum = np.cumsum(means[::-1])[::-1]
    tail_squares = np.cumsum(means[::-1] ** 2)[::-1]
    mser = (tail_squares - tail_sum**2 / left) / left**2
    best = int(np.argmin(mser[: k - BATCHES_LEFT + 1]))
    half = k // 2
    if best > half:
        return Steady(
            cut=half * BATCH, settled=False, reason=f"MSER-5 would cut {best} of {k} batches"
        )
    return Steady(cut=best * BATCH, settled=True)
