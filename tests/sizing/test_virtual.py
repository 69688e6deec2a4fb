"""The virtual clock: open loops, several replicas, routing, KV blocks during tool waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from bench.episode import Purpose, Workload
from bench.scenario import Engine
from bench.sizing.replay import replay_open
from bench.sizing.shapes import Content, EpisodeShape, Streams, TurnShape
from bench.sizing.virtual import Closed, Open, Routing, Simulated, simulate
from makers import H100_TP4

SHAPE = EpisodeShape(
    workload=Workload.react_2,
    weight=1,
    system_tokens=800,
    question_tokens=200,
    turns=[TurnShape(call_tokens=40, tools=["tool"], observation_tokens=800)] * 2,
    answer_tokens=120,
)


def tool_s(rng: np.random.Generator) -> float:
    return float(rng.lognormal(-1, 0.5))


def engine(kv_tokens: int = 1_330_000, **changes: Any) -> Engine:
    return Engine(name="virtual", kv_tokens=kv_tokens, step=H100_TP4, **changes)


def run(
    load: Closed | Open,
    asked: Engine | None = None,
    replicas: int = 1,
    routing: Routing = Routing.session,
    duration_s: float = 60.0,
    seed: int = 1,
) -> Simulated:
    return simulate(
        asked or engine(), [SHAPE], load, {"tool": tool_s}, duration_s, seed, replicas, routing
    )


def hit_rate(result: Simulated) -> float:
    return result.prefix_hits / result.prefix_queries


def ttft_s(result: Simulated) -> float:
    return float(np.mean([t.first_s - t.sent_s for e in result.episodes for t in e.turns]))


def test_an_open_loop_keeps_its_rate_whatever_the_engine_does() -> None:
    result = run(Open(episodes_per_s=4.0), duration_s=200.0)
    members = [e for e in result.episodes if e.scheduled_s < 200.0]
    assert result.cut == 0
    assert len(members) == pytest.approx(800, abs=4 * 800**0.5)
    slow = run(Open(episodes_per_s=4.0), engine(max_num_seqs=2), duration_s=20.0)
    fast = run(Open(episodes_per_s=4.0), duration_s=20.0)
    starts = [
        sorted((e.user, e.scheduled_s) for e in one.episodes if e.scheduled_s < 20.0)
        for one in (slow, fast)
    ]
    assert starts[0] == starts[1]
    assert ttft_s(slow) > 2 * ttft_s(fast)


def test_an_overloaded_open_loop_is_cut_at_its_limit() -> None:
    result = run(Open(episodes_per_s=30.0), engine(max_num_seqs=1), duration_s=3.0)
    assert result.cut > 0


def test_records_of_an_open_loop() -> None:
    records = replay_open(engine(), [SHAPE], 3.0, {"tool": tool_s}, 30.0, 1)
    assert records.point.point == "r3"
    assert len(records.llm) == 3 * len(records.episodes)
    assert {one.episode for one in records.episodes} == {0}


def test_a_session_stays_with_its_replica_and_the_others_spread() -> None:
    replicas: dict[Routing, defaultdict[int, set[int]]] = {}
    for routing in Routing:
        result = run(Closed(users=12), replicas=3, routing=routing)
        seen: defaultdict[int, set[int]] = defaultdict(set)
        counts: Counter[int] = Counter()
        for episode in result.episodes:
            for turn in episode.turns:
                seen[episode.user].add(turn.replica)
                counts[turn.replica] += 1
        replicas[routing] = seen
        assert set(counts) == {0, 1, 2}
        assert max(counts.values()) < 1.5 * min(counts.values())
    assert all(len(one) == 1 for one in replicas[Routing.session].values())
    assert all(len(one) == 3 for one in replicas[Routing.round_robin].values())


def test_session_affine_routing_keeps_the_prefix_cache() -> None:
    by_routing = {
        routing: run(Closed(users=32), replicas=4, routing=routing) for routing in Routing
    }
    affine = by_routing[Routing.session]
    for routing in (Routing.round_robin, Routing.least_loaded):
        assert hit_rate(affine) > hit_rate(by_routing[routing]) + 0.1
        assert ttft_s(affine) < ttft_s(by_routing[routing])


def test_two_replicas_serve_what_one_cannot() -> None:
    one = run(Closed(users=64), engine(max_num_seqs=16))
    two = run(Closed(users=64), engine(max_num_seqs=16), replicas=2)
    assert ttft_s(two) < ttft_s(one) / 2


def test_contexts_idle_in_the_cache_during_tool_waits_until_room_is_needed() -> None:
    """32 users of 2,700 tokens at the end, few of them at the engine at any time."""
    roomy, tight = run(Closed(users=32)), run(Closed(users=32), engine(40_000))
    assert hit_rate(roomy) > hit_rate(tight) + 0.1
    assert hit_rate(tight) > 0.3  # the shared system prompt at least
    assert roomy.preemptions == 0


def test_streams_are_keyed_not_ordered() -> None:
    streams = Streams(7)
    first = streams.at(3, 2, 1, Purpose.tool_delay).random(5).tolist()
    streams.at(3, 2, 2, Purpose.tool_delay).random(100)
    assert streams.at(3, 2, 1, Purpose.tool_delay).random(5).tolist() == first
    assert Streams(7).at(3, 2, 1, Purpose.tool_delay).random(5).tolist() == first
    others = [
        streams.at(3, 2, 1, Purpose.think).random(),
        streams.at(2, 3, 1, Purpose.tool_delay).random(),
        Streams(8).at(3, 2, 1, Purpose.tool_delay).random(),
    ]
    assert len({first[0], *others}) == 4
    many = [streams.at(user, 0, 0, Purpose.task).random() for user in range(4000)]
    assert np.mean(many) == pytest.approx(0.5, abs=0.02)
    assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 0.05


def test_contents_share_the_system_prompt_only() -> None:
    one, other, later = Content(10, 1, 0), Content(10, 2, 0), Content(10, 1, 1)
    assert [one[block] for block in range(10)] == [other[block] for block in range(10)]
    own = [content[block] for content in (one, other, later) for block in range(10, 5000)]
    assert len(set(own)) == len(own)
