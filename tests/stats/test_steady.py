"""MSER-5 on series whose warm-up is known."""

from __future__ import annotations

import numpy as np

from bench.stats.steady import mser5


def test_a_ramp_before_a_level_is_cut_and_little_more() -> None:
    rng = np.random.default_rng(1)
    ramp = np.linspace(5.0, 1.0, 60)
    steady = mser5(np.concatenate([ramp, np.ones(400)]) + rng.normal(0, 0.1, 460))
    assert steady.settled
    assert 45 <= steady.cut <= 100


def test_a_level_from_the_start_loses_little() -> None:
    cuts = [mser5(np.random.default_rng(seed).normal(1, 0.1, 500)) for seed in range(30)]
    assert np.mean([steady.cut for steady in cuts]) < 60
    assert sum(steady.settled for steady in cuts) >= 27


def test_a_series_that_grows_to_its_end_is_not_settled() -> None:
    grows = np.exp(np.linspace(0, 6, 500))[::-1]
    falls_late = np.concatenate([np.full(400, 5.0), np.full(100, 1.0)])
    falls_late += np.random.default_rng(2).normal(0, 0.05, 500)
    steady = mser5(falls_late)
    assert not steady.settled
    assert steady.cut == 250
    assert "of 100 batches" in steady.reason
    assert mser5(grows).cut > 0


def test_below_fifty_values_nothing_is_claimed() -> None:
    steady = mser5([1.0] * 49)
    assert (steady.cut, steady.settled) == (0, False)
    assert "49 of 50" in steady.reason
    assert mser5([1.0] * 50).settled


def test_it_is_the_definition() -> None:
    values = np.random.default_rng(3).lognormal(size=150)
    means = values.reshape(-1, 5).mean(axis=1)
    k = len(means)
    by_hand = [
        float(np.sum((means[d:] - means[d:].mean()) ** 2)) / (k - d) ** 2 for d in range(k - 4)
    ]
    best = int(np.argmin(by_hand))
    assert mser5(values).cut == min(best, k // 2) * 5
