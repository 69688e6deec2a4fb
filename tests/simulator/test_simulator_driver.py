"""Real time follows the scheduler's own timeline; a client that leaves frees its blocks."""

import asyncio

import pytest

from bench.scenario import Engine, StepTime
from bench.simulator.driver import Driver, Job
from bench.simulator.scheduler import Request, Scheduler, Tokens

LIMIT_S = 20.0


def scheduler() -> Scheduler:
    law = StepTime(a=3, floor=2, b=0.01)
    return Scheduler(Engine(name="t", kv_tokens=20000, step=law), 1)


def request(id: int, output: int) -> Request:
    return Request(id=id, prompt_tokens=100, output_tokens=output, max_tokens=output)


async def collect(job: Job) -> list[Tokens]:
    events: list[Tokens] = []
    while not events or not events[-1].finished:
        events.append(await asyncio.wait_for(job.events.get(), LIMIT_S))
    return events


def test_the_schedule_does_not_drift_however_late_the_timer_is() -> None:
    async def real() -> list[float]:
        driver = Driver(scheduler())
        job = driver.submit(request(1, 20), asyncio.get_running_loop().time())
        return [event.at_s for event in await collect(job)]

    same = scheduler()
    same.add(request(1, 20), 0.0)
    expected = [event.at_s for event in same.advance(100.0)]
    got = asyncio.run(real())
    assert [at_s - got[0] for at_s in got] == pytest.approx(
        [at_s - expected[0] for at_s in expected]
    )


def test_cancelled_jobs_free_their_blocks_and_get_no_more_tokens() -> None:
    async def run() -> tuple[int, int, int]:
        driver = Driver(scheduler())
        job = driver.submit(request(1, 5000), asyncio.get_running_loop().time())
        await asyncio.wait_for(job.events.get(), LIMIT_S)
        held = driver.scheduler.blocks.used
        driver.cancel(job)
        seen = job.events.qsize()
        await asyncio.sleep(0.05)
        return held, driver.scheduler.blocks.used, job.events.qsize() - seen

    held, left, more = asyncio.run(run())
    assert held > 0
    assert (left, more) == (0, 0)


def test_stated_offsets_are_never_early() -> None:
    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        driver = Driver(scheduler())
        start_s = loop.time()
        job = driver.play(driver.new_id(), [0.02, 0.03, 0.05], start_s)
        assert driver.new_id() != job.id
        late: list[float] = []
        for offset_s in (0.02, 0.03, 0.05):
            event = await asyncio.wait_for(job.events.get(), LIMIT_S)
            late.append(loop.time() - start_s - offset_s)
        assert event.finished
        await asyncio.sleep(0)
        assert driver.playing == 0
        return late

    assert all(late_s > -0.002 for late_s in asyncio.run(run()))


def test_a_cancelled_play_stops() -> None:
    async def run() -> int:
        driver = Driver(scheduler())
        job = driver.play(1, [0.0, 60.0], asyncio.get_running_loop().time())
        await asyncio.wait_for(job.events.get(), LIMIT_S)
        driver.cancel(job)
        await asyncio.sleep(0.01)
        return driver.playing

    assert asyncio.run(run()) == 0
