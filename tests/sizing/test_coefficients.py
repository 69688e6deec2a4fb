"""Coefficients from laws: a law made from coefficients gives them back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fit.law import Coefficient, Law
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.coefficients import measured_step


def law(name: str, values: dict[str, float]) -> Law:
    return Law(
        name=name,
        engine="e",
        family="step-time",
        coefficients=[
            Coefficient(name=key, value=value, low=None, high=None, unit="ms")
            for key, value in values.items()
        ],
        range={},
        n=1,
    )


def laws_of(step: StepTime) -> list[Law]:
    """What a perfect fit finds; the host's share of a step is in `a` and in `c0`."""
    ttft = {"a": step.a + step.host, "b": step.b, "c": step.c, "host": step.request}
    tpot = {"c0": step_ms(step, (), 0, 0), "d": step.d, "e": step.e}
    return [law("ttft", ttft), law("tpot", tpot)]


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
    found = measured_step(engine(), laws_of(truth))
    assert found is not None
    kv_tokens = 2000 * decoding
    asked, given_back = (step_ms(step, (), decoding, kv_tokens) for step in (truth, found))
    assert given_back == pytest.approx(asked, rel=1e-3)
    assert (found.b, found.c, found.request) == (b, 1.0, 20.0)


def test_a_large_prefill_lasts_as_long_too() -> None:
    truth = StepTime(a=12.05, floor=15.87, b=0.06847, c=2.678, d=0.034, e=0.0292, host=2.0)
    found = measured_step(engine(), laws_of(truth))
    assert found is not None
    chunks = ((4000, 1000),)
    assert step_ms(found, chunks, 0, 0) == pytest.approx(step_ms(truth, chunks, 0, 0), rel=1e-3)


def test_both_accepted_laws_of_that_engine_are_needed() -> None:
    ttft, tpot = laws_of(StepTime(a=10, floor=15, b=0.07, c=1, d=0.03, e=0.03))
    assert measured_step(engine(), [ttft, tpot]) is not None
    assert measured_step(engine(), [ttft]) is None
    assert measured_step(engine("other"), [ttft, tpot]) is None
    poor = msgspec.structs.replace(tpot, accepted=False)
    assert measured_step(engine(), [ttft, poor]) is None
    assert measured_step(engine(), [ttft, poor, tpot]) is not None
