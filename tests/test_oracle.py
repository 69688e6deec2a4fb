"""Known laws in, the same laws out: the simulator's virtual clock feeds the real analysis.

The truth is the step-time law that the records were made with, written out again from
../shared/reference/published.json (h100-70b-fp8-tp4-vllm) plus host overhead.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import numpy as np
import pytest

from bench.episode import Workload
from bench.fit.latency import latency_rows, path_rows
from bench.fit.law import Law
from bench.fit.level import Level, levels_of
from bench.fit.tools import fit_tools, tool_quantile
from bench.fit.tpot import fit_tpot, points_of, predict_tpot
from bench.fit.ttft import fit_ttft, predict_ttft
from bench.record import EpisodeRecord, LLMRecord, PointRecord, ToolRecord
from bench.run import Run
from bench.scenario import Engine, Load
from bench.scenario import Workload as WorkloadPart
from bench.sizing.replay import EpisodeShape, TurnShape, idle_grid, replay
from makers import H100_TP4, make_facts, make_run, make_scenario

STEP = dataclasses.replace(H100_TP4, host=2.0, request=20.0, jitter_cv=0.03)
BUDGET = 8192
ENGINE = Engine(
    name="tp4", step=STEP, kv_tokens=1_330_000, max_num_batched_tokens=BUDGET, max_num_seqs=256
)
PROMPTS = [256, 1024, 2048, 4096, 8192, 12288, 15872]
HITS = [0.0, 0.5, 0.9]
SQL = (math.log(0.05), 0.5)  # lognormal
WEB = (0.2, 3.0, 0.15)  # shifted gamma
MIX = [
    EpisodeShape(
        workload=Workload.react_2,
        weight=1.0,
        system_tokens=1500,
        question_tokens=200,
        turns=[
            TurnShape(call_tokens=30, tools=["sql_query"], observation_tokens=600),
            TurnShape(call_tokens=30, tools=["sql_query", "web_search"], observation_tokens=900),
        ],
        answer_tokens=60,
    ),
    EpisodeShape(
        workload=Workload.react_1,
        weight=1.0,
        system_tokens=5000,
        question_tokens=400,
        turns=[TurnShape(call_tokens=30, tools=["web_search"], observation_tokens=2500)],
        answer_tokens=60,
    ),
]
USERS = (1, 4, 16, 32)


def softmax_ms(one: float, other: float) -> float:
    return 3.0 * math.log(math.exp(one / 3.0) + math.exp(other / 3.0))


def true_ttft_s(prompt: int, cached: int) -> float:
    """Step by step: the engine computes at most BUDGET tokens at once."""
    total_ms, done = STEP.request, cached
    while done < prompt:
        chunk = min(prompt - done, BUDGET)
        total_ms += softmax_ms(STEP.floor, STEP.a + STEP.b * chunk)
        total_ms += STEP.c * chunk * (done + chunk / 2) / 1e6 + STEP.host
        done += chunk
    return total_ms / 1e3


def true_tpot_s(sequences: float, kv_tokens: float) -> float:
    fixed_ms = softmax_ms(STEP.floor, STEP.a) + STEP.host
    return (fixed_ms + STEP.d * sequences + STEP.e * kv_tokens / 1e3) / 1e3


def sql_s(rng: np.random.Generator) -> float:
    return float(rng.lognormal(*SQL))


def web_s(rng: np.random.Generator) -> float:
    return WEB[0] + float(rng.gamma(WEB[1], WEB[2]))


@cache
def ttft_law(seed: int) -> Law:
    records = idle_grid(ENGINE, PROMPTS, HITS, repeats=6, output_tokens=8, seed=seed)
    law = fit_ttft(records, "tp4", BUDGET, confidence=1 - 0.05 / 5)
    assert law is not None
    return law


@cache
def run() -> Run:
    points: list[PointRecord] = []
    episodes: list[EpisodeRecord] = []
    llm: list[LLMRecord] = []
    tools: list[ToolRecord] = []
    laws = {"sql_query": sql_s, "web_search": web_s}
    for users in USERS:
        seconds = 240.0 / users**0.5
        part = replay(ENGINE, MIX, users, 0.0, laws, duration_s=seconds, seed=users)
        assert part.cut == 0
        points.append(part.point)
        episodes += part.episodes
        llm += part.llm
        tools += part.tools
    workload = WorkloadPart(mix={"react_1": 1.0, "react_2": 1.0})
    scenario = make_scenario(ENGINE, workload=workload, load=Load(users=list(USERS)))
    facts = make_facts(scenario, id="oracle")
    return make_run(facts, points, episodes=episodes, llm=llm, tools=tools)


@cache
def levels() -> list[Level]:
    return sorted(levels_of(run()), key=lambda level: level.users)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ttft_law_predicts_each_idle_p50_within_two_per_cent(seed: int) -> None:
    law = ttft_law(seed)
    for prompt in PROMPTS:
        for hit in HITS:
            cached = int(prompt * hit) // 16 * 16
            predicted_s = predict_ttft(law, prompt - cached, cached)
            assert predicted_s == pytest.approx(true_ttft_s(prompt, cached), rel=0.02)


def test_ttft_coefficients_lie_in_simultaneous_intervals() -> None:
    inside = []
    for seed in range(1, 8):
        law = ttft_law(seed)
        host, step = STEP.request, STEP.host
        truth = {"a": STEP.a + step, "b": STEP.b, "c": STEP.c, "host": host}
        truth["floor"] = STEP.floor + step
        if law.coefficient("host") is None:  # contained in a
            truth["a"] += host
            truth["floor"] += host
        known = [one for one in law.coefficients if one.name in truth and one.low is not None]
        assert {"b", "c"} <= {one.name for one in known}
        inside.append(
            all((one.low or 0.0) <= truth[one.name] <= (one.high or math.inf) for one in known)
        )
    # Of 7 campaigns at 95 %, fewer than 5 have a probability of 0.4 %.
    assert sum(inside) >= 5


def test_tpot_law_comes_back_from_load() -> None:
    law = fit_tpot(points_of([run()]), "tp4", confidence=1 - 0.05 / 5)
    assert law is not None
    fixed_ms = softmax_ms(STEP.floor, STEP.a) + STEP.host
    truth = {"c0": fixed_ms, "d": STEP.d, "e": STEP.e, "b": STEP.b, "c": STEP.c}
    for one in law.coefficients:
        if one.low is not None and one.high is not None:
            assert one.low <= truth[one.name] <= one.high, one
    assert any(one.name == "c0" and one.low is not None for one in law.coefficients)
    for sequences in (1, 4, 12):
        truth_s = true_tpot_s(sequences, sequences * 5000)
        assert predict_tpot(law, sequences, sequences * 5000) == pytest.approx(truth_s, rel=0.03)
    assert law.value("b") == pytest.approx(STEP.b, rel=0.15)
    assert law.mape is not None
    assert law.mape < 0.03


def test_tool_laws_come_back_from_all_levels() -> None:
    laws = {law.name: law for law in fit_tools(levels())}
    at = np.array([0.5, 0.95])
    rng = np.random.default_rng(0)
    for name, draw in (("sql_query", sql_s), ("web_search", web_s)):
        law = laws[f"tool.{name}"]
        assert law.accepted
        assert law.n > 300
        truth = np.quantile([draw(rng) for _ in range(100_000)], at)
        assert tool_quantile(law, at) == pytest.approx(truth, rel=0.1)


def test_measured_idle_ttft_is_what_the_grid_law_says() -> None:
    (alone,) = (level for level in levels() if level.users == 1)
    law = ttft_law(1)
    for workload, prompt in ((Workload.react_2, 1700), (Workload.react_1, 5400)):
        first = [one for one in alone.llm if one.turn == 0 and one.workload is workload]
        assert len(first) > 20
        cached = float(np.median([one.cached_tokens or 0 for one in first]))
        measured_s = float(np.median([one.ttft_s or math.nan for one in first]))
        assert measured_s == pytest.approx(predict_ttft(law, prompt - cached, cached), rel=0.02)


def test_parts_of_the_path_are_the_laws_that_made_them() -> None:
    (alone,) = (level for level in levels() if level.users == 1)
    (row,) = (row for row in path_rows(alone) if row.workload == "react_1")
    assert row.parts_s["tools"] == pytest.approx(WEB[0] + WEB[1] * WEB[2], rel=0.1)
    assert row.parts_s["answer_decode"] == pytest.approx(59 * true_tpot_s(1, 7960), rel=0.02)
    assert row.parts_s["call_decode"] == pytest.approx(29 * true_tpot_s(1, 5415), rel=0.02)
    assert row.parts_s["client_wait"] == pytest.approx(0.0, abs=1e-6)
    assert sum(row.parts_s.values()) == pytest.approx(row.total_s)


def test_latency_rows_hold_every_attempt() -> None:
    for level in levels():
        rows = {(row.workload, row.metric): row for row in latency_rows(level)}
        whole = rows["all", "latency_s"]
        assert whole.n + whole.missing == level.attempted
        called = [rows["all", f"ttft_s.{kind}"].n for kind in ("call", "answer")]
        assert sum(called) == len(level.llm)
