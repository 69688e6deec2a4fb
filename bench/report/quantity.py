"""Quantity: how a number, an interval or an absence is written, the same on every page.

A missing value is an en dash with its reason, never 0. An unbounded side of an interval is the
word "open". One table cell holds one scale, so the estimate and its bounds share their decimals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bench.stats.interval import Interval

DASH = "–"
NBSP = "\u00a0"
MS = 1e3
PERCENT = 1e2
FEW = 10  # fewer observations than this are an indication


def is_known(value: float | None) -> bool:
    """False for None, NaN and the infinities: none of them is a number to show."""
    return value is not None and math.isfinite(value)


def missing(reason: str) -> str:
    """How an absent value is written."""
    return f"{DASH}{NBSP}({reason})"


def number(value: float | None, reason: str, scale: float = 1.0) -> str:
    """`value * scale` with about three significant digits, or the reason why there is none."""
    if value is None or not math.isfinite(value):
        return missing(reason)
    scaled = value * scale
    return _fixed(scaled, _decimals([scaled]))


def whole(value: float | None, reason: str, scale: float = 1.0) -> str:
    """`value * scale` without decimals, or with one below 10."""
    if value is None or not math.isfinite(value):
        return missing(reason)
    scaled = value * scale
    return _fixed(scaled, 0 if scaled == 0 or abs(scaled) >= 10 else 1)


def share(value: float | None, reason: str) -> str:
    """A share from 0 to 1 with two or three decimals (0.84, 0.004)."""
    if value is None or not math.isfinite(value):
        return missing(reason)
    return _fixed(value, 2 if value == 0 or abs(value) >= 0.1 else 3)


def percent(value: float | None, reason: str) -> str:
    """A share written in per cent, unit included."""
    if value is None or not math.isfinite(value):
        return missing(reason)
    scaled = value * PERCENT
    decimals = 0 if scaled == 0 or abs(scaled) >= 10 else 1 if abs(scaled) >= 1 else 2
    return f"{_fixed(scaled, decimals)}{NBSP}%"


def interval(item: Interval, scale: float = 1.0, reason: str = "") -> str:
    """`estimate [low, high]` at one scale; "open" for a side that the data do not bound."""
    if item.value is None or not math.isfinite(item.value):
        return missing(reason or _why_missing(item.n))
    return bounds(item.value, item.low, item.high, scale)


def bounds(value: float, low: float | None, high: float | None, scale: float = 1.0) -> str:
    """`value [low, high]` with shared decimals."""
    known = [x * scale for x in (value, low, high) if x is not None and math.isfinite(x)]
    decimals = _decimals(known)
    sides = [_side(side, scale, decimals) for side in (low, high)]
    return _bracketed(_fixed(value * scale, decimals), sides)


def rate(item: Interval, reason: str = "") -> str:
    """A share with its interval, two decimals or more: `0.84 [0.77, 0.91]`."""
    if item.value is None or not math.isfinite(item.value):
        return missing(reason or _why_missing(item.n))
    decimals = 2 if item.n < 2000 else 3
    sides = [_side(side, 1.0, decimals) for side in (item.low, item.high)]
    return _bracketed(_fixed(item.value, decimals), sides)


def coefficient(value: float, low: float | None, high: float | None) -> str:
    """A fitted number with four significant digits and its interval."""
    sides = ["open" if x is None or not math.isfinite(x) else f"{x:.4g}" for x in (low, high)]
    return _bracketed(f"{value:.4g}", sides)


def count(value: float | None, reason: str = "not counted") -> str:
    """A whole number with thousands separators."""
    return missing(reason) if value is None else f"{value:,.0f}"


def sample(n: int) -> str:
    """How many observations a number rests on; with few it is an indication."""
    return f"{n:,}{NBSP}(indication)" if 0 < n < FEW else f"{n:,}"


def metric_scale(metric: str) -> tuple[float, str]:
    """The scale and unit in which a metric is shown: ms for a turn's parts, s for an episode."""
    head = metric.split(".", 1)[0]
    if head in ("ttft_s", "tpot_s", "tool_s"):
        return MS, "ms"
    if head.endswith("_s"):
        return 1.0, "s"
    if head == "error_rate":
        return PERCENT, "%"
    return 1.0, "share"


def metric_words(metric: str) -> str:
    """A metric's name in words; an unknown one is shown as it is."""
    head, _, tail = metric.partition(".")
    words = {
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "latency_s": "episode latency",
        "ttfat_s": "time to first answer token",
        "tool_s": "tool",
        "tsa": "tool selection accuracy",
        "answer_rate": "answer correctness",
        "error_rate": "error rate",
    }.get(head, head)
    kinds = {"call": "turn that calls a tool", "answer": "turn that answers"}
    return f"{words}, {kinds.get(tail, tail)}" if tail else words


def _bracketed(value: str, sides: list[str]) -> str:
    """An estimate and its interval stay on one line."""
    return f"{value}{NBSP}[{sides[0]},{NBSP}{sides[1]}]"


def _why_missing(n: int) -> str:
    return "no observation" if n == 0 else "too few"


def _side(value: float | None, scale: float, decimals: int) -> str:
    if value is None or not math.isfinite(value):
        return "open"
    return _fixed(value * scale, decimals)


def _decimals(values: Iterable[float]) -> int:
    largest = max((abs(x) for x in values), default=0.0)
    if largest == 0 or largest >= 100:
        return 0
    if largest >= 10:
        return 1
    if largest >= 1:
        return 2
    return min(9, 2 - math.floor(math.log10(largest)))


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text
