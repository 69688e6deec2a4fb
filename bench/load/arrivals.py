"""Arrivals: when users start and how long they think. Pure, seeded, seconds.

Open arrivals, traces and ramps will stand here beside them (episodes are what arrives).
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.episode import Purpose, substream


def starts_s(seed: int, users: int, stagger_s: float) -> Iterator[float]:
    """The start of each user after the start of the point, in order of user.

    User u starts at a random place of the u-th of `users` equal slots of stagger_s, so that
    users neither start all at once nor in step. Keyed by user: the same in every arm.
    """
    for user in range(users):
        jitter = substream(seed, user, 0, 0, Purpose.stagger).random()
        yield (user + jitter) * stagger_s / users


def think_times_s(seed: int, user: int, think_time_s: float) -> Iterator[float]:
    """Endless think times of one user: exponential with mean think_time_s, or all 0.

    The n-th value belongs to the pause after episode n, whatever happened before it.
    """
    episode = 0
    while True:
        if think_time_s == 0.0:
            yield 0.0
        else:
            rng = substream(seed, user, episode, 0, Purpose.think)
            yield float(rng.exponential(think_time_s))
        episode += 1
