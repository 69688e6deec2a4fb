"""Bounds under dependence: the independent case exactly, the others by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import lfilter

from bench.errors import AnalysisError
from bench.stats.clusters import (
    QuantileBounds,
    _invert,
    clustered_interval,
    quantile_bounds,
    time_blocks,
)
from bench.stats.quantiles import quantile_interval, two_sided

SIGMA = 0.8


def side(bounds: QuantileBounds, bound: float) -> str:
    """Where the quantile is said to lie; on the bound counts as below."""
    if not bounds.decidable:
        return "undecided"
    if bounds.high is not None and bounds.high <= bound:
        return "below"
    return "above" if bounds.low is not None and bounds.low > bound else "undecided"


@pytest.mark.parametrize(("n", "q"), [(20, 0.5), (59, 0.95), (58, 0.95), (400, 0.9), (299, 0.99)])
def test_without_dependence_the_bounds_are_order_statistics(n: int, q: float) -> None:
    values = np.sort(np.random.default_rng(n).lognormal(size=n))
    exact = quantile_interval(values, q, two_sided(0.95))
    assert _invert(values, q, 0.95, float(n)) == (exact.low, exact.high)


def _clustered(rng: np.random.Generator, n: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    episode = np.repeat(np.arange(n // 4), 4)
    common = rng.normal(size=n // 4)[episode]
    return np.exp(SIGMA * (0.8 * common + 0.6 * rng.normal(size=len(episode)))), episode


def _autocorrelated(
    rng: np.random.Generator, n: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    noise = rng.normal(size=n + 200)
    series = lfilter([1.0], [1.0, -0.9], noise)[200:] * np.sqrt(1 - 0.81)
    return np.exp(SIGMA * series), np.arange(n)


@pytest.mark.parametrize(
    ("family", "q"), [("clustered", 0.5), ("clustered", 0.95), ("autocorrelated", 0.5)]
)
def test_false_verdicts_at_the_bound_are_rare(family: str, q: float) -> None:
    make = {"clustered": _clustered, "autocorrelated": _autocorrelated}[family]
    rng = np.random.default_rng(11)
    truth = float(np.exp(SIGMA * stats.norm.ppf(q)))
    sides = []
    for _ in range(200):
        values, episode = make(rng, 1600)
        sides.append(side(quantile_bounds(np.arange(len(values)), episode, values, q), truth))
    limit = 200 * (0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5)
    assert sides.count("below") <= limit
    assert sides.count("above") <= limit


def test_it_decides_when_the_bound_is_far() -> None:
    values, episode = _clustered(np.random.default_rng(2), 2000)
    bounds = quantile_bounds(np.arange(2000), episode, values, 0.5)
    assert side(bounds, 2.0) == "below"
    assert side(bounds, 0.5) == "above"
    assert bounds.design_effect is not None
    assert bounds.design_effect > 1.3  # four turns of an episode are not four values
    assert (bounds.episodes, bounds.blocks, bounds.n) == (500, 20, 2000)


def test_too_little_is_undecided_with_its_reason() -> None:
    values = np.random.default_rng(3).lognormal(size=100)
    few = quantile_bounds(np.arange(100), np.arange(100), values, 0.95)
    assert not few.decidable
    assert few.reason.startswith("n_too_small:")
    assert side(few, 1e9) == "undecided"
    one_episode = quantile_bounds(np.zeros(100), np.zeros(100), values, 0.5)
    assert one_episode.reason.startswith("blocks_too_few: 1 of 20")
    none = quantile_bounds([], [], [], 0.5)
    assert (none.value, none.low, none.high, none.decidable) == (None, None, None, False)


def test_equal_values_are_their_own_bounds() -> None:
    bounds = quantile_bounds(np.arange(500), np.arange(500), np.ones(500), 0.9)
    assert (bounds.low, bounds.value, bounds.high) == (1.0, 1.0, 1.0)
    assert side(bounds, 1.0) == "below"  # on the bound is inside


def test_blocks_hold_whole_episodes_in_order_of_time() -> None:
    start = np.array([50, 10, 10, 30, 20, 40])
    episode = np.array([5, 1, 1, 3, 2, 4])
    block, episodes, blocks = time_blocks(start, episode, 2)
    assert (episodes, blocks) == (5, 2)
    assert block.tolist() == [1, 0, 0, 0, 0, 1]


def test_interval_is_two_sided_and_wider_than_the_one_sided_bounds() -> None:
    values, episode = _clustered(np.random.default_rng(4), 800)
    bounds = quantile_bounds(np.arange(800), episode, values, 0.5, 0.95)
    interval = clustered_interval(np.arange(800), episode, values, 0.5, 0.95)
    assert interval.low is not None
    assert interval.high is not None
    assert bounds.low is not None
    assert bounds.high is not None
    assert interval.low < bounds.low < bounds.high < interval.high


def test_wrong_lengths_are_refused() -> None:
    with pytest.raises(AnalysisError, match="one length"):
        quantile_bounds([1, 2], [1, 2], [1.0], 0.5)
