"""The closed network against hand computations and against measured rows of NVIDIA NIM."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.episode import Workload
from bench.errors import AnalysisError
from bench.fit.level import Level
from bench.scenario import Engine, StepTime
from bench.sizing.bounds import bounds
from bench.sizing.demand import Call, Demand, demand_of
from bench.sizing.network import Network, has_coefficients, prefill_work
from bench.sizing.replay import EpisodeShape, Replayed, TurnShape, replay
from makers import H100_TP2, H100_TP4, make_level, read_published


def engine(step: StepTime, budget: int = 8192) -> Engine:
    return Engine(name="x", kv_tokens=444_000, max_num_batched_tokens=budget, step=step)


def demand(
    uncached: int = 500, cached: int = 1500, output: int = 40, calls: float = 3, tool_s: float = 0.3
) -> Demand:
    one = Call(uncached=uncached, cached=cached, output=output)
    return Demand(calls=[one], calls_per_episode=calls, tool_s=tool_s, episodes=1)


def softmax(first: float, second: float) -> float:
    return 3 * math.log(math.exp(first / 3) + math.exp(second / 3))


def test_one_user_by_hand() -> None:
    """Alone, a user waits for no one: own prefill, o - 1 idle decode steps, tools."""
    state = Network(engine(H100_TP2), demand()).solve(1)
    prefill_ms = softmax(15.87, 12.05 + 0.06847 * 500) + 2.678 * 500 * (1500 + 250) / 1e6
    step_ms = softmax(15.87, 12.05) + 0.034 + 0.0292 * 2.02
    assert state.ttft_ms == pytest.approx(prefill_ms, rel=1e-6)
    assert state.itl_ms == pytest.approx(step_ms, rel=1e-6)
    assert state.latency_ms == pytest.approx(3 * (prefill_ms + 39 * step_ms) + 300, rel=1e-6)
    assert state.episodes_per_s == pytest.approx(1e3 / state.latency_ms, rel=1e-6)


def test_own_prefill_is_cut_into_chunks() -> None:
    calls = [Call(uncached=5000, cached=100, output=1)]
    whole = prefill_work(H100_TP2, calls, 8192)
    cut = prefill_work(H100_TP2, calls, 2048)
    assert (whole.chunks, cut.chunks) == (1, 3)
    assert cut.own_ms > whole.own_ms  # two more steps, each with its fixed part
    # What is added to the steps of others differs by softmax alone: the pairs are the same.
    assert cut.added_ms == pytest.approx(whole.added_ms, rel=0.05)


def test_a_prefill_hidden_under_the_weights_adds_little() -> None:
    """Below the floor, tokens are nearly free beside a decode step."""
    tiny = prefill_work(H100_TP2, [Call(uncached=16, cached=2000, output=1)], 8192)
    assert tiny.added_ms < 16 * H100_TP2.b
    assert tiny.own_ms == pytest.approx(softmax(15.87, 12.05 + 16 * 0.06847), rel=0.01)


def test_a_prompt_found_whole_in_the_cache_still_computes_one_token() -> None:
    found = prefill_work(H100_TP2, [Call(uncached=0, cached=2000, output=1)], 8192)
    assert found.chunks == 1
    assert found.own_ms == pytest.approx(softmax(15.87, 12.05 + 0.06847) + 2.678 * 2000 / 1e6)


def test_own_steps_last_longer_beside_decoding_sequences() -> None:
    asked = demand(uncached=5000)
    state = Network(engine(H100_TP2, budget=2048), asked).solve(32)
    work = prefill_work(H100_TP2, asked.calls, 2048)
    growth_ms = H100_TP2.d + H100_TP2.e * asked.context_tokens / 1e3
    beside_ms = work.chunks * growth_ms * state.decoding * 31 / 32
    assert beside_ms > 1
    assert state.ttft_ms == pytest.approx(state.wait_ms + work.own_ms + beside_ms, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    uncached=st.integers(1, 6000),
    cached=st.integers(0, 8000),
    output=st.integers(1, 400),
    calls=st.floats(1, 4),
    tool_s=st.floats(0, 3),
    think_s=st.floats(0, 10),
    users=st.integers(1, 400),
)
def test_littles_law_and_growth_with_users(
    uncached: int,
    cached: int,
    output: int,
    calls: float,
    tool_s: float,
    think_s: float,
    users: int,
) -> None:
    network = Network(engine(H100_TP2), demand(uncached, cached, output, calls, tool_s), think_s)
    state, more = network.solve(users), network.solve(users + 1)
    cycle_s = think_s + state.latency_ms / 1e3
    assert state.episodes_per_s * cycle_s == pytest.approx(users, rel=1e-3)
    assert 0 < state.running <= users * (1 + 1e-3)
    assert more.ttft_ms >= state.ttft_ms * (1 - 1e-6)
    assert more.itl_ms >= state.itl_ms * (1 - 1e-6)
    assert more.latency_ms >= state.latency_ms * (1 - 1e-6)


@pytest.mark.parametrize("users", [1, 8, 32, 128])
def test_four_gpus_are_faster_than_two(users: int) -> None:
    two, four = (Network(engine(step), demand()).solve(users) for step in (H100_TP2, H100_TP4))
    assert four.ttft_ms < two.ttft_ms
    assert four.itl_ms < two.itl_ms
    assert four.episodes_per_s > two.episodes_per_s


def test_a_part_of_the_demand_sees_the_same_engine() -> None:
    whole = demand()
    network = Network(engine(H100_TP2), whole)
    state = network.solve(16)
    ttft_s, latency_s = network.times(state, whole)
    assert ttft_s == pytest.approx(state.ttft_ms / 1e3, rel=1e-3)
    assert latency_s == pytest.approx(state.latency_ms / 1e3, rel=1e-3)
    longer = network.times(state, demand(uncached=2000))
    assert longer[0] > ttft_s


def test_tools_and_thinking_take_load_off_the_engine() -> None:
    busy = Network(engine(H100_TP2), demand(tool_s=0.0)).solve(16)
    waiting = Network(engine(H100_TP2), demand(tool_s=5.0)).solve(16)
    thinking = Network(engine(H100_TP2), demand(tool_s=0.0), think_s=5.0).solve(16)
    assert waiting.ttft_ms < busy.ttft_ms
    assert thinking.itl_ms == pytest.approx(waiting.itl_ms, rel=1e-6)
    assert thinking.latency_ms == pytest.approx(waiting.latency_ms - 5000, rel=1e-4)


def test_an_engine_without_coefficients_predicts_nothing() -> None:
    assert not has_coefficients(StepTime())
    with pytest.raises(AnalysisError, match="no step-time coefficients"):
        Network(engine(StepTime()), demand())


def test_no_users_is_an_error() -> None:
    with pytest.raises(AnalysisError, match="users=0"):
        Network(engine(H100_TP2), demand()).solve(0)


@pytest.mark.parametrize(("step", "kv_tokens"), [(H100_TP2, 444_000), (H100_TP4, 1_330_000)])
@pytest.mark.parametrize("users", [1, 8, 32])
def test_the_network_agrees_with_the_scheduler_it_stands_for(
    step: StepTime, kv_tokens: int, users: int
) -> None:
    """Mean TTFT, TPOT and latency of 60 kinds of episodes replayed on a virtual clock."""
    tested = Engine(name="x", kv_tokens=kv_tokens, step=step)
    found = replay(tested, varied_mix(), users, 0.0, {"sql_query": slow_tool}, 60.0, 1)
    level = settled_level(found)
    asked = demand_of([level])
    assert asked is not None
    state = Network(tested, asked).solve(users)
    ttft_s = np.mean([call.ttft_s for call in level.llm if call.ttft_s is not None])
    tpot_s = np.mean([call.tpot_s for call in level.llm if call.tpot_s is not None])
    latency_s = np.mean([e.latency_s for e in level.episodes if e.latency_s is not None])
    assert state.ttft_ms / 1e3 == pytest.approx(ttft_s, rel=0.10)
    assert state.itl_ms / 1e3 == pytest.approx(tpot_s, rel=0.05)
    assert state.latency_ms / 1e3 == pytest.approx(latency_s, rel=0.05)


def varied_mix() -> list[EpisodeShape]:
    """Lengths of every kind: equal ones would let the users fall into step."""
    rng = np.random.default_rng(0)
    return [
        EpisodeShape(
            workload=Workload.react_2,
            weight=1.0,
            system_tokens=800,
            question_tokens=int(rng.integers(30, 100)),
            turns=[
                TurnShape(
                    call_tokens=int(rng.integers(20, 45)),
                    tools=["sql_query"],
                    observation_tokens=int(rng.integers(100, 700)),
                )
                for _ in range(int(rng.integers(1, 4)))
            ],
            answer_tokens=int(rng.integers(60, 200)),
        )
        for _ in range(60)
    ]


def slow_tool(rng: np.random.Generator) -> float:
    return float(rng.lognormal(np.log(0.2), 0.8))


def settled_level(found: Replayed) -> Level:
    """Members of the last 50 of 60 seconds."""
    members = {
        (episode.user, episode.episode): episode
        for episode in found.episodes
        if 10e9 < episode.scheduled_ns < 60e9
    }
    return make_level(
        list(members.values()),
        [call for call in found.llm if (call.user, call.episode) in members],
        [tool for tool in found.tools if (tool.user, tool.episode) in members],
        engine="x",
        point=found.point,
        control="scripted",
        start_ns=int(10e9),
        end_ns=int(60e9),
        warmup_s=10.0,
    )


def test_measured_nim_rows_below_the_kv_cliff() -> None:
    """TensorRT-LLM, 70B FP8, TP=2, 5,000 in, 500 out: ITL and throughput within 5 %.

    TTFT comes out 12 to 27 % short, as in the methods' own trial of this law (the publisher's
    window is not known); it is held to 30 %, so that a wrong law shows.
    """
    reference = read_published()
    rows = {row[0]: row[1:] for row in reference["step_time_profiles"]["rows"]}
    names = ("a", "floor", "b", "c", "d", "e")
    step = StepTime(**dict(zip(names, rows["h100-70b-fp8-tp2-trtllm"], strict=True)))
    asked = demand(uncached=5000, cached=0, output=500, calls=1, tool_s=0)
    network = Network(engine(step), asked)
    cliff = bounds(engine(step), asked.peak_context_tokens).running
    compared = 0
    for users, ttft_ms, itl_ms, output_tokens_per_s in reference["nim_1_8_0"]["rows"]:
        if users > cliff:
            continue
        state = network.solve(users)
        assert state.itl_ms == pytest.approx(itl_ms, rel=0.05)
        assert state.output_tokens_per_s == pytest.approx(output_tokens_per_s, rel=0.05)
        assert state.ttft_ms == pytest.approx(ttft_ms, rel=0.3)
        compared += 1
    assert compared == 4
