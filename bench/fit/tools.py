"""The latency law of each tool (methods.md section 4).

Every execution is an attempt for itself, retries too. Latencies of executions that ended well are
values, timeouts and executions that we cut are right-censored, other failures are an atom beside
the law. Candidates: lognormal, gamma, Weibull, inverse Gaussian, each with and without a shift;
maximum likelihood with the densities and survival functions of scipy.stats; chosen by AICc among
those that are accepted, else the empirical law. A family is accepted when each quantile from p10 to
p99 that has ten observations beyond it is within 10 % of the sample's, or within the sample's own
95 % order-statistic interval: at n = 1,000 the p99 of a lognormal with sigma 0.8 scatters by 9 %,
so 10 % alone would refuse the truth in every fifth campaign.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from bench.fit.law import Coefficient, Law
from bench.fit.level import Level
from bench.record import ToolOutcome, ToolRecord
from bench.stats.interval import Interval
from bench.stats.quantiles import clopper_pearson, quantile_interval

Floats = NDArray[np.float64]
FAMILIES = ("lognormal", "gamma", "weibull", "inverse-gaussian")
# Names and units of the two parameters of a family, and whether a shift needs the first at least 1.
PARAMETERS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "lognormal": (("sigma", "1"), ("median", "s")),
    "gamma": (("shape", "1"), ("scale", "s")),
    "weibull": (("shape", "1"), ("scale", "s")),
    "inverse-gaussian": (("shape", "1"), ("mean", "s")),
}
SHAPE_FROM_ONE = ("gamma", "weibull")
EMPIRICAL_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
CHECKED_QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MIN_LATENCIES = 30
MIN_BEYOND = 10  # observations beyond a quantile, for its error to mean anything
MAX_QUANTILE_ERROR = 0.1
MAX_SHIFT = 0.99  # of the minimum
MIN_SPREAD = 1e-3  # of the median: below, there is nothing to fit
MAX_FITTED = 20_000  # more are thinned evenly over time: the law does not gain, the time does


class _Observed(msgspec.Struct):
    """What the likelihood sees, seconds."""

    exact: Floats
    censored: Floats


class _Fit(msgspec.Struct):
    """`theta` = log first, log second parameter, and the shift in seconds if there is one."""

    family: str
    theta: Floats
    shifted: bool
    aicc: float


def fit_tools(levels: Sequence[Level], confidence: float = 0.95) -> list[Law]:
    """The law of every tool of every engine, over all levels of that engine, in order of name."""
    found: defaultdict[tuple[str, str], list[ToolRecord]] = defaultdict(list)
    for level in levels:
        for record in level.tools:
            found[level.engine, record.tool].append(record)
    return [
        fit_tool(found[engine, tool], tool, engine, confidence) for engine, tool in sorted(found)
    ]


def tool_samples(levels: Sequence[Level]) -> dict[str, list[float]]:
    """Tool -> latencies in seconds of the executions that ended well, for the law figure."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for level in levels:
        for record in level.tools:
            if record.outcome is ToolOutcome.ok and record.latency_s is not None:
                found[record.tool].append(record.latency_s)
    return dict(sorted(found.items()))


def fit_tool(
    records: Sequence[ToolRecord], tool: str, engine: str, confidence: float = 0.95
) -> Law:
    """The law of one tool. Never fails: what cannot be fitted is told in the note.

    `n` counts latencies, the censored ones included; failures are apart. Below 30 latencies no law
    is fitted. Intervals from the observed information, in the logarithm of each parameter, as for
    independent executions. `failure_share`: the atom, with the exact interval over all attempts.
    """
    observed, failures = _observe(records)
    n, censored = len(observed.exact) + len(observed.censored), len(observed.censored)
    recorded = sum(record.recorded for record in records)
    share = clopper_pearson(failures, failures + n, confidence)
    atom = Coefficient(
        name="failure_share", value=share.value or 0.0, low=share.low, high=share.high, unit="1"
    )
    found: tuple[_Fit, float] | None = None
    notes = [f"{recorded} observations were replayed after a stated delay"] if recorded else []
    if len(observed.exact) < MIN_LATENCIES:
        notes.append(f"n={len(observed.exact)} is below {MIN_LATENCIES}: no law is fitted")
    elif recorded == len(records):
        notes.append("no law is fitted to a stated delay")
    elif float(np.ptp(observed.exact)) < MIN_SPREAD * float(np.median(observed.exact)):
        notes.append(f"all latencies are equal within {MIN_SPREAD:.1%}: no law is fitted")
    else:
        found, note = _choose(observed)
        notes += [note] if note else []
    family = "empirical" if found is None else found[0].family
    coefficients = (
        _empirical(observed, confidence)
        if found is None
        else _coefficients(found[0], _thinned(observed), confidence)
    )
    return Law(
        name=f"tool.{tool}",
        engine=engine,
        family=family,
        coefficients=[*coefficients, atom] if failures + n else [],
        range=_ranges(observed, records),
        n=n,
        censored=censored,
        failures=failures,
        quantile_error=None if found is None else found[1],
        accepted=found is not None,
        unrefuted=found is not None and found[1] > MAX_QUANTILE_ERROR,
        note="; ".join([*notes, *_failure_notes(records)]),
    )


def tool_quantile(law: Law, q: ArrayLike) -> Floats:
    """Latency quantiles in seconds of a law of `fit_tool`, failures apart; q within (0, 1).

    The empirical law is interpolated between its stated quantiles and constant beyond them.
    """
    at = np.asarray(q, dtype=np.float64)
    if law.family == "empirical":
        known = [(p, law.coefficient(_quantile_name(p))) for p in EMPIRICAL_QUANTILES]
        points = [(p, found.value) for p, found in known if found is not None]
        if not points:
            return np.full_like(at, np.nan)
        interpolated: Floats = np.interp(at, [p for p, _ in points], [x for _, x in points])
        return interpolated
    (first, _), (second, _) = PARAMETERS[law.family]
    theta = np.array([math.log(law.value(first)), math.log(law.value(second)), law.value("shift")])
    return _quantile(law.family, theta, at)


def _observe(records: Sequence[ToolRecord]) -> tuple[_Observed, int]:
    exact: list[float] = []
    censored: list[float] = []
    failures = 0
    for record in records:
        latency_s = record.latency_s
        if record.outcome is ToolOutcome.ok and latency_s is not None:
            exact.append(max(latency_s, 1e-9))
        elif record.outcome in (ToolOutcome.timeout, ToolOutcome.cut):
            if latency_s is not None and latency_s > 0:
                censored.append(latency_s)
        else:
            failures += 1
    return _Observed(np.array(exact), np.array(censored)), failures


def _failure_notes(records: Sequence[ToolRecord]) -> list[str]:
    kinds = Counter(
        record.outcome.value
        for record in records
        if record.outcome in (ToolOutcome.error, ToolOutcome.refused, ToolOutcome.unknown)
    )
    return [f"{count} {kind}" for kind, count in sorted(kinds.items())]


def _thinned(observed: _Observed) -> _Observed:
    total = len(observed.exact) + len(observed.censored)
    step = math.ceil(total / MAX_FITTED)
    return _Observed(observed.exact[::step], observed.censored[::step])


def _choose(observed: _Observed) -> tuple[tuple[_Fit, float] | None, str]:
    """The accepted law with the smallest AICc and its quantile error, and what there is to say."""
    data = _thinned(observed)
    fits = [
        fit
        for family in FAMILIES
        for shifted in (False, True)
        if (fit := _fit(data, family, shifted)) is not None
    ]
    levels = _checked(observed)
    values = np.sort(np.concatenate([observed.exact, observed.censored]))
    samples = [quantile_interval(values, q) for q in levels]
    errors = [(fit, _quantile_error(fit, values, levels)) for fit in fits]
    accepted = [one for one in errors if _accepted(one[0], samples, levels)]
    checked = f"checked p{levels[0] * 100:g} to p{levels[-1] * 100:g}"
    if not accepted:
        nearest = min((error for _, error in errors), default=math.inf)
        most = f"{MAX_QUANTILE_ERROR:.0%}"
        return None, f"no family comes within {most} of the quantiles (nearest {nearest:.0%})"
    best = min(accepted, key=lambda one: one[0].aicc)
    if best[1] > MAX_QUANTILE_ERROR:
        checked += f"; off by up to {best[1]:.0%}, which n={len(values)} is too small to refute"
    return best, checked


def _fit(data: _Observed, family: str, shifted: bool) -> _Fit | None:
    """Maximum likelihood of one family; None when it does not converge."""
    most = MAX_SHIFT * float(data.exact.min())
    shift = 0.5 * most if shifted else 0.0
    start = _start(data.exact - shift, family)
    shape_from = 0.0 if shifted and family in SHAPE_FROM_ONE else -12.0
    bounds = [(shape_from, 12.0), (start[1] - 8, start[1] + 8)]
    if shifted:
        start = np.append(start, shift)
        bounds.append((0.0, most))
    start = np.clip(start, [low for low, _ in bounds], [high for _, high in bounds])
    # The shift is scaled to the others, which are logarithms.
    unit = np.array([1.0, 1.0, most][: len(start)])

    def loss(scaled: Floats) -> float:
        return _loss(data, family, scaled * unit)

    with np.errstate(all="ignore"):  # at the edge of its range a family may overflow
        solved = optimize.minimize(
            loss,
            start / unit,
            method="L-BFGS-B",
            bounds=[(low / one, high / one) for (low, high), one in zip(bounds, unit, strict=True)],
            options={"maxiter": 80, "maxfun": 400},
        )
    if not np.isfinite(solved.fun):
        return None
    k, n = len(start), len(data.exact) + len(data.censored)
    aicc = 2 * float(solved.fun) + 2 * k + 2 * k * (k + 1) / max(n - k - 1, 1)
    theta = np.asarray(solved.x, dtype=np.float64) * unit
    return _Fit(family=family, theta=theta, shifted=shifted, aicc=aicc)


def _start(values: Floats, family: str) -> Floats:
    """Moment estimates as start values: logarithms of the two parameters."""
    mean, variance = float(values.mean()), float(values.var())
    logs = np.log(values)
    match family:
        case "lognormal":
            return np.array([math.log(max(float(logs.std()), 1e-6)), float(logs.mean())])
        case "gamma":
            shape = min(max(mean**2 / max(variance, 1e-300), 0.05), 1e5)
            return np.array([math.log(shape), math.log(mean / shape)])
        case "weibull":
            shape = min(max(1.2825 / max(float(logs.std()), 1e-6), 0.1), 1e4)
            scale = float(np.mean(values ** min(shape, 50.0)) ** (1 / min(shape, 50.0)))
            return np.array([math.log(shape), math.log(scale)])
        case _:  # inverse Gaussian: variance = mean^2 / shape
            shape = min(max(mean**2 / max(variance, 1e-300), 0.05), 1e5)
            return np.array([math.log(shape), math.log(mean)])


def _loss(data: _Observed, family: str, theta: Floats) -> float:
    """Minus the log-likelihood: densities of exact values, survival of censored ones."""
    law, shape, loc, scale = _scipy(family, theta)
    with np.errstate(all="ignore"):
        total = -float(np.sum(law.logpdf(data.exact, shape, loc=loc, scale=scale)))
        if len(data.censored):
            total -= float(np.sum(law.logsf(data.censored, shape, loc=loc, scale=scale)))
    return total if math.isfinite(total) else 1e12


def _scipy(family: str, theta: Floats) -> tuple[stats.rv_continuous, float, float, float]:
    """The scipy distribution with its shape, loc and scale."""
    first, second = float(np.exp(theta[0])), float(np.exp(theta[1]))
    loc = float(theta[2]) if len(theta) > 2 else 0.0
    match family:
        case "lognormal":
            return stats.lognorm, first, loc, second
        case "gamma":
            return stats.gamma, first, loc, second
        case "weibull":
            return stats.weibull_min, first, loc, second
        case _:  # invgauss(mu, scale): mean = mu*scale, lambda = scale; first = lambda/mean
            return stats.invgauss, 1 / first, loc, first * second


def _quantile(family: str, theta: Floats, q: Floats) -> Floats:
    law, shape, loc, scale = _scipy(family, theta)
    found: Floats = np.asarray(law.ppf(q, shape, loc=loc, scale=scale), dtype=np.float64)
    return found


def _checked(observed: _Observed) -> list[float]:
    """The quantiles that can be checked: enough beyond them, and not among the censored."""
    n = len(observed.exact) + len(observed.censored)
    first = float(observed.censored.min()) if len(observed.censored) else math.inf
    known = float(np.mean(np.concatenate([observed.exact, observed.censored]) < first))
    return [q for q in CHECKED_QUANTILES if n * (1 - q) >= MIN_BEYOND and q < known] or [0.5]


def _quantile_error(fit: _Fit, values: Floats, levels: Sequence[float]) -> float:
    error = _quantile(fit.family, fit.theta, np.array(levels)) / np.quantile(values, levels) - 1
    return float(np.max(np.abs(error)))


def _accepted(fit: _Fit, samples: Sequence[Interval], levels: Sequence[float]) -> bool:
    fits = _quantile(fit.family, fit.theta, np.array(levels))
    for sample, fitted in zip(samples, fits, strict=True):
        if sample.value is None or sample.low is None or sample.high is None:
            return False
        near = abs(fitted / sample.value - 1) <= MAX_QUANTILE_ERROR
        if not near and not sample.low <= fitted <= sample.high:
            return False
    return True


def _coefficients(fit: _Fit, data: _Observed, confidence: float) -> list[Coefficient]:
    errors = _standard_errors(fit, data)
    reach = float(stats.norm.ppf((1 + confidence) / 2))
    found = []
    for (name, unit), log, error in zip(PARAMETERS[fit.family], fit.theta, errors, strict=False):
        value = math.exp(log)
        low = None if error is None else math.exp(log - reach * error)
        high = None if error is None else math.exp(log + reach * error)
        found.append(Coefficient(name=name, value=value, low=low, high=high, unit=unit))
    if fit.shifted:
        shift, error = float(fit.theta[2]), errors[2]
        low = None if error is None else max(0.0, shift - reach * error)
        high = None if error is None else min(float(data.exact.min()), shift + reach * error)
        found.append(Coefficient(name="shift", value=shift, low=low, high=high, unit="s"))
    return found


def _standard_errors(fit: _Fit, data: _Observed) -> list[float | None]:
    """From the inverse of the observed information; None where the fit ended at a bound.

    A shift at its largest or smallest value is taken as given: the likelihood has a corner there.
    """
    k = len(fit.theta)
    most = MAX_SHIFT * float(data.exact.min())
    free = list(range(k))
    if fit.shifted and not 1e-6 * most < fit.theta[2] < (1 - 1e-6) * most:
        free.remove(2)
    if fit.shifted and fit.family in SHAPE_FROM_ONE and fit.theta[0] < 1e-6:
        free.remove(0)
    step = np.full(k, 1e-3)
    if fit.shifted:
        step[2] = min(1e-3 * most, 0.5 * (most - fit.theta[2])) or 1e-3 * most
    information = np.empty((len(free), len(free)))
    for row, i in enumerate(free):
        for column, j in enumerate(free):
            corners = 0.0
            for sign_i, sign_j in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                theta = fit.theta.copy()
                theta[i] += sign_i * step[i]
                theta[j] += sign_j * step[j]
                corners += sign_i * sign_j * _loss(data, fit.family, theta)
            information[row, column] = corners / (4 * step[i] * step[j])
    errors: list[float | None] = [None] * k
    try:
        variance = np.diag(np.linalg.inv(information))
    except np.linalg.LinAlgError:
        return errors
    for row, i in enumerate(free):
        if np.isfinite(variance[row]) and variance[row] > 0:
            errors[i] = math.sqrt(variance[row])
    return errors


def _empirical(observed: _Observed, confidence: float) -> list[Coefficient]:
    """Quantiles with order-statistic intervals, as far as censoring leaves them known."""
    values = np.concatenate([observed.exact, observed.censored])
    first = float(observed.censored.min()) if len(observed.censored) else math.inf
    found = []
    for q in EMPIRICAL_QUANTILES if len(values) else ():
        interval = quantile_interval(values, q, confidence)
        if interval.value is None or interval.value >= first:
            continue
        high = interval.high if interval.high is not None and interval.high < first else None
        found.append(
            Coefficient(
                name=_quantile_name(q),
                value=interval.value,
                low=interval.low,
                high=high,
                unit="s",
            )
        )
    return found


def _quantile_name(q: float) -> str:
    return f"p{q * 100:g}"


def _ranges(observed: _Observed, records: Sequence[ToolRecord]) -> dict[str, list[float]]:
    ranges = {}
    if len(observed.exact):
        ranges["latency_s"] = [float(observed.exact.min()), float(observed.exact.max())]
    in_flight = [record.in_flight for record in records if record.in_flight is not None]
    if in_flight:
        ranges["in_flight"] = [float(min(in_flight)), float(max(in_flight))]
    return ranges
