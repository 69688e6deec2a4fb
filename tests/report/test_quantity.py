from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import quantity
from bench.stats.interval import Interval


def plain(text: str) -> str:
    return text.replace(quantity.NBSP, " ")


def item(value: float | None, low: float | None, high: float | None, n: int = 100) -> Interval:
    return Interval(value=value, low=low, high=high, n=n)


def test_a_rate_is_written_with_its_interval() -> None:
    assert plain(quantity.rate(item(0.844, 0.7711, 0.9066))) == "0.84 [0.77, 0.91]"


def test_an_interval_shares_its_decimals_and_says_open() -> None:
    assert plain(quantity.interval(item(0.2104, 0.1999, None), quantity.MS)) == "210 [200, open]"
    assert plain(quantity.interval(item(1.5, 0.25, 3.0))) == "1.50 [0.25, 3.00]"


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_unknown_is_a_dash_with_the_reason(value: float | None) -> None:
    assert plain(quantity.number(value, "not sampled")) == "– (not sampled)"
    assert plain(quantity.percent(value, "not sampled")) == "– (not sampled)"
    assert plain(quantity.whole(value, "not sampled")) == "– (not sampled)"
    assert plain(quantity.interval(item(value, None, None, 0))) == "– (no observation)"
    assert plain(quantity.rate(item(value, None, None, 12))) == "– (too few)"


def test_zero_is_zero_and_not_missing() -> None:
    assert quantity.number(0.0, "x") == "0"
    assert plain(quantity.percent(0.0, "x")) == "0 %"


def test_bounds_that_are_not_finite_are_open() -> None:
    assert plain(quantity.interval(item(2.0, math.nan, math.inf))) == "2.00 [open, open]"


@pytest.mark.parametrize(
    ("metric", "unit", "words"),
    [
        ("ttft_s.call", "ms", "TTFT, turn that calls a tool"),
        ("tool_s.sql_query", "ms", "tool, sql_query"),
        ("latency_s", "s", "episode latency"),
        ("tsa", "share", "tool selection accuracy"),
        ("error_rate", "%", "error rate"),
    ],
)
def test_metrics_have_one_unit_and_name(metric: str, unit: str, words: str) -> None:
    assert quantity.metric_scale(metric)[1] == unit
    assert quantity.metric_words(metric) == words


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_number_keeps_two_significant_digits(value: float) -> None:
    shown = float(quantity.number(value, "missing").replace(",", ""))
    assert shown == pytest.approx(value, rel=0.01)
