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


class StepClock:
    """The law with its seeded jitter: lognormal, mean 1, coefficient of variation `jitter_cv`."""

    def __init__(self, law: StepTime, seed: int) -> None:
        self._law = law
        self._sigma = math.sqrt(math.log1p(law.jitter_cv**2))
        self._rng = np.random.default_rng(seed)

    def step_s(self, chunks: Iterable[tuple[int, int]], decoding: int, kv_tokens: int) -> float:
        """Seconds of one step; each call draws the next jitter."""
        duration_s = step_ms(self._law, chunks, decoding, kv_tokens) / MS_PER_S
        if self._sigma > 0:
            shift = -(self._sigma**2) / 2
            duration_s *= math.exp(shift + self._sigma * float(self._rng.standard_normal()))
        return duration_s
