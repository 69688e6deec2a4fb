"""Continuous batching: conserved tokens, first come first served, every request ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert events[0].first_s == pytest.approx(5.0 + prefill_s)
    assert events[1].first_s - events[0].first_s == pytest.approx(step_ms(LAW, [], 1, 1000) / 1e3)
    assert scheduler.running == scheduler.waiting == 0
    assert scheduler.blocks.used == 0


def test_a_long_prompt_is_prefilled_in_chunks_beside_decoding_ones() -> None:
    scheduler = Scheduler(engine(budget=512), 1)
    scheduler.add(request(1, 16, 50), 0.0)
    scheduler.advance(0.02)  # 1 decodes now
    scheduler.add(request(2, 1500, 2), 0.02)
    events = drain(scheduler)
    first_of_2 = next(event.first_s for event in events if event.id == 2)
    between = [event for event in events if event.id == 1 and 0.02 < event.first_s < first_of_2]
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
    assert second.admitted_s == first.last_s


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
        times.append([(event.id, event.first_s) for event in events])
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
    assert warm.first_s - 10.0 < cold.first_s / 2
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


@settings(max_examples=60, deadline=None)
@given(
    work=st.lists(
        st.tuples(
            st.floats(0, 2),  # arrival
            st.integers(1, 900),  # prompt
            st.integers(1, 40),  # output
            st.integers(0, 3),  # conversation
            st.booleans(),  # cancelled on the way
        ),
        min_size=1,
        max_size=25,
    ),
    kv_tokens=st.integers(1024, 8000),
    max_num_seqs=st.integers(1, 8),
    budget=st.integers(1, 600),
    seed=st.integers(0, 5),
)
def test_random_work_conserves_tokens_keeps_order_and_ends(
    work: list[tuple[float, int, int, int, bool]],
    kv_tokens: int,
    max_num_seqs: int,
    budget: int,
    seed: int,
) -> None:
    step = StepTime(a=10, floor=6, b=0.05, d=0.03, request=5, jitter_cv=0.05)
    scheduler = Scheduler(engine(kv_tokens, max_num_seqs, budget, 1024, step), seed)
    events: list[Tokens] = []
    cancelled: set[int] = set()
    for id, (arrived_s, prompt, output, chat, cancel) in enumerate(sorted(work)):
        hashes = [hash((chat, block)) for block in range((prompt + output) // 16)]
        events += scheduler.advance(arrived_s)
        scheduler.add(request(id, prompt, output, hashes), arrived_s)
        assert 0 <= scheduler.kv_usage <= 1
        assert scheduler.running <= max_num_seqs
        if cancel and scheduler.cancel(id):
            cancelled.add(id)
    events += drain(scheduler)
    got = {id: sum(e.new_tokens for e in events if e.id == id) for id in range(len(work))}
    ordered = sorted(work)
    for id, tokens in got.items():
        assert tokens == (0 if id in cancelled else ordered[id][2])
    admitted = {event.id: event.admitted_s for event in events}
    assert [admitted[id] for id in sorted(admitted)] == sorted(admitted.values())
    assert all(event.cached_tokens < ordered[event.id][1] for event in events)
    assert scheduler.prefix_hits <= scheduler.prefix_queries
    assert scheduler.blocks.used == scheduler.running == scheduler.waiting == 0
    times = [event.first_s for event in events]
    assert times == sorted(times)
