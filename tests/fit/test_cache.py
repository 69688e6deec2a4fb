"""The planned hit rate: exact where the prompts are known, None where they are not."""

import pytest

from bench.episode import Task, Workload
from bench.fit.cache import planned_hit_rate
from bench.fit.level import Level, levels_of
from bench.record import EpisodeRecord, LLMRecord
from bench.run import Run
from bench.scenario import Control, Engine
from makers import S, make_call, make_episode, make_facts, make_point, make_run, make_scenario

SHARED, BLOCK = 1600, 16


def run_of(tasks: int, rounds: int = 1, control: Control = Control.scripted) -> Run:
    """Episodes of two turns one after another; question n has 40 + 8 n letters, 4 a token."""
    asked: list[EpisodeRecord] = []
    calls: list[LLMRecord] = []
    for number in range(tasks * rounds):
        start, task = number * S, number % tasks
        first = SHARED + (40 + 8 * task) // 4
        asked.append(make_episode(episode=number, task=f"t{task}", scheduled_ns=start))
        for turn, tokens in enumerate((first, first + 500)):
            sent = start + turn * S // 2
            calls.append(
                make_call(
                    episode=number,
                    turn=turn,
                    workload=Workload.react_1,
                    sent_ns=sent,
                    first_delta_ns=sent + S // 10,
                    done_ns=sent + S // 5,
                    prompt_tokens=tokens,
                )
            )
    scenario = make_scenario(Engine(name="e", kv_tokens=1 << 20, block_size=BLOCK))
    scenario.workload.control = control
    end = tasks * rounds * S
    point = make_point(issued_until_ns=end, ended_ns=end)
    known = {
        f"t{n}": Task(id=f"t{n}", workload=Workload.react_1, question="q" * (40 + 8 * n))
        for n in range(tasks)
    }
    return make_run(make_facts(scenario), [point], episodes=asked, llm=calls, tasks=known)


def level_of(run: Run) -> Level:
    (level,) = levels_of(run)
    return level


def blocks(tokens: float) -> int:
    return int(tokens) // BLOCK * BLOCK


def test_shared_instructions_and_own_history() -> None:
    run = run_of(tasks=10)
    level = level_of(run)
    cached, total = 0, 0
    for call in run.llm:
        tokens = call.prompt_tokens or 0
        total += tokens
        if call.turn == 1:
            cached += blocks(tokens - 500)
        elif call.episode > 0:
            cached += blocks(SHARED)
    assert planned_hit_rate(run, level) == pytest.approx(cached / total, abs=1e-3)


def test_a_task_asked_again_is_cached_whole() -> None:
    once, twice = run_of(tasks=10), run_of(tasks=10, rounds=2)
    first, second = planned_hit_rate(once, level_of(once)), planned_hit_rate(twice, level_of(twice))
    assert first is not None and second is not None
    again = sum(blocks((c.prompt_tokens or 0) - 1) for c in once.llm)
    total = sum(c.prompt_tokens or 0 for c in once.llm)
    assert second == pytest.approx((first + again / total) / 2, abs=1e-3)


def test_what_was_sent_before_the_first_prefill_is_cold() -> None:
    run = run_of(tasks=10)
    for call in run.llm:  # every episode's first turn at the same time
        if call.turn == 0:
            call.sent_ns, call.first_delta_ns = 0, S // 10
    assert planned_hit_rate(run, level_of(run)) == pytest.approx(
        sum(blocks((c.prompt_tokens or 0) - 500) for c in run.llm if c.turn == 1)
        / sum(c.prompt_tokens or 0 for c in run.llm),
        abs=1e-3,
    )


def test_without_prefix_caching_nothing_is_planned_to_hit() -> None:
    run = run_of(tasks=10)
    run.facts.scenario.engine.prefix_caching = False
    assert planned_hit_rate(run, level_of(run)) == 0.0


def test_what_the_plan_does_not_know_is_none() -> None:
    live = run_of(tasks=10, control=Control.live)
    assert planned_hit_rate(live, level_of(live)) is None
    few = run_of(tasks=5)
    assert planned_hit_rate(few, level_of(few)) is None
    rag = run_of(tasks=10)
    for call in rag.llm:
        call.workload = Workload.naive_rag
    assert planned_hit_rate(rag, level_of(rag)) is None
    uneven = run_of(tasks=10)
    for number, call in enumerate(uneven.llm):
        call.prompt_tokens = (call.prompt_tokens or 0) + 97 * (number * 7 % 5)
    assert planned_hit_rate(uneven, level_of(uneven)) is None
    unknown = run_of(tasks=10)
    for call in unknown.llm:
        call.prompt_tokens = None
    assert planned_hit_rate(unknown, level_of(unknown)) is None
