"""Stated times are given back exactly."""

from itertools import pairwise

import pytest

from bench.episode import Workload
from bench.scenario import Engine
from bench.simulator.preset import is_preset, token_offsets_s


def engine() -> Engine:
    return Engine(
        name="seed",
        kv_tokens=20000,
        preset_ttft_ms=[150.0, 180.0, 200.0],
        preset_tpot_ms=10.0,
        preset_synthesis_ms={"react_1": 300.0, "naive_rag": 100.0},
    )


def test_ttft_follows_the_turn_and_tokens_follow_at_the_stated_pace() -> None:
    assert is_preset(engine())
    for turn, ttft_s in enumerate([0.150, 0.180, 0.200, 0.200]):
        offsets = token_offsets_s(engine(), turn, [True] * 3, False, Workload.react_1)
        assert offsets == pytest.approx([ttft_s, ttft_s + 0.010, ttft_s + 0.020])


def test_ttft_is_the_first_delta_that_the_client_sees() -> None:
    offsets = token_offsets_s(engine(), 0, [False, False, True, False, True], False, None)
    assert offsets == pytest.approx([0.150, 0.150, 0.150, 0.160, 0.170])


def test_a_final_answer_ends_at_the_stated_synthesis() -> None:
    offsets = token_offsets_s(engine(), 1, [True] * 13, True, Workload.react_1)
    assert offsets[0] == pytest.approx(0.180)
    assert offsets[-1] == pytest.approx(0.300)
    gaps = [b - a for a, b in pairwise(offsets)]
    assert gaps == pytest.approx([0.010] * 12)


def test_a_synthesis_shorter_than_the_ttft_caps_it() -> None:
    offsets = token_offsets_s(engine(), 0, [True] * 4, True, Workload.naive_rag)
    assert offsets == pytest.approx([0.100] * 4)


def test_one_token_answers_and_unstated_workloads() -> None:
    assert token_offsets_s(engine(), 0, [True], True, Workload.react_1) == pytest.approx([0.3])
    assert token_offsets_s(engine(), 0, [True, True], True, Workload.web)[-1] == pytest.approx(0.16)
