"""Tool laws on samples of known laws: quantiles, censoring, the atom, and honest refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bench.fit.tools import fit_tool, tool_quantile
from bench.record import ToolOutcome, ToolRecord
from makers import make_tool

N = 1000
CHECKED = np.array([0.5, 0.95, 0.99])


def some_records(
    latencies_s: NDArray[np.float64], timeout_s: float | None = None, recorded: bool = False
) -> list[ToolRecord]:
    records = []
    for value in latencies_s:
        late = timeout_s is not None and value > timeout_s
        records.append(
            a_record(
                timeout_s if late and timeout_s is not None else float(value),
                ToolOutcome.timeout if late else ToolOutcome.ok,
                recorded,
            )
        )
    return records


def a_record(seconds: float, outcome: ToolOutcome, recorded: bool = False) -> ToolRecord:
    return make_tool(
        tool="web_search",
        done_ns=round(seconds * 1e9),
        outcome=outcome,
        in_flight=2,
        recorded=recorded,
    )


LAWS = {
    "lognormal": stats.lognorm(0.35, scale=0.6),
    "shifted lognormal": stats.lognorm(0.6, loc=0.2, scale=0.3),
    "gamma": stats.gamma(3.0, scale=0.02),
    "weibull": stats.weibull_min(1.7, scale=0.1),
    "inverse-gaussian": stats.invgauss(0.5, scale=0.1),
}


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_of_a_known_law_come_back(name: str) -> None:
    truth = LAWS[name]
    sample = truth.rvs(N, random_state=np.random.default_rng(7))
    law = fit_tool(some_records(sample), "web_search", "e")
    assert law.accepted
    error = np.abs(tool_quantile(law, CHECKED) / truth.ppf(CHECKED) - 1)
    assert np.all(error < [0.07, 0.08, 0.15])  # about three standard errors
    assert (law.n, law.censored, law.failures) == (N, 0, 0)
    assert law.range["in_flight"] == [2, 2]


def test_the_intervals_of_a_lognormal_hold_the_truth() -> None:
    inside = 0
    for seed in range(10):
        sample = np.random.default_rng(seed).lognormal(np.log(0.6), 0.8, N)
        law = fit_tool(some_records(sample), "web_search", "e", confidence=1 - 0.05 / 2)
        if law.family != "lognormal" or law.coefficient("shift") is not None:
            continue
        pairs = (("median", 0.6), ("sigma", 0.8))
        held = [(law.coefficient(key), truth) for key, truth in pairs]
        inside += all(
            one is not None
            and one.low is not None
            and one.high is not None
            and one.low <= truth <= one.high
            for one, truth in held
        )
    assert inside >= 6  # those where a needless shift was chosen do not count


def test_timeouts_are_censored_and_not_the_slowest_values() -> None:
    truth = stats.lognorm(0.8, scale=0.6)
    sample = truth.rvs(N, random_state=np.random.default_rng(3))
    law = fit_tool(some_records(sample, timeout_s=1.5), "web_search", "e")
    assert law.censored == int(np.sum(sample > 1.5))
    assert law.accepted
    assert law.note == "checked p10 to p80"
    # Beyond the timeout nothing was seen; the law still knows that something is there.
    assert tool_quantile(law, CHECKED)[1] == pytest.approx(truth.ppf(0.95), rel=0.15)


def test_failures_are_an_atom_with_its_interval() -> None:
    good = some_records(np.random.default_rng(1).gamma(3, 0.02, 90))
    bad = [a_record(0.001, ToolOutcome.error)] * 8 + [a_record(0.0, ToolOutcome.refused)] * 2
    law = fit_tool([*good, *bad], "sql_query", "e")
    atom = law.coefficient("failure_share")
    assert atom is not None
    assert atom.low is not None
    assert atom.high is not None
    assert (law.n, law.failures, atom.value) == (90, 10, 0.1)
    assert atom.low < 0.1 < atom.high
    assert "8 error; 2 refused" in law.note
    assert law.accepted


def test_what_no_family_describes_stays_empirical() -> None:
    rng = np.random.default_rng(2)
    two = np.where(rng.random(N) < 0.5, 0.01, 0.1) * rng.lognormal(0, 0.1, N)
    law = fit_tool(some_records(two), "sql_query", "e")
    assert (law.family, law.accepted) == ("empirical", False)
    assert "no family comes within 10%" in law.note
    assert tool_quantile(law, 0.9) == pytest.approx(np.quantile(two, 0.9))


def test_below_thirty_and_for_stated_delays_nothing_is_fitted() -> None:
    few = fit_tool(some_records(np.linspace(0.1, 0.2, 29)), "sql_query", "e")
    assert (few.family, few.accepted, few.n) == ("empirical", False, 29)
    assert "n=29 is below 30" in few.note
    equal = fit_tool(some_records(np.full(100, 0.05)), "sql_query", "e")
    assert "equal within" in equal.note
    stated = fit_tool(some_records(np.linspace(0.05, 0.06, 99), recorded=True), "sql_query", "e")
    assert "no law is fitted to a stated delay" in stated.note
    none = fit_tool([], "sql_query", "e")
    assert (none.n, none.coefficients, none.accepted) == (0, [], False)
    assert np.isnan(tool_quantile(none, 0.5))


def test_a_shift_stays_below_the_minimum() -> None:
    sample = 0.05 + np.random.default_rng(4).gamma(1.5, 0.02, N)
    law = fit_tool(some_records(sample), "vector_search", "e")
    assert law.value("shift") <= 0.99 * sample.min() + 1e-12
    assert law.value("shift") == pytest.approx(0.05, rel=0.05)


def test_a_law_that_few_values_cannot_refute_is_not_called_right() -> None:
    """Forty values leave a quantile wide open: off by more than 10 %, and inside its interval."""
    rng = np.random.default_rng(1)
    law = fit_tool(some_records(rng.lognormal(-3, 0.8, 40)), "sql_query", "e")
    assert law.accepted and law.unrefuted
    assert "n=40 is too small to refute" in law.note
    sure = fit_tool(some_records(rng.lognormal(-3, 0.3, 4000)), "sql_query", "e")
    assert sure.accepted and not sure.unrefuted
    assert sure.note == "checked p10 to p99"
