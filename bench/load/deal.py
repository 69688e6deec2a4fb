"""Deal: which task a user gets in an episode. Pure: the same in every arm and at every level.

A user's episodes form blocks of 20. Within a block the workloads are a systematic sample of the
mix (so a short point keeps close to it), shuffled by the keyed substream of methods.md section
2. Within a workload the tasks lie in one shuffled order for all users; each user walks along it
from a start of its own, and the starts are spread by the golden ratio, so a task repeats late.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bench.episode import Purpose, Task, Workload, substream
from bench.errors import ScenarioError

BLOCK = 20
GOLDEN = (5**0.5 - 1) / 2
SILVER = 2**0.5 - 1  # spreads users, as GOLDEN spreads the blocks of one user


class Share(NamedTuple):
    """The part of the unit interval that belongs to a workload of the mix."""

    workload: Workload
    low: float
    high: float


def shares(mix: Mapping[str, float]) -> list[Share]:
    """The mix as consecutive parts of [0, 1), in the order of Workload; zero weights left out."""
    total = sum(mix.values())
    found: list[Share] = []
    sum_before = 0.0
    for workload in Workload:
        weight = mix.get(workload.value, 0.0)
        if weight > 0:
            low, sum_before = sum_before / total, sum_before + weight
            found.append(Share(workload, low, sum_before / total))
    found[-1] = found[-1]._replace(high=1.0)
    return found


def check_deal(tasks: Mapping[Workload, list[Task]], mix: Mapping[str, float]) -> None:
    """Raise ScenarioError if a workload of the mix has no task."""
    for share in shares(mix):
        if not tasks.get(share.workload):
            name = share.workload.value
            raise ScenarioError(
                f"workload.mix.{name}={mix[name]}",
                "the scenario's material holds no such task",
                f"set workload.mix.{name}=0 or add tasks of workload {name!r}",
            )


def deal(
    tasks: Mapping[Workload, list[Task]],
    mix: Mapping[str, float],
    seed: int,
    user: int,
    episode: int,
) -> Task:
    """The task of an episode. Raises ScenarioError when its workload has no task."""
    block, place = divmod(episode, BLOCK)
    parts = shares(mix)
    phases = _phases(seed, user, block)
    order = _block_order(tuple(parts), float(phases[block]), seed, user, block)
    part = order[place]
    before = order[:place].count(part) + int(_counts(part, phases[:block]).sum())
    choice = tasks.get(part.workload)
    if not choice:
        check_deal(tasks, mix)
        raise AssertionError(part.workload)
    deck = _deck(seed, part.workload, len(choice))
    start = int((user * GOLDEN) % 1.0 * len(choice))
    return choice[deck[(start + before) % len(choice)]]


def _phases(seed: int, user: int, block: int) -> np.ndarray:
    """The sampling phase of blocks 0..block of a user, each in [0, 1)."""
    first = _first_phase(seed)
    return np.asarray((first + user * SILVER + np.arange(block + 1) * GOLDEN) % 1.0)


# Kept, because the host deals on the event loop that stamps the streams.
@functools.lru_cache(maxsize=16)
def _first_phase(seed: int) -> float:
    return float(substream(seed, 0, 0, 1, Purpose.task).random())


def _counts(part: Share, phases: np.ndarray) -> np.ndarray:
    """How often a workload occurs per block: the j with low <= (j + phase) / BLOCK < high."""
    return np.asarray(
        np.ceil(BLOCK * part.high - phases) - np.ceil(BLOCK * part.low - phases), dtype=int
    )


@functools.lru_cache(maxsize=16_384)
def _block_order(
    parts: tuple[Share, ...], phase: float, seed: int, user: int, block: int
) -> tuple[Share, ...]:
    counts = [int(_counts(part, np.array([phase]))[0]) for part in parts]
    drawn = [part for part, count in zip(parts, counts, strict=True) for _ in range(count)]
    shuffled = substream(seed, user, block, 0, Purpose.task).permutation(len(drawn))
    return tuple(drawn[index] for index in shuffled)


@functools.lru_cache(maxsize=64)
def _deck(seed: int, workload: Workload, size: int) -> tuple[int, ...]:
    """One order of a workload's tasks, the same for all users."""
    key = list(Workload).index(workload)
    return tuple(substream(seed, 0, key, 2, Purpose.task).permutation(size).tolist())
