"""What the Agents page draws: quantiles of the last seconds over all workloads."""

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.page import WINDOW, Figures, quantile


@given(values=st.lists(st.integers(1, 50), min_size=1), q=st.sampled_from([0.5, 0.95]))
def test_a_quantile_of_counts_is_that_of_the_values(values: list[int], q: float) -> None:
    found = quantile(Counter(float(value) for value in values), q)
    assert found is not None
    assert sum(value <= found for value in values) >= q * len(values) - 1e-6
    assert sum(value < found for value in values) < q * len(values) + 1e-6


def test_nothing_ended_is_missing() -> None:
    assert quantile(Counter(), 0.5) is None


def test_figures_merge_workloads_and_forget_what_is_old() -> None:
    one = SimpleNamespace(method="ttft", response_times={100.0: 1})
    two = SimpleNamespace(method="ttft", response_times={200.0: 3})
    stats = SimpleNamespace(entries={"a": one, "b": two})
    figures = Figures(stats)
    figures.take(50.0)
    ttft, episode = figures.newest()
    assert (ttft.kind, ttft.count, ttft.p50_ms, ttft.p95_ms) == ("ttft", 4, 200.0, 200.0)
    assert (episode.count, episode.p50_ms) == (0, None)
    for number in range(WINDOW):
        figures.take(52.0 + 2 * number)
    assert figures.newest()[0].p50_ms is None
    one.response_times[100.0] = 5
    figures.take(64.0)
    assert (figures.newest()[0].count, figures.newest()[0].p95_ms) == (4, 100.0)
    assert figures.newest()[0].at_s == pytest.approx(14.0)
