"""Continuous batching: conserved tokens, first come first served, every request ends."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from bench.scenario import Engine, StepTime
from bench.simulator.scheduler import Request, Scheduler, Tokens
from bench.simulator.steptime import step_ms

LAW = StepTime(a=10, floor=6, b=0.05, c=1.5, d=0.03, e=0.02)


def engine(
    kv_tokens: int = 64_000,
    max_num_seqs: int = 256,
    budget: int = 2048,
    max_model_len: int = 4096,
    step: StepTime = LAW,
) -> Engine:
    return Engine(
        name="test",
        kv_tokens=kv_tokens,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        max_model_len=max_model_len,
        step=step,
    )


def request(id: int, prompt: int, output: int, hashes: list[int] | None = None) -> Request:
    return Request(
        id=id,
        prompt_tokens=prompt,
        output_tokens=output,
        max_tokens=output,
        hashes=hashes or [],
    )


def drain(scheduler: Scheduler) -> list[Tokens]:
    events: list[Tokens] = []
    while (next_s := scheduler.next_s()) is not None:
        events += scheduler.advance(next_s)
        assert len(events) < 100_000
    return events


def test_one_request_takes_one_prefill_step_and_a_step_a_token() -> None:
    scheduler = Scheduler(engine(), 1)
    scheduler.add(request(1, 1000, 3), 5.0)
    events = drain(scheduler)
    assert [event.finished for event in events] == [False, False, True]
    prefill_s = step_ms(LAW, [(1000, 0)], 0, 0) / 1e3
    assert events[0].at_s == pytest.approx(5.0 + prefill_s)
    assert events[1].at_s - events[0].at_s == pytest.approx(step_ms(LAW, [], 1, 1000) / 1e3)
    assert scheduler.running == scheduler.waiting == 0
    assert scheduler.blocks.used == 0


def test_a_long_prompt_is_prefilled_in_chunks_beside_decoding_ones() -> None:
    scheduler = Scheduler(engine(budget=512), 1)
    scheduler.add(request(1, 16, 50), 0.0)
    scheduler.advance(0.02)  # 1 decodes now
    scheduler.add(request(2, 1500, 2), 0.02)
    events = drain(scheduler)
    first_of_2 = next(event.at_s for event in events if event.id == 2)
    between = [event for event in events if event.id == 1 and 0.02 < event.at_s < first_of_2]
    assert len(between) >= 3  # three chunks of 511, and 1 got its token in each of those steps


def test_the_request_overhead_delays_admission() -> None:
    scheduler = Scheduler(engine(step=StepTime(a=10, floor=0, request=30)), 1)
    scheduler.add(request(1, 100, 1), 0.0)
    assert scheduler.advance(0.029) == []
    assert scheduler.running == 0
    (event,) = drain(scheduler)
    assert event.admitted_s == pytest.approx(0.030)


def test_who_came_after_the_step_began_waits_for_the_next_one() -> None:
    scheduler = Scheduler(engine(), 1)
    scheduler.add(request(1, 2000, 1), 0.0)
    scheduler.advance(0.001)
    scheduler.add(request(2, 10, 1), 0.001)
    first, second = drain(scheduler)
    assert (first.id, second.id) == (1, 2)
    assert second.admitted_s == first.at_s


def test_late_calls_to_advance_change_no_time() -> None:
    times = []
    for pause_s in (0.001, 0.05, 10.0):
        scheduler = Scheduler(engine(), 3)
        for id in range(5):
            scheduler.add(request(id, 700, 20), 0.0)
        events: list[Tokens] = []
        now_s = 0.0
        while scheduler.next_s() is not None:
            now_s += pause_s
            events += scheduler.advance(now_s)
        times.append([(event.id, event.at_s) for event in events])
    assert times[0] == times[1] == times[2]


def test_the_next_turn_finds_prompt_and_output_of_the_last_one() -> None:
    scheduler = Scheduler(engine(), 1)
    hashes = [hash((1, block)) for block in range(100)]
    scheduler.add(request(1, 800, 33, hashes), 0.0)
    cold = drain(scheduler)[0]
    scheduler.add(request(2, 900, 5, hashes), 10.0)
    warm = drain(scheduler)[0]
    assert cold.cached_tokens == 0
    assert warm.cached_tokens == 832  # 800 + 33, but the last token was never computed
    assert warm.at_s - 10.0 < cold.at_s / 2
    assert scheduler.prefix_queries == 1700
    assert scheduler.prefix_hits == 832


def test_over_long_prompts_and_impossible_requests_are_refused() -> None:
    scheduler = Scheduler(engine(max_model_len=1000), 1)
    assert "maximum context length is 1000" in scheduler.refusal(990, 11)
    assert scheduler.refusal(990, 10) == ""
    assert scheduler.refusal(0, 10)
    with pytest.raises(ValueError, match="maximum context length"):
        scheduler.add(request(1, 990, 11), 0.0)


def test_full_memory_makes_the_next_one_wait_not_preempt() -> None:
    scheduler = Scheduler(engine(kv_tokens=4096), 1)
    scheduler.add(request(1, 3000, 10), 0.0)
    scheduler.add(request(2, 3000, 10), 0.0)
    scheduler.advance(0.1)
    assert (scheduler.running, scheduler.waiting) == (1, 1)
    assert 0.7 < scheduler.kv_usage <= 1
    events = drain(scheduler)
    assert sum(event.finished for event in events) == 2
    assert scheduler.preemptions == 0


def test_a_cancelled_request_frees_its_blocks_waiting_or_running() -> None:
    scheduler = Scheduler(engine(max_num_seqs=1), 1)
    scheduler.add(request(1, 1000, 500), 0.0)
    scheduler.add(request(2, 1000, 500), 0.0)
    scheduler.advance(0.5)
    assert scheduler.blocks.used > 0
    assert scheduler.cancel(2)
    assert scheduler.cancel(1)
    assert not scheduler.cancel(1)
    assert scheduler.blocks.used == 0
    assert drain(scheduler) == []


def test_a_sequence_takes_blocks_as_it_grows() -> None:
    scheduler = Scheduler(engine(), 1)
    scheduler.add(request(1, 100, 400), 0.0)
    scheduler.advance(0.5)
    early = scheduler.blocks.used
    scheduler.advance(2.0)
    assert 7 < early < scheduler.blocks.used < 32


def test_the_last_admitted_is_preempted_and_computes_again() -> None:
    scheduler = Scheduler(engine(kv_tokens=1600, max_model_len=1600), 1)
    for id in range(2):
        scheduler.add(request(id, 700, 300), 0.0)  # together 2000 tokens of 1600
    events = drain(scheduler)
    assert scheduler.preemptions > 0
    ends = {event.id: event.at_s for event in events if event.finished}
    assert ends[0] < ends[1]
    for id in range(2):
        times = [event.at_s for event in events if event.id == id]
        assert len(times) == 300
        gaps = [after - before for before, after in pairwise(times)]
        assert (max(gaps) > 5 * min(gaps)) == (id == 1)  # only the second one was held up
    assert scheduler.prefix_queries == 1400  # a return from preemption asks no second time


def test_a_preempted_one_finds_its_own_blocks_unless_they_were_needed() -> None:
    hashes = [hash((7, block)) for block in range(62)]
    scheduler = Scheduler(engine(kv_tokens=1600, max_model_len=1600), 1)
    scheduler.add(request(0, 700, 300), 0.0)
    scheduler.add(request(1, 700, 300, hashes), 0.0)
    steps_with = len(drain(scheduler)) and scheduler.steps
    plain = Scheduler(engine(kv_tokens=1600, max_model_len=1600), 1)
    plain.add(request(0, 700, 300), 0.0)
    plain.add(request(1, 700, 300), 0.0)
    drain(plain)
    assert scheduler.blocks.used == plain.blocks.used == 0
    assert steps_with <= plain.steps


def test_a_request_added_at_the_end_of_a_step_joins_the_next_one() -> None:
    scheduler = Scheduler(engine(), 1)
    scheduler.add(request(0, 100, 50), 0.0)
    first_s = scheduler.advance(1.0)[9].at_s
    scheduler = Scheduler(engine(), 1)
    scheduler.add(request(0, 100, 50), 0.0)
    scheduler.advance(first_s)  # the eleventh step begins
    scheduler.add(request(1, 100, 1), first_s)
    events = drain(scheduler)
    eleventh_s = next(event.at_s for event in events if event.id == 0)
    assert next(event for event in events if event.id == 1).admitted_s == eleventh_s


class Work(NamedTuple):
    arrived_s: float
    prompt: int
    output: int
    chat: int
    cancel: bool


def random_work(random: Random) -> list[Work]:
    spread_s = random.choice((0.1, 2.0))
    return sorted(
        Work(
            random.random() * spread_s,
            random.randint(1, 500),
            random.choice((1, random.randint(1, 200), random.randint(1, 200))),
            random.randint(0, 5),
            random.random() < 0.05,
        )
        for _ in range(random.randint(1, 10))
    )


def random_engine(random: Random) -> Engine:
    step = StepTime(a=10, floor=6, b=0.05, d=0.03, e=0.02, request=random.choice((0, 5)))
    return Engine(
        name="random",
        max_model_len=704,
        kv_tokens=random.randint(704, 1500),
        block_size=random.choice((1, 16, 128)),
        max_num_seqs=random.randint(1, 8),
        max_num_batched_tokens=random.choice((random.randint(1, 40), random.randint(40, 600))),
        prefix_caching=random.random() < 0.8,
        step=step,
    )


def play(scheduler: Scheduler, work: Sequence[Work], size: int) -> tuple[list[Tokens], set[int]]:
    """The events of a workload, and who was cancelled; every invariant is checked on the way."""
    events: list[Tokens] = []
    cancelled: set[int] = set()
    blocks = scheduler.blocks
    for id, one in enumerate(work):
        hashes = [hash((one.chat, block)) for block in range((one.prompt + one.output) // size)]
        events += scheduler.advance(one.arrived_s)
        if scheduler.refusal(one.prompt, one.output):
            cancelled.add(id)
            continue
        scheduler.add(request(id, one.prompt, one.output, hashes), one.arrived_s)
        if one.cancel and scheduler.cancel(id - 1):
            cancelled.add(id - 1)
        assert min(blocks.free, blocks.idle, blocks.used) >= 0
        assert blocks.free + blocks.idle + blocks.used == blocks.capacity
    while (next_s := scheduler.next_s()) is not None:
        events += scheduler.advance(next_s)
        assert min(blocks.free, blocks.idle, blocks.used) >= 0
        assert scheduler.steps < 100_000
    return events, cancelled


def check(scheduler: Scheduler, work: Sequence[Work], size: int) -> None:
    events, cancelled = play(scheduler, work, size)
    got = dict.fromkeys(range(len(work)), 0)
    ended: set[int] = set()
    admitted: dict[int, float] = {}
    for event in events:
        got[event.id] += event.new_tokens
        admitted.setdefault(event.id, event.admitted_s)
        assert event.admitted_s == admitted[event.id]
        assert event.cached_tokens < work[event.id].prompt
        assert event.id not in ended
        if event.finished:
            ended.add(event.id)
    for id, one in enumerate(work):
        assert id in cancelled or (id in ended and got[id] == one.output)
    order = [admitted[id] for id in sorted(admitted)]
    assert order == sorted(order)
    times = [event.at_s for event in events]
    assert times == sorted(times)
    assert scheduler.prefix_hits <= scheduler.prefix_queries
    assert scheduler.blocks.used == scheduler.running == scheduler.waiting == 0
    assert scheduler.blocks.reset()
    assert scheduler.blocks.free == scheduler.blocks.capacity


@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_random_workloads(part: int) -> None:
    """Tokens conserved, blocks never negative, first come first served, every request ends."""
    preempted = 0
    for seed in range(2500 * part, 2500 * (part + 1)):
        random = Random(seed)
        asked = random_engine(random)
        scheduler = Scheduler(asked, seed, each_token=False)
        check(scheduler, random_work(random), asked.block_size)
        preempted += scheduler.preemptions
    assert preempted > 500


def test_both_clocks_see_the_same_times() -> None:
    """Every token reported, or first tokens and ends only: one code path, the same seconds."""
    for seed in range(150):
        random = Random(seed)
        asked = random_engine(random)
        step = dataclasses.replace(asked.step, jitter_cv=0.05)
        asked = dataclasses.replace(asked, step=step)
        work = random_work(random)
        real, virtual = (Scheduler(asked, seed, each_token=each) for each in (True, False))
        check(Scheduler(asked, seed), work, asked.block_size)
        all_of_them, cancelled = play(real, work, asked.block_size)
        few, _ = play(virtual, work, asked.block_size)
        first: dict[int, Tokens] = {}
        for event in all_of_them:
            assert event.new_tokens == 1
            first.setdefault(event.id, event)
        ends = [event for event in all_of_them if event.finished]
        assert [e[2:] for e in few if e.finished] == [e[2:] for e in ends]
        for event in few:
            if not event.finished:
                assert event == first[event.id]
        assert real.steps == virtual.steps
        assert real.preemptions == virtual.preemptions
        assert {event.id for event in ends} | cancelled == set(range(len(work)))
