"""Turns: one per iteration, in order, and nobody waits when the loop is free."""

from __future__ import annotations

import asyncio

from bench.client import Turns


def test_one_turn_per_iteration_in_order() -> None:
    async def body() -> None:
        turns, order, iteration = Turns(), list[tuple[int, int]](), 0

        async def work(number: int) -> None:
            await turns.take()
            order.append((number, iteration))

        working = [asyncio.create_task(work(number)) for number in range(5)]
        while not all(task.done() for task in working):
            await asyncio.sleep(0)
            iteration += 1
        assert [number for number, _ in order] == [0, 1, 2, 3, 4]
        seen = [when for _, when in order]
        assert len(set(seen)) == 5 and seen == sorted(seen)

    asyncio.run(asyncio.wait_for(body(), 10.0))


def test_a_free_loop_does_not_wait_and_a_cancelled_turn_is_passed_on() -> None:
    async def body() -> None:
        turns = Turns()
        waiting = [asyncio.create_task(turns.take()) for _ in range(6)]
        await asyncio.sleep(0)
        waiting[4].cancel()
        await asyncio.wait_for(waiting[5], 5.0)
        assert [task.cancelled() for task in waiting] == [False] * 4 + [True, False]
        for _ in range(3):
            await asyncio.sleep(0)
        coroutine = turns.take()  # free again: it ends without giving way
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("it waited")

    asyncio.run(asyncio.wait_for(body(), 10.0))
