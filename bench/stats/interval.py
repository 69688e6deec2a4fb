"""Interval: an estimate, its two-sided bounds, and the n it rests on."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """`None` for a value is "not known", for a bound "unbounded"; never 0 or NaN."""

    value: float | None
    low: float | None
    high: float | None
    n: int
