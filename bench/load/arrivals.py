"""Arrivals: when episodes of an open load come, when users start, how long they think.

Pure and seeded: every function is `(rng or seed, ...) -> Iterator[float]`, in seconds after the
start of the point. An open law is made in units of the mean gap first and laid along a rate
afterwards, so the same stream serves every rate and every profile (time rescaling: for Poisson
gaps the result is the inhomogeneous Poisson process of that rate).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from bench.episode import Purpose, substream
from bench.scenario import Arrivals, Stage

CHUNK = 256  # gaps drawn at once


def poisson_s(rng: np.random.Generator, rate_per_s: float) -> Iterator[float]:
    """Endless arrivals with exponential gaps."""
    return at_rate_s(unit_arrivals(rng, Arrivals.poisson), rate_per_s)


def constant_s(rng: np.random.Generator, rate_per_s: float) -> Iterator[float]:
    """Endless arrivals with equal gaps, the first at a random place within one gap."""
    return at_rate_s(unit_arrivals(rng, Arrivals.constant), rate_per_s)


def gamma_s(rng: np.random.Generator, rate_per_s: float, cv: float) -> Iterator[float]:
    """Endless arrivals with gamma gaps of coefficient of variation cv (shape 1 / cv**2)."""
    return at_rate_s(unit_arrivals(rng, Arrivals.gamma, cv), rate_per_s)


def at_rate_s(units: Iterator[float], rate_per_s: float) -> Iterator[float]:
    """Arrivals in units of the mean gap, laid along one rate; rates below 1/s included."""
    return (unit / rate_per_s for unit in units)


def unit_arrivals(rng: np.random.Generator, law: Arrivals, cv: float = 0.0) -> Iterator[float]:
    """Endless arrivals of mean gap 1, in those units: the sums of the law's gaps."""
    if law is Arrivals.constant:
        phase = float(rng.random())
        number = 0
        while True:
            yield phase + number
            number += 1
    at = 0.0
    while True:
        for gap in _gaps(rng, law, cv):
            at += float(gap)
            yield at


def _gaps(rng: np.random.Generator, law: Arrivals, cv: float) -> np.ndarray:
    if law is Arrivals.poisson:
        return rng.exponential(1.0, CHUNK)
    shape = cv**-2
    return rng.gamma(shape, 1.0 / shape, CHUNK)


class Piece(msgspec.Struct, frozen=True):
    """A stretch of a profile: linear from `low` at start_s to `high` at end_s."""

    start_s: float
    end_s: float
    low: float
    high: float

    def at(self, t_s: float) -> float:
        """The value at a time within."""
        if math.isinf(self.end_s):
            return self.low
        return self.low + (self.high - self.low) * (t_s - self.start_s) / (
            self.end_s - self.start_s
        )

    @property
    def area(self) -> float:
        """The integral of the value over the piece."""
        if math.isinf(self.end_s):
            return math.inf if self.low > 0 else 0.0
        return (self.low + self.high) / 2 * (self.end_s - self.start_s)


class Profile(msgspec.Struct, frozen=True):
    """Users or episodes/s over time: steps and ramps. The last value holds for ever."""

    pieces: tuple[Piece, ...]

    def at(self, t_s: float) -> float:
        """The value at t_s; at a step, the value after it."""
        return next(piece for piece in self.pieces if t_s < piece.end_s).at(t_s)

    @property
    def highest(self) -> float:
        """The largest value."""
        return max(max(piece.low, piece.high) for piece in self.pieces)

    def mean(self, until_s: float) -> float:
        """The mean value over [0, until_s]."""
        total = 0.0
        for piece in self.pieces:
            end_s = min(piece.end_s, until_s)
            if end_s > piece.start_s:
                total += (piece.at(piece.start_s) + piece.at(end_s)) / 2 * (end_s - piece.start_s)
        return total / until_s


def profile_of(stages: Sequence[Stage]) -> Profile:
    """The profile of a load's stages: their users, or their rates when no stage names users."""
    in_users = any(stage.users for stage in stages)
    pieces: list[Piece] = []
    at_s = before = 0.0
    for stage in stages:
        value = float(stage.users) if in_users else stage.rate
        top_s, end_s = at_s + stage.ramp_s, at_s + stage.duration_s
        if top_s > at_s:
            pieces.append(Piece(at_s, top_s, before, value))
        if end_s > top_s:
            pieces.append(Piece(top_s, end_s, value, value))
        at_s, before = end_s, value
    return Profile((*pieces, Piece(at_s, math.inf, before, before)))


def along_s(units: Iterator[float], profile: Profile) -> Iterator[float]:
    """Arrivals in units of the mean gap, laid along a profile of episodes/s.

    The k-th comes when the integral of the rate reaches the k-th unit. Ends when the profile
    ends at rate 0.
    """
    pieces = iter(profile.pieces)
    piece, before = next(pieces), 0.0
    for unit in units:
        while unit > before + piece.area:
            before += piece.area
            following = next(pieces, None)
            if following is None:
                return
            piece = following
        yield piece.start_s + _time_within_s(piece, unit - before)


def _time_within_s(piece: Piece, area: float) -> float:
    """How far into a piece its integral reaches `area`."""
    slope = 0.0
    if not math.isinf(piece.end_s):
        slope = (piece.high - piece.low) / (piece.end_s - piece.start_s)
    root = math.sqrt(max(0.0, piece.low**2 + 2 * slope * area))
    return 2 * area / (piece.low + root) if area else 0.0


def active_from_s(profile: Profile, user: int, t_s: float) -> float | None:
    """The first time from t_s on at which a profile of users has more than `user`, or None.

    With v users, users 0 to v - 1 are active: a ramp adds them one after another.
    """
    for piece in profile.pieces:
        start_s = max(t_s, piece.start_s)
        if start_s >= piece.end_s:
            continue
        if piece.at(start_s) > user:
            return start_s
        if piece.high > user and not math.isinf(piece.end_s):
            share = (user - piece.low) / (piece.high - piece.low)
            return max(start_s, piece.start_s + share * (piece.end_s - piece.start_s))
    return None


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
