"""A closed loop of single requests of one size, measured after its start: what load tests do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.episode import Workload
from bench.scenario import Engine
from bench.sizing.shapes import EpisodeShape
from bench.sizing.virtual import Closed, Turn, simulate

WARM_SHARE = 0.3  # of the time, not counted
LENGTHS = 11  # different output lengths within the spread


class Measured(NamedTuple):
    """Means of the steady part. Milliseconds; tokens per second."""

    ttft_ms: float
    itl_ms: float
    tokens_per_s: float


def closed_loop(
    engine: Engine,
    users: int,
    input_tokens: int,
    output_tokens: int,
    duration_s: float,
    spread: float = 0.02,
    stagger_s: float = 10.0,
    seed: int = 1,
) -> Measured:
    """`users` users send requests one after the other, no prefix shared.

    Output lengths lie evenly within +-spread (a share) of output_tokens. The first requests come
    within stagger_s seconds.
    """
    shapes = [
        EpisodeShape(
            workload=Workload.react_1,
            weight=1.0,
            system_tokens=0,
            question_tokens=input_tokens,
            turns=[],
            answer_tokens=max(1, round(output_tokens * (1 + spread * float(offset)))),
        )
        for offset in np.linspace(-1, 1, LENGTHS)
    ]
    load = Closed(users=users, stagger_s=stagger_s)
    result = simulate(engine, shapes, load, {}, duration_s, seed)
    turns = [turn for episode in result.episodes for turn in episode.turns]
    begin_s = WARM_SHARE * duration_s
    members = [turn for turn in turns if begin_s <= turn.sent_s < duration_s]
    ended = [turn for turn in turns if begin_s <= turn.done_s < duration_s]
    return Measured(
        ttft_ms=1e3 * _mean([turn.first_s - turn.sent_s for turn in members]),
        itl_ms=1e3 * _mean([_itl_s(turn) for turn in members if turn.output_tokens > 1]),
        tokens_per_s=sum(turn.output_tokens for turn in ended) / (duration_s - begin_s),
    )


def _itl_s(turn: Turn) -> float:
    return (turn.done_s - turn.first_s) / (turn.output_tokens - 1)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
