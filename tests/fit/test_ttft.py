"""The TTFT law on grids made from known coefficients."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from bench.episode import ToolCall
from bench.fit.ttft import fit_ttft, grid_cells, grid_records, predict_ttft
from bench.record import GRID_POINT, LLMOutcome, LLMRecord, PointKind, cell_name
from makers import make_call, make_facts, make_point, make_run

BUDGET = 8192
TRUTH = {"a": 11.0, "b": 0.045, "c": 1.3, "host": 20.0, "floor": 8.0}
WIDTH_MS = 3.0
DEMO = ([1024, 4096, 12288], [0.0, 0.5, 0.9], 3)
SIGN_OFF = ([256, 512, 1024, 2048, 4096, 8192, 15872], [0.0, 0.5, 0.75, 0.9], 10)


def truth_ms(uncached: float, cached: float) -> float:
    """The law, written out a second time."""
    work = TRUTH["a"] * math.ceil(uncached / BUDGET) + TRUTH["b"] * uncached
    soft = WIDTH_MS * math.log(math.exp(TRUTH["floor"] / WIDTH_MS) + math.exp(work / WIDTH_MS))
    return soft + TRUTH["c"] * uncached * (cached + uncached / 2) / 1e6 + TRUTH["host"]


def a_grid(
    prompts: list[int], hits: list[float], repeats: int, cv: float, seed: int
) -> list[LLMRecord]:
    rng = np.random.default_rng(seed)
    records: list[LLMRecord] = []
    for repeat in range(repeats):
        for tokens in prompts:
            for hit in hits:
                cached = int(tokens * hit) // 16 * 16
                ttft_ms = truth_ms(tokens - cached, cached) * float(rng.lognormal(0, cv))
                records.append(
                    make_call(
                        point=GRID_POINT,
                        episode=len(records),
                        cell=cell_name(tokens, hit, repeat),
                        sent_ns=0,
                        first_delta_ns=round(ttft_ms * 1e6),
                        prompt_tokens=tokens,
                        cached_tokens=cached,
                        output_tokens=8,
                    )
                )
    return records


def test_without_noise_the_coefficients_come_back() -> None:
    law = fit_ttft(a_grid(*SIGN_OFF, cv=0.0, seed=0), "e", BUDGET)
    assert law is not None
    for name in ("a", "b", "c", "host", "floor"):
        assert law.value(name) == pytest.approx(TRUTH[name], rel=0.01), name
    assert law.mape == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_demo_grid_predicts_within_two_per_cent(seed: int) -> None:
    law = fit_ttft(a_grid(*DEMO, cv=0.02, seed=seed), "e", BUDGET)
    assert law is not None
    for tokens in DEMO[0]:
        for hit in DEMO[1]:
            cached = int(tokens * hit) // 16 * 16
            expected_s = truth_ms(tokens - cached, cached) / 1e3
            assert predict_ttft(law, tokens - cached, cached) == pytest.approx(expected_s, rel=0.03)
    assert law.n == 27
    assert law.range["uncached_tokens"][1] == 12288
    assert law.extrapolated(uncached_tokens=20_000)
    assert not law.extrapolated(uncached_tokens=4096, cached_tokens=0)


def test_simultaneous_intervals_hold_the_truth_in_most_campaigns() -> None:
    campaigns, inside = 12, 0
    for seed in range(campaigns):
        records = a_grid(SIGN_OFF[0], SIGN_OFF[1], 5, cv=0.03, seed=seed)
        law = fit_ttft(records, "e", BUDGET, 1 - 0.05 / 5)
        assert law is not None
        merged = dict(TRUTH)
        if law.coefficient("host") is None:  # contained in a, and in the floor
            merged["a"] += merged["host"]
            merged["floor"] += merged["host"]
        held = [
            one.low <= merged[one.name] <= (one.high or math.inf)
            for one in law.coefficients
            if one.low is not None and one.name in merged
        ]
        inside += all(held)
    assert inside >= 9  # of 12 at 95 %: fewer has a probability below 0.3 %


def test_one_chunk_everywhere_cannot_tell_host_from_a() -> None:
    law = fit_ttft(a_grid([512, 2048, 6144], [0.0, 0.5, 0.9], 3, 0.01, 0), "e", BUDGET)
    assert law is not None
    assert law.coefficient("host") is None
    assert "host is contained in a" in law.note


def test_an_unidentified_coefficient_has_no_bounds() -> None:
    # Two prompt lengths hardly tell the quadratic term from the linear one.
    law = fit_ttft(a_grid([512, 1024], [0.0, 0.5], 3, 0.05, 1), "e", BUDGET)
    assert law is not None
    found = law.coefficient("c")
    assert found is not None
    assert (found.low, found.high) == (None, None)


def test_outliers_do_not_carry_the_law_away() -> None:
    records = a_grid(*SIGN_OFF, cv=0.02, seed=4)
    for index in range(0, len(records), 25):  # 4 % hiccups of a second
        late = (records[index].first_delta_ns or 0) + 10**9
        records[index] = msgspec.structs.replace(records[index], first_delta_ns=late)
    law = fit_ttft(records, "e", BUDGET)
    assert law is not None
    assert predict_ttft(law, 4096, 0) * 1e3 == pytest.approx(truth_ms(4096, 0), rel=0.03)


def test_too_few_cells_give_no_law_and_a_seed_always_the_same() -> None:
    assert fit_ttft([], "e", BUDGET) is None
    assert fit_ttft(a_grid([512, 1024], [0.0], 5, 0.02, 0), "e", BUDGET) is None
    records = a_grid(*DEMO, cv=0.02, seed=9)
    assert fit_ttft(records, "e", BUDGET) == fit_ttft(records, "e", BUDGET)


def test_only_answered_cells_of_the_grid_are_samples() -> None:
    records = a_grid([1024], [0.0, 0.5], 2, 0.0, 0)
    good = records[0]
    replace = msgspec.structs.replace
    bad = [
        replace(good, cell="p1024-h0.5-r0-primer"),
        replace(good, cell="", point="u4"),
        replace(good, collapsed=True),
        replace(good, outcome=LLMOutcome.transport_error),
        replace(good, calls=[ToolCall("c", "x", "{}")]),
        replace(good, prompt_tokens=None),
        replace(records[1], cached_tokens=None),  # warm, and the server does not say how warm
    ]
    cold = replace(good, cached_tokens=None)
    grid = make_point(point=GRID_POINT, kind=PointKind.grid)
    run = make_run(make_facts(), [grid], llm=[*bad, *records, cold])
    assert grid_records(run) == [*records, cold]
    cells = grid_cells(run)
    assert [(cell.prompt_tokens, cell.cached_tokens, len(cell.ttft_s)) for cell in cells] == [
        (1024, 0, 3),
        (1024, 512, 2),
    ]
    assert cells[0].engine == "tp4"
