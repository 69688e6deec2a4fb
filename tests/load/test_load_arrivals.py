"""Arrivals follow their law and are the same in every arm."""

from itertools import islice, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.load.arrivals import starts_s, think_times_s


@given(seed=st.integers(0, 2**32), users=st.integers(1, 40), stagger_s=st.floats(0.0, 60.0))
def test_starts_are_in_order_one_to_a_slot(seed: int, users: int, stagger_s: float) -> None:
    starts = list(starts_s(seed, users, stagger_s))
    slot_s = stagger_s / users
    assert len(starts) == users
    assert all(before <= after for before, after in pairwise(starts))
    for user, start_s in enumerate(starts):
        assert user * slot_s <= start_s <= (user + 1) * slot_s + 1e-9


def test_starts_are_jittered_uniformly() -> None:
    users = 800
    places = np.array(list(starts_s(11, users, float(users)))) - np.arange(users)
    assert stats.kstest(places, "uniform").pvalue > 0.01


def test_think_times_are_exponential_with_the_stated_mean() -> None:
    times = list(islice(think_times_s(5, 2, 3.0), 1500))
    assert stats.kstest(times, "expon", args=(0.0, 3.0)).pvalue > 0.01


def test_think_times_are_the_same_in_every_arm_and_differ_between_users() -> None:
    first = list(islice(think_times_s(5, 2, 3.0), 20))
    assert first == list(islice(think_times_s(5, 2, 3.0), 20))
    assert first != list(islice(think_times_s(5, 3, 3.0), 20))


def test_no_think_time_is_exactly_none() -> None:
    assert list(islice(think_times_s(5, 2, 0.0), 4)) == [0.0] * 4
