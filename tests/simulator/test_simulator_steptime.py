"""The step-time law gives back the tables that it was fitted to."""

import numpy as np
import pytest

from bench.scenario import StepTime
from bench.simulator.steptime import PERIOD, Jitter, Stretch, softmax_ms, step_ms
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
    first, again, other = Jitter(0.05, 7), Jitter(0.05, 7), Jitter(0.05, 8)
    assert first.sums == again.sums != other.sums
    factors = np.diff(np.array(first.sums))
    assert len(factors) == PERIOD
    assert factors.mean() == pytest.approx(1.0)
    assert factors.std() == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("cv", [0.0, 0.05])
def test_a_stretch_is_the_sum_of_its_steps(cv: float) -> None:
    jitter = Jitter(cv, 3)
    number = 5 * jitter.period + 100
    factors = np.diff(np.array(jitter.sums))
    stretch = Stretch(jitter, number, 7.0, 20.0, 0.5, 40)
    ends = 7.0 + np.cumsum([(20.0 + 0.5 * k) / 1e3 * factors[100 + k] for k in range(40)])
    assert [stretch.end_s(k + 1) for k in range(40)] == pytest.approx(ends.tolist())
    for k in (0, 1, 17, 40):
        assert stretch.ended_by(stretch.end_s(k)) == k
    assert stretch.ended_by(ends[3] - 1e-6) == 3
    assert stretch.ended_by(6.0) == 0
    assert stretch.ended_by(1e9) == 40


def test_a_stretch_is_cut_at_the_end_of_a_step() -> None:
    def cut(at_s: float) -> int:
        stretch = Stretch(Jitter(0.0, 1), 0, 0.0, 1000.0, 0.0, 10)
        stretch.cut(at_s)
        return stretch.steps

    assert [cut(at_s) for at_s in (0.0, 0.5, 3.0, 3.5, 99.0)] == [1, 1, 3, 4, 10]


def test_a_stretch_ends_with_the_table() -> None:
    assert Stretch(Jitter(0.1, 1), PERIOD - 3, 0.0, 1.0, 0.0, 10).steps == 3
