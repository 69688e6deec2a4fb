"""How fast the simulated engine is: `make benchmarks-simulator`. It prints, and asserts nothing.

One simulated hour of 128 agents on one replica, and the cost of a turn from 64 to 4,096 agents.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
from rich.console import Console

from bench.episode import Workload
from bench.scenario import Engine
from bench.sizing.shapes import EpisodeShape, TurnShape
from bench.sizing.virtual import Closed, Simulated, simulate
from makers import H100_TP4

ENGINE = Engine(
    name="h100-70b-fp8-tp4",
    kv_tokens=1_330_000,
    step=replace(H100_TP4, host=2.0, request=30.0, jitter_cv=0.03),
)
REACT_3 = EpisodeShape(
    workload=Workload.react_3,
    weight=1,
    system_tokens=2000,
    question_tokens=100,
    turns=[TurnShape(call_tokens=80, tools=["tool"], observation_tokens=600)] * 3,
    answer_tokens=250,
)


def tool_s(rng: np.random.Generator) -> float:
    """Seconds of one call: lognormal, median half a second."""
    return float(rng.lognormal(np.log(0.5), 0.6))


def timed(
    users: int, duration_s: float, engine: Engine = ENGINE, seed: int = 1
) -> tuple[Simulated, float]:
    """A closed loop without think time, and the CPU seconds that it took."""
    before_s = time.process_time()
    load = Closed(users=users, stagger_s=10.0)
    result = simulate(engine, [REACT_3], load, {"tool": tool_s}, duration_s, seed)
    return result, time.process_time() - before_s


def main() -> None:
    """Print the table."""
    say = partial(Console(highlight=False).print, soft_wrap=True)
    result, spent_s = timed(128, 3600.0)
    turns = sum(len(one.turns) for one in result.episodes)
    say(
        f"one simulated hour, 128 agents, {turns} turns, {result.steps} steps: {spent_s:.2f} s "
        f"of CPU ({spent_s / turns * 1e6:.0f} us a turn)"
    )
    before_s = time.process_time()
    for users in range(8, 128, 8):
        for seed in (1, 2, 3):
            timed(users, 300.0, seed=seed)
    say(f"a plan, 15 levels x 3 seeds x 300 s: {time.process_time() - before_s:.1f} s of CPU")
    for users in (64, 256, 1024, 4096):
        wide = replace(ENGINE, kv_tokens=64_000_000, max_num_seqs=4096)
        result, spent_s = timed(users, 1200.0, wide)
        turns = sum(len(one.turns) for one in result.episodes)
        say(f"{users:5d} agents: {turns} turns, {spent_s / turns * 1e6:.0f} us a turn")


if __name__ == "__main__":
    main()
