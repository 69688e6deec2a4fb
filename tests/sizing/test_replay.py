"""The virtual clock: known laws in, the same laws out; the same work for every engine."""

import msgspec
import numpy as np
import pytest

from bench.episode import Purpose, Workload
from bench.errors import AnalysisError
from bench.record import LLMRecord
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.replay import EpisodeShape, Replayed, TurnShape, idle_grid, replay
from bench.sizing.shapes import Streams
from makers import H100_TP2

LAW = StepTime(a=9.51, floor=6.23, b=0.04537, c=1.26, d=0.0357, e=0.0149, host=2, request=30)
MIX = [
    EpisodeShape(
        workload=Workload.react_2,
        weight=2,
        system_tokens=800,
        question_tokens=60,
        turns=[
            TurnShape(call_tokens=30, tools=["sql"], observation_tokens=100),
            TurnShape(call_tokens=30, tools=["vector"], observation_tokens=500),
        ],
        answer_tokens=60,
    ),
    EpisodeShape(
        workload=Workload.parallel,
        weight=1,
        system_tokens=800,
        question_tokens=60,
        turns=[TurnShape(call_tokens=50, tools=["sql", "vector"], observation_tokens=600)],
        answer_tokens=60,
    ),
]


def sql_s(rng: np.random.Generator) -> float:
    return float(rng.lognormal(np.log(0.05), 0.3))


def vector_s(rng: np.random.Generator) -> float:
    return 0.02


TOOLS = {"sql": sql_s, "vector": vector_s}


def engine(**step: float) -> Engine:
    law = msgspec.convert({**msgspec.to_builtins(LAW), **step}, StepTime)
    return Engine(name="virtual", kv_tokens=1_330_000, step=law)


def run(users: int = 4, duration_s: float = 30.0, seed: int = 5, **step: float) -> Replayed:
    return replay(engine(**step), MIX, users, 0.0, TOOLS, duration_s, seed)


def key(record: LLMRecord) -> tuple[int, int, int]:
    return record.user, record.episode, record.turn


def test_every_member_ends_and_every_turn_is_recorded() -> None:
    result = run()
    members = [e for e in result.episodes if e.scheduled_ns < 30e9]
    assert result.cut == 0
    assert result.point.ended_ns is not None
    assert all(e.done_ns is not None and e.done_ns <= result.point.ended_ns for e in members)
    assert len({(e.user, e.episode) for e in result.episodes}) == len(result.episodes)
    for episode in result.episodes:
        turns = [r for r in result.llm if (r.user, r.episode) == (episode.user, episode.episode)]
        assert [r.turn for r in turns] == list(range(episode.turns))
        assert [r.final for r in turns] == [False] * (len(turns) - 1) + [True]
        assert turns[-1].done_ns == episode.done_ns
    assert all(r.sent_ns is not None and r.done_ns is not None for r in result.llm)


def test_the_prompt_grows_and_only_what_is_new_is_computed() -> None:
    result = run(users=1)
    grown = {r.turn: r for r in result.llm if r.workload is Workload.react_2 and r.episode > 2}
    assert [grown[turn].prompt_tokens for turn in range(3)] == [860, 990, 1520]
    assert grown[0].cached_tokens == 800  # the shared system prompt
    assert grown[1].cached_tokens == 880  # 860 + 30 - 1 computed, in full blocks
    assert grown[2].uncached_tokens == 1520 - 1008


def test_tool_waits_are_the_law_and_parallel_calls_overlap() -> None:
    result = run()
    waits = [t.latency_s for t in result.tools if t.tool == "sql"]
    assert np.median(np.array(waits, dtype=float)) == pytest.approx(0.05, rel=0.15)
    for record in result.tools:
        if record.tool == "vector":
            assert record.latency_s == pytest.approx(0.02)
    for first in (t for t in result.tools if t.call == 0):
        together = [
            t
            for t in result.tools
            if (t.user, t.episode, t.turn) == (first.user, first.episode, first.turn)
        ]
        assert len({t.sent_ns for t in together}) == 1
        back_ns = max(t.done_ns or 0 for t in together)
        (after,) = [r for r in result.llm if key(r) == (first.user, first.episode, first.turn + 1)]
        assert after.sent_ns == back_ns


def test_two_engines_see_the_same_work_and_a_seed_gives_the_same_run() -> None:
    slow, fast = run(b=0.1), run()
    drawn_fast = {(t.user, t.episode, t.turn, t.call): t.latency_s for t in fast.tools}
    drawn_slow = {(t.user, t.episode, t.turn, t.call): t.latency_s for t in slow.tools}
    both = set(drawn_fast) & set(drawn_slow)
    assert len(both) > 20
    assert all(drawn_fast[at] == pytest.approx(drawn_slow[at]) for at in both)
    kinds = {(e.user, e.episode): e.workload for e in fast.episodes}
    assert all(
        e.workload is kinds[(e.user, e.episode)]
        for e in slow.episodes
        if (e.user, e.episode) in kinds
    )
    first = Streams(5).at(0, 0, 0, Purpose.task)
    assert (first.random() < 2 / 3) == (kinds[(0, 0)] is Workload.react_2)
    again = run()
    assert msgspec.json.encode(again) == msgspec.json.encode(fast)


def test_load_makes_ttft_and_tpot_longer() -> None:
    alone, crowd = run(users=1, duration_s=20), run(users=48, duration_s=20)

    def mean(result: Replayed, metric: str) -> float:
        return float(np.mean([getattr(r, metric) for r in result.llm]))

    assert mean(crowd, "ttft_s") > 1.2 * mean(alone, "ttft_s")
    assert mean(crowd, "tpot_s") > 1.2 * mean(alone, "tpot_s")


def test_think_time_thins_the_load() -> None:
    busy = replay(engine(), MIX, 4, 0.0, TOOLS, 30.0, 1)
    idle = replay(engine(), MIX, 4, 10.0, TOOLS, 30.0, 1)
    assert len(idle.episodes) < len(busy.episodes) / 2


def test_what_does_not_fit_is_refused() -> None:
    small = Engine(name="small", kv_tokens=1024, max_model_len=1024, step=LAW)
    with pytest.raises(
        AnalysisError, match=r"workload=react_2: a call of 1520 .*; plan fewer tokens"
    ):
        replay(small, MIX, 1, 0.0, TOOLS, 1.0, 1)
    with pytest.raises(AnalysisError, match=r"prompt_tokens=2000: .*max_model_len=1024"):
        idle_grid(small, [512, 2000], [0.0], 1, 8, 1)
    with pytest.raises(AnalysisError, match="at least one token"):
        idle_grid(small, [512], [0.0], 1, 0, 1)


def test_the_idle_grid_gives_back_the_law_exactly_without_jitter() -> None:
    records = idle_grid(engine(), [256, 1024, 4096, 12000], [0.0, 0.5, 0.9], 2, 8, 1)
    assert len(records) == 24
    assert records[0].cell == "p256-h0-r0"
    for record in records:
        assert record.ttft_s is not None and record.tpot_s is not None
        assert record.prompt_tokens is not None and record.cached_tokens is not None
        hit = float(record.cell.split("-")[1][1:])
        assert record.cached_tokens == pytest.approx(hit * record.prompt_tokens, abs=16)
        want_s, done = LAW.request / 1e3, record.cached_tokens
        while done < record.prompt_tokens:  # one step per chunk of the token budget
            chunk = min(8192, record.prompt_tokens - done)
            want_s += step_ms(LAW, [(chunk, done)], 0, 0) / 1e3
            done += chunk
        assert record.ttft_s == pytest.approx(want_s, rel=1e-6)
        context = record.prompt_tokens + 3  # the mean of 7 decode steps
        assert record.tpot_s == pytest.approx(step_ms(LAW, [], 1, context) / 1e3, rel=1e-3)


def test_coefficients_can_be_recovered_from_a_jittery_grid() -> None:
    records = idle_grid(engine(jitter_cv=0.03, c=0.0), [2048, 4096, 6144, 8000], [0.0], 30, 2, 3)
    tokens = np.array([r.uncached_tokens for r in records], dtype=float)
    ttft_ms = np.array([r.ttft_s for r in records], dtype=float) * 1e3
    slope, base = np.polyfit(tokens, ttft_ms, 1)
    assert slope == pytest.approx(LAW.b, rel=0.05)
    assert base == pytest.approx(LAW.a + LAW.host + LAW.request, abs=6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_cliff_five_per_cent_fewer_blocks_double_the_tail_of_ttft(seed: int) -> None:
    """The edge: the fewest blocks with which 32 users of 2,000 + 1,000 tokens do not wait."""
    shape = EpisodeShape(
        workload=Workload.react_1,
        weight=1,
        system_tokens=0,
        question_tokens=2000,
        turns=[],
        answer_tokens=1000,
    )

    def ttft_s_p99(kv_tokens: float) -> float:
        step = msgspec.convert({**msgspec.to_builtins(H100_TP2), "jitter_cv": 0.03}, StepTime)
        asked = Engine(name="edge", kv_tokens=int(kv_tokens), step=step)
        result = replay(asked, [shape], 32, 0.0, {}, 300.0, seed, stagger_s=30.0)
        assert result.cut == 0
        return float(np.quantile([r.ttft_s for r in result.llm if r.ttft_s is not None], 0.99))

    whole = 32 * 3000  # tokens when all are at their longest
    plenty_s = ttft_s_p99(2 * whole)
    edge = min(
        share for share in np.arange(0.84, 0.92, 0.01) if ttft_s_p99(share * whole) < 1.1 * plenty_s
    )
    assert ttft_s_p99(0.95 * edge * whole) > 2 * ttft_s_p99(edge * whole)
