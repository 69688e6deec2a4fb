"""Law: a fitted latency law as it stands in fits.json."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MAX_MAPE = 0.10  # mean absolute relative error in sample of a law that may predict


class Coefficient(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted number with its interval (None: not identified by the data)."""

    name: str
    value: float
    low: float | None
    high: float | None
    unit: str


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted law. `range` gives, per variable, the smallest and largest value fitted on."""

    name: str  # ttft | tpot | tool.sql_query | ...
    engine: str
    family: str  # step-time | linear | lognormal | gamma | weibull | inverse-gaussian | empirical
    coefficients: list[Coefficient]
    range: dict[str, list[float]]
    n: int
    censored: int = 0  # timeouts, taken as right-censored
    failures: int = 0  # an atom of their own
    mape: float | None = None  # in sample, share
    quantile_error: float | None = None  # largest relative error p10..p99 (distributions)
    accepted: bool = True
    unrefuted: bool = False  # accepted, but n is too small to refute it where it is off
    note: str = ""

    def coefficient(self, name: str) -> Coefficient | None:
        """The coefficient of that name; None when the law has none."""
        return next((one for one in self.coefficients if one.name == name), None)

    def value(self, name: str) -> float:
        """The value of a coefficient; 0.0, the neutral term of a sum, when the law has none."""
        found = self.coefficient(name)
        return 0.0 if found is None else found.value

    def extrapolated(self, **variables: float) -> bool:
        """True when a variable lies outside the range that the law was fitted on, or has none."""
        for name, value in variables.items():
            low, high = self.range.get(name, [float("inf"), float("-inf")])
            if not low <= value <= high:
                return True
        return False


def refusal(
    mape: float, coefficients: Sequence[Coefficient], identified: Sequence[Sequence[str]]
) -> str:
    """Why a fit is not accepted, in words; empty when it is.

    mape: in sample, share. identified: of each group of names one must have an interval.
    """
    known = {one.name for one in coefficients if one.low is not None}
    reasons = [
        f"{' and '.join(names)} not identified" for names in identified if not known & {*names}
    ]
    if mape > MAX_MAPE:
        reasons.append(f"the mean error of {mape:.0%} exceeds {MAX_MAPE:.0%}")
    return "; ".join(reasons)


def coefficient(
    name: str, value: float, error: float, reach: float, unit: str, at_bound: bool = False
) -> Coefficient:
    """A coefficient that cannot be negative, with the interval value +- reach*error.

    error: its standard error; reach: the Student quantile. When the error exceeds the value, or
    the fit ended at a bound of the parameter, the data do not identify it: both bounds are None.
    """
    if at_bound or not error < value:
        return Coefficient(name=name, value=value, low=None, high=None, unit=unit)
    return Coefficient(
        name=name,
        value=value,
        low=max(0.0, value - reach * error),
        high=value + reach * error,
        unit=unit,
    )
