"""Order-statistic and share intervals against definitions, scipy and known coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.errors import AnalysisError
from bench.stats.quantiles import (
    clopper_pearson,
    quantile_interval,
    two_sided,
    wilson,
)


def test_median_of_ten_has_the_textbook_ranks() -> None:
    # P(x_(2) <= median <= x_(9)) = 0.9785, and no narrower pair of equal tails reaches 95 %.
    interval = quantile_interval(np.arange(1.0, 11.0), 0.5)
    assert (interval.value, interval.low, interval.high, interval.n) == (5.5, 2.0, 9.0, 10)


@given(st.integers(1, 400), st.floats(0.02, 0.98), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(max_examples=200, deadline=None)
def test_bounds_are_the_tightest_that_binomial_tails_allow(
    n: int, q: float, confidence: float
) -> None:
    interval = quantile_interval(np.arange(1.0, n + 1), q, confidence)  # value = its own rank
    tail = (1 - confidence) / 2
    slack = 1e-9  # ranks at which the tail is met exactly may fall on either side
    low = 0 if interval.low is None else int(interval.low)
    high = n + 1 if interval.high is None else int(interval.high)
    if low > 0:
        assert stats.binom.cdf(low - 1, n, q) <= tail + slack
    if low < n:
        assert stats.binom.cdf(low, n, q) > tail - slack
    if high <= n:
        assert stats.binom.sf(high - 1, n, q) <= tail + slack
    if high > 1:
        assert stats.binom.sf(high - 2, n, q) > tail - slack


def test_coverage_of_p95_is_at_least_nominal() -> None:
    rng = np.random.default_rng(5)
    truth = float(np.exp(stats.norm.ppf(0.95)))
    inside = 0
    for _ in range(400):
        interval = quantile_interval(rng.lognormal(size=200), 0.95)
        assert interval.low is not None
        assert interval.high is not None
        inside += interval.low <= truth <= interval.high
    assert inside / 400 >= 0.95 - 3 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.parametrize(
    ("q", "confidence", "n"),
    [(0.95, 0.95, 59), (0.99, 0.95, 299), (0.95, 0.99, 90), (0.99, 0.99, 459)],
)
def test_smallest_clean_samples_are_those_of_methods_section_5(
    q: float, confidence: float, n: int
) -> None:
    both = two_sided(confidence)
    assert quantile_interval(np.arange(float(n)), q, both).high == n - 1
    assert quantile_interval(np.arange(float(n - 1)), q, both).high is None


def test_nothing_gives_none_and_one_value_has_no_bounds() -> None:
    empty = quantile_interval([], 0.5)
    assert (empty.value, empty.low, empty.high, empty.n) == (None, None, None, 0)
    single = quantile_interval([2.0], 0.5)
    assert (single.value, single.low, single.high) == (2.0, None, None)


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(AnalysisError, match="not finite"):
        quantile_interval([1.0, float("nan")], 0.5)
    with pytest.raises(AnalysisError, match="between 0 and 1"):
        quantile_interval([1.0], 1.0)


def test_shares_match_published_values() -> None:
    # methods.md section 6: 0.85 at n = 100 is 0.77 to 0.91.
    interval = wilson(85, 100)
    assert interval.value == 0.85
    assert interval.low == pytest.approx(0.767, abs=1e-3)
    assert interval.high == pytest.approx(0.907, abs=1e-3)
    exact = clopper_pearson(0, 59)
    assert (exact.value, exact.low) == (0.0, 0.0)
    assert exact.high == pytest.approx(1 - 0.025 ** (1 / 59))
    assert wilson(0, 0).value is None
    assert clopper_pearson(0, 0).high is None
    with pytest.raises(AnalysisError):
        wilson(3, 2)
