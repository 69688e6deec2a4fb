"""The step-time law: how long one forward pass takes, in milliseconds.

    softmax_w(floor, a + b*u) + c*sum(u_i*(p_i + u_i/2))/1e6
        + d*decoding sequences + e*decoding KV tokens/1e3 + host

u = sum of u_i; u_i and p_i are the chunk and the already computed tokens of each prefilling
sequence; softmax_w(x, y) = w*log(exp(x/w) + exp(y/w)) with w = 3 ms. Decoding tokens are in d and
e, not in u: so the law gives back the decode tables that it was fitted to, within 2.1 % at TP=2
and 5.1 % at TP=4 (counted in u as well, up to 15 and 24 % too slow).
Source: ../shared/reference/published.json, step_time_profiles.law_ms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from bench.scenario import StepTime

SOFTMAX_WIDTH_MS = 3.0
MS_PER_S = 1e3
PERIOD = 16384  # steps after which the jitter repeats: minutes
PLAIN_PERIOD = 1024  # without jitter


def softmax_ms(first_ms: float, second_ms: float) -> float:
    """A smooth maximum of two times: w*log(exp(x/w) + exp(y/w)), w = 3 ms."""
    high, low = max(first_ms, second_ms), min(first_ms, second_ms)
    return high + SOFTMAX_WIDTH_MS * math.log1p(math.exp((low - high) / SOFTMAX_WIDTH_MS))


def step_ms(
    law: StepTime, chunks: Iterable[tuple[int, int]], decoding: int, kv_tokens: int
) -> float:
    """Milliseconds of one step, without jitter.

    chunks: (tokens computed now, tokens already computed) of each prefilling sequence.
    decoding: sequences that decode one token. kv_tokens: the sum of their context lengths.
    """
    computed = 0
    pairs = 0.0
    for tokens, before in chunks:
        computed += tokens
        pairs += tokens * (before + tokens / 2)
    return (
        softmax_ms(law.floor, law.a + law.b * computed)
        + law.c * pairs / 1e6
        + law.d * decoding
        + law.e * kv_tokens / 1e3
        + law.host
    )


class Jitter:
    """What each step takes more or less than the law says: lognormal, mean 1, seeded.

    A table of `period` factors that repeats, with running sums of J and of number * J, so that the
    time of many steps is a difference of sums: the same to the last bit however many at a time.
    """

    def __init__(self, cv: float, seed: int) -> None:
        self.period = PERIOD if cv > 0 else PLAIN_PERIOD
        factors = np.ones(self.period)
        if cv > 0:
            sigma = math.sqrt(math.log1p(cv**2))
            factors = np.exp(sigma * np.random.default_rng(seed).standard_normal(PERIOD))
            factors /= factors.mean()
        numbers = np.arange(self.period)
        self.sums: list[float] = [0.0, *np.cumsum(factors).tolist()]
        self.moments: list[float] = [0.0, *np.cumsum(numbers * factors).tolist()]


class Stretch:
    """Steps that differ only by one more KV token per decoding sequence, from start_s on.

    first_ms: the first step by the law; growth_ms: what each later one takes more; number: of the
    first step since the engine began; steps: how many. It never passes the end of the table.
    """

    __slots__ = ("_first_s", "_growth_s", "_moments", "_number", "_sums", "start_s", "steps")

    def __init__(
        self,
        jitter: Jitter,
        number: int,
        start_s: float,
        first_ms: float,
        growth_ms: float,
        steps: int,
    ) -> None:
        self.start_s = start_s
        self._sums = jitter.sums
        self._moments = jitter.moments
        self._number = number % jitter.period
        self.steps = min(steps, jitter.period - self._number)
        self._growth_s = growth_ms / MS_PER_S
        self._first_s = first_ms / MS_PER_S

    def end_s(self, step: int) -> float:
        """When the step-th step ends (the first is 1)."""
        number = self._number
        factors = self._sums[number + step] - self._sums[number]
        grown = self._moments[number + step] - self._moments[number] - number * factors
        return self.start_s + self._first_s * factors + self._growth_s * grown

    def ended_by(self, until_s: float) -> int:
        """How many of its steps end by that time."""
        if self.end_s(self.steps) <= until_s:
            return self.steps
        low, high = 0, self.steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.end_s(middle) <= until_s else (low, middle)
        return low

    def cut(self, at_s: float) -> None:
        """End it with the first step that ends at that time or later."""
        ended = self.ended_by(at_s)
        if ended == 0 or self.end_s(ended) < at_s:  # the first one is under way
            ended += 1
        self.steps = min(self.steps, ended)
