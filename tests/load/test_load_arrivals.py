"""Arrivals follow their law and are the same in every arm."""

from itertools import islice, pairwise, takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.load.arrivals import (
    active_from_s,
    along_s,
    constant_s,
    gamma_s,
    poisson_s,
    profile_of,
    starts_s,
    think_times_s,
    unit_arrivals,
)
from bench.scenario import Arrivals, Stage


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


LAWS = [(Arrivals.poisson, 0.0, 1.0), (Arrivals.gamma, 0.5, 0.5), (Arrivals.gamma, 2.0, 2.0)]


def gaps(law: Arrivals, cv: float, count: int = 4000) -> np.ndarray:
    units = unit_arrivals(np.random.default_rng(7), law, cv)
    return np.diff([0.0, *islice(units, count)])


@pytest.mark.parametrize(("law", "cv", "spread"), LAWS)
def test_gaps_follow_their_law(law: Arrivals, cv: float, spread: float) -> None:
    drawn = gaps(law, cv)
    shape = spread**-2
    assert stats.kstest(drawn, stats.gamma(shape, scale=1 / shape).cdf).pvalue > 0.01
    assert np.std(drawn) / np.mean(drawn) == pytest.approx(spread, rel=0.1)


def test_gaps_of_another_law_are_told_apart() -> None:
    assert stats.kstest(gaps(Arrivals.gamma, 1.3), "expon").pvalue < 1e-6


@given(seed=st.integers(0, 2**32), rate=st.floats(0.001, 1000.0))
def test_constant_arrivals_have_equal_gaps(seed: int, rate: float) -> None:
    arrivals = list(islice(constant_s(np.random.default_rng(seed), rate), 20))
    assert 0 <= arrivals[0] <= 1 / rate
    assert np.diff(arrivals) == pytest.approx(1 / rate, rel=1e-6)


@given(seed=st.integers(0, 2**32), rate=st.floats(0.001, 1000.0), cv=st.floats(0.2, 4.0))
def test_arrivals_are_in_order_and_scale_with_their_rate(seed: int, rate: float, cv: float) -> None:
    for law in (poisson_s, lambda rng, rate: gamma_s(rng, rate, cv)):
        arrivals = list(islice(law(np.random.default_rng(seed), rate), 600))
        assert arrivals[0] >= 0
        assert all(before <= after for before, after in pairwise(arrivals))
        once = list(islice(law(np.random.default_rng(seed), 1.0), 600))
        assert np.array(arrivals) * rate == pytest.approx(once), "one stream for every rate"


@pytest.mark.parametrize("rate", [0.05, 2.0, 300.0])
def test_a_rate_gives_that_many_arrivals(rate: float) -> None:
    span_s = 2000 / rate
    for law in (poisson_s, constant_s):
        arrivals = law(np.random.default_rng(3), rate)
        count = sum(1 for _ in takewhile(lambda at_s: at_s < span_s, arrivals))
        assert count == pytest.approx(2000, abs=4 * 2000**0.5)


STAGES = st.lists(
    st.builds(
        lambda rate, length_s, share: Stage(
            rate=rate, duration_s=length_s, ramp_s=share * length_s
        ),
        st.one_of(st.just(0.0), st.floats(0.5, 20.0)),
        st.floats(0.5, 20.0),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=5,
).filter(lambda stages: any(stage.rate for stage in stages))


@given(stages=STAGES)
def test_along_a_profile_the_counts_follow_its_integral(stages: list[Stage]) -> None:
    profile = profile_of(stages)
    end_s = sum(stage.duration_s for stage in stages)
    planned = profile.mean(end_s) * end_s
    units = (number + 0.5 for number in range(10_000))
    arrivals = list(takewhile(lambda at_s: at_s < end_s, along_s(units, profile)))
    assert abs(len(arrivals) - planned) <= 0.5 + 1e-6
    assert all(before <= after for before, after in pairwise(arrivals))
    for at_s in (0.25 * end_s, 0.5 * end_s, 0.75 * end_s):
        so_far = sum(each < at_s for each in arrivals)
        assert abs(so_far - profile.mean(at_s) * at_s) <= 0.5 + 1e-6


def test_poisson_arrivals_along_a_ramp_follow_its_law() -> None:
    """Given their number, arrivals of a ramp from 0 are iid with density growing in t."""
    profile = profile_of([Stage(rate=40.0, duration_s=50.0, ramp_s=50.0)])
    units = unit_arrivals(np.random.default_rng(5), Arrivals.poisson)
    arrivals = np.array(list(takewhile(lambda at_s: at_s < 50.0, along_s(units, profile))))
    assert len(arrivals) == pytest.approx(1000, abs=130)
    assert stats.kstest(arrivals / 50.0, lambda share: share**2).pvalue > 0.01


@given(
    users=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
    ramp=st.sampled_from([0.0, 0.4, 1.0]),
    user=st.integers(0, 9),
    at_s=st.floats(-1.0, 25.0),
)
def test_a_user_is_active_when_the_profile_has_it(
    users: list[int], ramp: float, user: int, at_s: float
) -> None:
    profile = profile_of([Stage(users=n, duration_s=4.0, ramp_s=4.0 * ramp) for n in users])
    found = active_from_s(profile, user, at_s)
    grid = np.arange(max(at_s, 0.0), 30.0, 0.013)
    active = [t for t in grid if profile.at(float(t)) > user + 1e-9]
    if found is None:
        assert not active
    else:
        assert found >= at_s
        assert not active or active[0] >= found - 1e-9
        assert profile.at(found + 1e-6) >= user
