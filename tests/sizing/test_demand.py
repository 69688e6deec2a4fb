"""The mean episode, from levels whose sizes are known."""

from __future__ import annotations

import pytest

from bench.episode import Workload
from bench.fit.level import Level
from bench.record import EpisodeOutcome, EpisodeRecord, LLMOutcome, LLMRecord, ToolRecord
from bench.sizing.demand import MAX_CALLS, Call, Demand, demand_of, why_no_demand
from makers import MS, make_call, make_episode, make_level, make_tool


def level(episodes: int, workload: Workload = Workload.react_1) -> Level:
    """Episodes of two calls: 1,000 tokens cold with 30 out, then 3,000 (2,000 cached) with 90."""
    calls: list[LLMRecord] = []
    tools: list[ToolRecord] = []
    done: list[EpisodeRecord] = []
    sizes = ((1000, 0, 30), (3000, 2000, 90))
    for number in range(episodes):
        for turn, (prompt, cached, output) in enumerate(sizes):
            calls.append(
                make_call(
                    episode=number,
                    turn=turn,
                    prompt_tokens=prompt,
                    cached_tokens=cached,
                    output_tokens=output,
                )
            )
        # Two calls in parallel, 50 and 80 ms: the turn takes 80.
        for index, ms in enumerate((50, 80)):
            tools.append(make_tool(episode=number, call=index, done_ns=ms * MS))
        done.append(make_episode(episode=number, workload=workload))
    return make_level(done, calls, tools)


def test_the_mean_episode() -> None:
    demand = demand_of([level(4), level(6)])
    assert demand is not None
    assert (demand.calls_per_episode, demand.episodes) == (2, 10)
    assert (demand.prompt_tokens, demand.uncached_tokens) == (2000, 1000)
    assert demand.output_tokens == 60
    assert demand.cached_share == pytest.approx(0.5)
    assert demand.tool_s == pytest.approx(0.08)
    # Decoding sequences are seen in proportion to what they decode: 1 to 3 here.
    assert demand.context_tokens == pytest.approx((30 * 1015 + 90 * 3045) / 120)
    assert demand.peak_context_tokens == 2060


def test_a_large_demand_is_thinned_without_bias() -> None:
    """Thinning in time could find the same turn of every episode."""
    demand = demand_of([level(1024)])
    assert demand is not None
    assert len(demand.calls) <= MAX_CALLS
    assert demand.prompt_tokens == pytest.approx(2000, rel=0.02)
    assert demand.calls_per_episode == 2


def test_workloads_are_told_apart() -> None:
    levels = [level(3), level(5, Workload.selection)]
    counts = {
        name: found.episodes if (found := demand_of(levels, name)) else 0
        for name in ("", "all", "react_1", "selection", "web")
    }
    assert counts == {"": 8, "all": 3, "react_1": 3, "selection": 5, "web": 0}


def test_episodes_that_did_not_end_or_lack_a_part_are_left_out() -> None:
    broken, uncounted, endless, cut = level(1), level(1), level(1), level(1)
    broken.llm[1].outcome = LLMOutcome.stream_error
    uncounted.llm[0].output_tokens = None
    endless.tools[0].done_ns = None
    cut.episodes[0].outcome = EpisodeOutcome.cut
    for part in (broken, uncounted, endless, cut):
        assert demand_of([part]) is None
    assert demand_of([]) is None
    found = demand_of([level(3), broken, uncounted, endless, cut])
    assert found is not None
    assert (found.episodes, found.left_out) == (3, 4)


def test_episodes_that_found_no_answer_load_the_engine_too() -> None:
    """A demand of the answered alone would be one of the short ones."""
    limited, unread = level(1), level(1)
    limited.episodes[0].outcome = EpisodeOutcome.iteration_limit
    unread.episodes[0].outcome = EpisodeOutcome.failed
    unread.llm[1].outcome = LLMOutcome.parse_failure
    found = demand_of([limited, unread])
    assert found is not None and found.episodes == 2


def test_unknown_cached_tokens_are_no_demand_and_say_so() -> None:
    """0 would size for prompts that nothing of is cached."""
    silent = level(2)
    for call in silent.llm:
        call.cached_tokens = None
    assert silent.llm[0].uncached_tokens is None
    assert demand_of([silent]) is None
    assert why_no_demand([silent]).startswith("the engine does not report cached tokens")
    for call in silent.llm:
        call.output_tokens = None
    assert why_no_demand([silent]).startswith("the engine reported no token counts")
    assert why_no_demand([]) == "no level that may be believed was measured"


def test_a_demand_without_output_has_its_prompts_context() -> None:
    empty = Demand(
        calls=[Call(uncached=100, cached=0, output=0)], calls_per_episode=1, tool_s=0, episodes=1
    )
    assert empty.context_tokens == 100
