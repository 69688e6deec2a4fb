"""The step-time law gives back the tables that it was fitted to."""

import numpy as np
import pytest

from bench.scenario import StepTime
from bench.simulator.steptime import StepClock, softmax_ms, step_ms
from makers import read_published


def law(profile: str) -> StepTime:
    table = read_published()["step_time_profiles"]
    row = next(row for row in table["rows"] if row[0] == profile)
    return StepTime(**dict(zip(table["columns"][1:], row[1:], strict=True)))


@pytest.mark.parametrize(("profile", "column"), [("tp2", 1), ("tp4", 2)])
def test_decode_table(profile: str, column: int) -> None:
    coefficients = law(f"h100-70b-fp8-{profile}-vllm")
    rows = read_published()["aiconfigurator_0_12_decode_ms_4k"]["rows"]
    errors = [step_ms(coefficients, [], row[0], row[0] * 4096) / row[column] - 1 for row in rows]
    assert np.mean(np.abs(errors)) < 0.03
    assert max(map(abs, errors)) < 0.055


@pytest.mark.parametrize(("profile", "cold", "warm"), [("tp2", 1, 2), ("tp4", 3, 4)])
def test_prefill_table(profile: str, cold: int, warm: int) -> None:
    coefficients = law(f"h100-70b-fp8-{profile}-vllm")
    rows = read_published()["aiconfigurator_0_12_prefill_ms"]["rows"]
    errors = []
    for row in rows:
        tokens = row[0]
        errors.append(step_ms(coefficients, [(tokens, 0)], 0, 0) / row[cold] - 1)
        cached = tokens * 3 // 4
        errors.append(step_ms(coefficients, [(tokens - cached, cached)], 0, 0) / row[warm] - 1)
    assert np.mean(np.abs(errors)) < 0.07


def test_softmax_is_a_smooth_maximum() -> None:
    assert softmax_ms(10.0, 10.0) == pytest.approx(10 + 3 * np.log(2))
    assert softmax_ms(100.0, 0.0) == pytest.approx(100.0)
    assert softmax_ms(0.0, 1e6) == pytest.approx(1e6)  # no overflow


def test_several_chunks_attend_only_to_their_own_past() -> None:
    only_attention = StepTime(c=1.0)
    apart = step_ms(only_attention, [(1000, 0), (1000, 3000)], 0, 0) - softmax_ms(0, 0)
    assert apart == pytest.approx(0.5 + 3.5)


def test_jitter_is_seeded_with_mean_one_and_the_stated_spread() -> None:
    jittery = StepTime(a=10.0, floor=10.0, jitter_cv=0.05)
    plain_s = step_ms(jittery, [], 1, 100) / 1e3
    first, again = StepClock(jittery, 7), StepClock(jittery, 7)
    drawn = np.array([first.step_s([], 1, 100) for _ in range(4000)]) / plain_s
    assert drawn[:5].tolist() == [again.step_s([], 1, 100) / plain_s for _ in range(5)]
    assert drawn.mean() == pytest.approx(1.0, abs=0.005)
    assert drawn.std() == pytest.approx(0.05, rel=0.1)
