"""Do the two clocks agree? `make benchmarks-simulator`. It prints, and asserts nothing.

The same seeded work, interleaved: a closed loop against the real-time server over HTTP, and the
same loop on the virtual clock. Ratio real / virtual of p50 TTFT, p50 ITL and throughput, with the
95 % interval of its mean over the pairs.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from rich.console import Console
from scipy import stats

from bench.engine.simulated import start_simulated
from bench.episode import Purpose, Workload
from bench.scenario import Engine
from bench.sizing.shapes import EpisodeShape, Streams
from bench.sizing.virtual import Closed, simulate
from makers import H100_TP4

PAIRS, USERS, DURATION_S, PROMPT = 5, 4, 10.0, 1500
OUTPUTS = range(30, 90, 6)
ENGINE = Engine(
    name="clocks",
    kv_tokens=1_330_000,
    step=replace(H100_TP4, host=2.0, request=30.0, jitter_cv=0.03),
)
MIX = [
    EpisodeShape(
        workload=Workload.react_1,
        weight=1,
        system_tokens=0,
        question_tokens=PROMPT,
        turns=[],
        answer_tokens=output,
    )
    for output in OUTPUTS
]


class Figures(NamedTuple):
    """p50s in seconds; tokens per second."""

    ttft_s: float
    itl_s: float
    tokens_per_s: float


class Call(NamedTuple):
    """One answer. Seconds since the start."""

    sent_s: float
    first_s: float
    done_s: float
    tokens: int


def figures(calls: Sequence[Call]) -> Figures:
    """Over the calls that were sent within the duration."""
    members = [call for call in calls if call.sent_s < DURATION_S]
    ended = [call for call in calls if call.done_s < DURATION_S]
    return Figures(
        float(np.median([call.first_s - call.sent_s for call in members])),
        float(np.median([(c.done_s - c.first_s) / (c.tokens - 1) for c in members])),
        sum(call.tokens for call in ended) / DURATION_S,
    )


def virtual(seed: int) -> Figures:
    """The loop on the virtual clock."""
    result = simulate(ENGINE, MIX, Closed(users=USERS, stagger_s=0.0), {}, DURATION_S, seed)
    turns = [turn for episode in result.episodes for turn in episode.turns]
    return figures([Call(t.sent_s, t.first_s, t.done_s, t.output_tokens) for t in turns])


async def user(
    client: httpx.AsyncClient, number: int, streams: Streams, calls: list[Call], start_s: float
) -> None:
    """One user's requests until the duration is over."""
    loop = asyncio.get_running_loop()
    count = 0
    while loop.time() - start_s < DURATION_S:
        drawn = streams.at(number, count, 0, Purpose.task).random()
        tokens = OUTPUTS[int(drawn * len(OUTPUTS))]
        text = f"{number} {count}" + " word" * (PROMPT - 3)
        asked = {
            "prompt": text, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True,
            "stream": True,
        }  # fmt: skip
        sent_s = loop.time() - start_s
        first_s = None
        async with client.stream("POST", "/completions", json=asked) as response:
            async for _ in response.aiter_raw():
                first_s = first_s or loop.time() - start_s
        assert first_s is not None
        calls.append(Call(sent_s, first_s, loop.time() - start_s, tokens))
        count += 1


async def loop_over(base_url: str, seed: int) -> list[Call]:
    """All users at once."""
    calls: list[Call] = []
    streams = Streams(seed)
    async with httpx.AsyncClient(base_url=base_url, timeout=60.0) as client:
        await client.post("/completions", json={"prompt": "warm", "max_tokens": 4})
        start_s = asyncio.get_running_loop().time()
        await asyncio.gather(
            *(user(client, number, streams, calls, start_s) for number in range(USERS))
        )
    return calls


def real(seed: int) -> Figures:
    """The loop against the server in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        running = start_simulated(ENGINE, Path(directory), Path(directory), seed)
        try:
            return figures(asyncio.run(loop_over(running.endpoint.base_url, seed)))
        finally:
            running.stop()


def main() -> None:
    """Print the table."""
    say = partial(Console(highlight=False).print, soft_wrap=True)
    pairs = [(real(seed), virtual(seed)) for seed in range(1, PAIRS + 1)]
    say(f"real-time server / virtual clock, {PAIRS} pairs of {DURATION_S:g} s, {USERS} users")
    reach = float(stats.t.ppf(0.975, PAIRS - 1)) / PAIRS**0.5
    for place, name in enumerate(Figures._fields):
        ratios = [one[place] / other[place] for one, other in pairs]
        mean, width = float(np.mean(ratios)), reach * float(np.std(ratios, ddof=1))
        say(f"{name:>12}: {mean:.3f} ({mean - width:.3f} to {mean + width:.3f})")


if __name__ == "__main__":
    main()
