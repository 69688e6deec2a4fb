"""Coefficients from laws: a law made from coefficients gives them back."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.scenario import Engine, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.coefficients import measured_step
from makers import H100_TP2, make_law, make_step_laws


def engine(name: str = "e") -> Engine:
    return Engine(name=name, kv_tokens=16384)


@settings(max_examples=50, deadline=None)
@given(
    a=st.floats(0.5, 30),
    floor=st.floats(1, 40),
    b=st.floats(0.01, 0.2),
    decoding=st.integers(0, 200),
)
def test_a_decode_step_lasts_as_long_as_measured(
    a: float, floor: float, b: float, decoding: int
) -> None:
    truth = StepTime(a=a, floor=floor, b=b, c=1.0, d=0.03, e=0.02, request=20.0)
    found = measured_step(engine(), make_step_laws("e", truth))
    assert found is not None
    kv_tokens = 2000 * decoding
    asked, given_back = (step_ms(step, (), decoding, kv_tokens) for step in (truth, found))
    assert given_back == pytest.approx(asked, rel=1e-3)
    assert (found.b, found.c) == (b, 1.0)
    assert found.a + found.request == pytest.approx(a + 20.0)


def test_a_large_prefill_lasts_as_long_too() -> None:
    truth = dataclasses.replace(H100_TP2, host=2.0)
    found = measured_step(engine(), make_step_laws("e", truth))
    assert found is not None
    chunks = ((4000, 1000),)
    assert step_ms(found, chunks, 0, 0) == pytest.approx(step_ms(truth, chunks, 0, 0), rel=1e-3)


@pytest.mark.parametrize("contained", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_the_idle_grid_cannot_lengthen_a_decode_step(contained: bool, seen: bool) -> None:
    """The grid cannot tell what a request costs from what a step does: `a` may hold all of it.

    Whatever the TTFT law merged (the request into a, the floor into nothing), a decode step lasts
    c0 and a long prompt its intercept.
    """
    truth = dataclasses.replace(H100_TP2, host=2.0, request=30.0)
    tpot = make_step_laws("e", truth)[1]
    extra = truth.request if contained else 0.0
    values = {"a": truth.a + 2.0 + extra, "b": truth.b, "c": truth.c, "host": 30.0 - extra}
    if seen:
        values["floor"] = truth.floor + 2.0 + extra
    found = measured_step(engine(), [make_law("ttft", "e", values), tpot])
    assert found is not None
    assert step_ms(found, (), 0, 0) == pytest.approx(step_ms(truth, (), 0, 0), rel=1e-6)
    assert step_ms(found, (), 16, 48_000) == pytest.approx(step_ms(truth, (), 16, 48_000), rel=1e-6)
    chunks = ((4000, 1000),)
    asked = truth.request + step_ms(truth, chunks, 0, 0)
    assert found.request + step_ms(found, chunks, 0, 0) == pytest.approx(asked, rel=1e-3)
    if seen:
        assert found.request == pytest.approx(30.0)
        assert (found.a, found.floor) == pytest.approx((truth.a + 2.0, truth.floor + 2.0))


def test_a_request_overhead_that_the_grid_merged_into_a_does_not_slow_down_decoding() -> None:
    truth = StepTime(a=9.5, floor=6.2, b=0.045, c=1.3, d=0.04, e=0.015, request=25.0)
    _, tpot = make_step_laws("e", truth)
    merged = make_law("ttft", "e", {"a": truth.a + truth.request, "b": truth.b, "c": truth.c})
    found = measured_step(engine(), [merged, tpot])
    assert found is not None
    assert step_ms(found, (), 8, 16000) == pytest.approx(step_ms(truth, (), 8, 16000), rel=1e-3)
    idle_ms = [one.request + step_ms(one, [(3000, 0)], 0, 0) for one in (truth, found)]
    assert idle_ms[1] == pytest.approx(idle_ms[0], rel=1e-3)


def test_both_accepted_laws_of_that_engine_are_needed() -> None:
    ttft, tpot = make_step_laws("e", StepTime(a=10, floor=15, b=0.07, c=1, d=0.03, e=0.03))
    assert measured_step(engine(), [ttft, tpot]) is not None
    assert measured_step(engine(), [ttft]) is None
    assert measured_step(engine("other"), [ttft, tpot]) is None
    poor = msgspec.structs.replace(tpot, accepted=False)
    assert measured_step(engine(), [ttft, poor]) is None
    assert measured_step(engine(), [ttft, poor, tpot]) is not None
