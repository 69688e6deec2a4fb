"""A closed queueing network of users, one replica and its tools (methods.md section 8).

N users, each for ever: think Z, then an episode of K model calls and W seconds of tools. In
milliseconds, with g the growth of a step per decoding sequence and rho the share of time that the
engine spends on prefill:

    lambda = N / (Z + R)                                   episodes (Little's law)
    rho    = lambda * sum over calls(S),  S = step(chunk) - step(no chunk), what prefill adds
    ITL    = t_decode(n) / (1 - rho),     t_decode(n) = t0 + g*n,  g = d + e*context/1000
    n      = lambda * o * ITL             decoding sequences, o = output tokens of an episode
    TTFT   = request + wait + own steps
    R      = K*TTFT + (o - K)*ITL + W

The wait is that of a gate: what arrives during a step T is prefilled in the next one, together.
A step is T' = t_decode + the S of those that arrived in T, so (Poisson arrivals, K*lambda)

    E[T] = ITL,   Var[T] = K*lambda*E[S^2]*E[T] / (1 - rho^2)
    wait = busy * (1/2 + rho) * (E[T] + K*lambda*E[S^2] / (1 - rho^2))

where the last factor, E[T^2]/E[T], is the length of the step that an arrival finds, 1/2 of it is
left, and rho of it is the prefill of those that arrived in the same step.

A call sees the work of the other users only, lambda*(N - 1)/N (the arrival theorem in Schweitzer's
form), beside itself. R grows with lambda, so N(lambda) = lambda*(Z + R) has one root, found by
bisection. All values are means. The network knows no KV cache: above N_run (bounds.py) it is
wrong, and it does not see that prompts are evicted. Users in lockstep (equal lengths, equal tools)
wait longer for the first token than it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from bench.errors import AnalysisError
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import step_ms
from bench.sizing.demand import Call, Demand

MS_PER_S = 1e3
BISECTIONS = 60


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What prefill asks per call, means over the calls of a demand, milliseconds.

    `own_ms`: all steps of the prefill on an otherwise idle engine; `added_ms`: what it adds to
    the steps of others; `added_square`: the mean of its square; `chunks`: steps it takes.
    """

    own_ms: float
    added_ms: float
    added_square: float
    chunks: float


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The network with `users` users in equilibrium. Times are means, in milliseconds."""

    users: int
    episodes_per_s: float
    output_tokens_per_s: float
    itl_ms: float
    ttft_ms: float
    latency_ms: float
    decoding: float  # sequences
    running: float  # requests at the engine, prefilling or decoding
    prefill_share: float  # rho
    wait_ms: float  # from a call's arrival to its own first step, others' prefill included


class Network:
    """One replica of an engine under one demand, at any number of users."""

    def __init__(self, engine: Engine, demand: Demand, think_s: float = 0.0) -> None:
        """Raises AnalysisError when the engine has no step-time coefficients to predict from."""
        if not has_coefficients(engine.step):
            raise AnalysisError(
                f"engine={engine.name}",
                "has no step-time coefficients, so nothing can be predicted",
                "set engine.step in its file of conf/engine",
            )
        self.engine = engine
        self.demand = demand
        self._budget = engine.max_num_batched_tokens
        self._think_ms = think_s * MS_PER_S
        step = engine.step
        self._base_ms = step_ms(step, (), 0, 0)
        self._growth_ms = step.d + step.e * demand.context_tokens / 1e3
        self._work = prefill_work(step, demand.calls, self._budget)
        self._outputs = demand.calls_per_episode * demand.output_tokens

    def solve(self, users: int) -> State:
        """The equilibrium of `users` >= 1 users."""
        if users < 1:
            raise AnalysisError(f"users={users}", "a network has users", "ask for 1 or more")
        low = 0.0
        high = self._largest_rate(users)
        for _ in range(BISECTIONS):
            rate = (low + high) / 2
            state = self._state(users, rate)
            held = rate * (self._think_ms + state.latency_ms)
            low, high = (low, rate) if held > users else (rate, high)
        return self._state(users, low)

    def times(self, state: State, part: Demand) -> tuple[float, float]:
        """Mean (TTFT, latency) in seconds of a part of the demand, one workload, in that state."""
        work = prefill_work(self.engine.step, part.calls, self._budget)
        ttft_ms = self._ttft_ms(work, state.wait_ms, self._others_decoding(state))
        decode_ms = max(part.output_tokens - 1, 0.0) * state.itl_ms
        latency_ms = part.calls_per_episode * (ttft_ms + decode_ms) + part.tool_s * MS_PER_S
        return ttft_ms / MS_PER_S, latency_ms / MS_PER_S

    def _largest_rate(self, users: int) -> float:
        """Episodes per ms at which the engine's time is used up by the other users' work."""
        per_episode = self.demand.calls_per_episode * self._work.added_ms
        per_episode += self._growth_ms * self._outputs
        others = (users - 1) / users
        stable = 1 / (per_episode * others) if per_episode * others > 0 else math.inf
        idle = self._state(users, 0.0)  # no one is faster than on an idle engine
        return min(stable * (1 - 1e-9), users / (self._think_ms + idle.latency_ms))

    def _state(self, users: int, rate: float) -> State:
        """Every quantity at a given rate, episodes per ms; exact at the root only."""
        demand, work = self.demand, self._work
        seen = rate * (users - 1) / users
        rho = seen * demand.calls_per_episode * work.added_ms
        slack = 1 - rho - self._growth_ms * seen * self._outputs
        itl_ms = (self._base_ms + self._growth_ms) / slack
        others = seen * self._outputs * itl_ms
        step_now_ms = self._base_ms + self._growth_ms * others
        busy = min(1.0, rho + others)
        surplus_ms = seen * demand.calls_per_episode * work.added_square / (1 - rho**2)
        found_ms = step_now_ms / (1 - rho) + surplus_ms
        wait_ms = busy * (0.5 + rho) * found_ms
        ttft_ms = self._ttft_ms(work, wait_ms, others)
        decode_ms = max(demand.output_tokens - 1, 0.0) * itl_ms
        calls_ms = demand.calls_per_episode * (ttft_ms + decode_ms)
        return State(
            users=users,
            episodes_per_s=rate * MS_PER_S,
            output_tokens_per_s=rate * self._outputs * MS_PER_S,
            itl_ms=itl_ms,
            ttft_ms=ttft_ms,
            latency_ms=calls_ms + demand.tool_s * MS_PER_S,
            decoding=rate * self._outputs * itl_ms,
            running=rate * calls_ms,
            prefill_share=rate * demand.calls_per_episode * work.added_ms,
            wait_ms=wait_ms,
        )

    def _ttft_ms(self, work: Work, wait_ms: float, others: float) -> float:
        """Host, waits, and the own steps, in which `others` sequences decode too."""
        beside_ms = work.chunks * self._growth_ms * others
        return self.engine.step.request + wait_ms + work.own_ms + beside_ms

    def _others_decoding(self, state: State) -> float:
        return state.decoding * (state.users - 1) / state.users


def prefill_work(step: StepTime, calls: Iterable[Call], budget: int) -> Work:
    """The prefill of each call in chunks of at most `budget` tokens, averaged over the calls."""
    base_ms = step_ms(step, (), 0, 0)
    known: dict[tuple[int, int], tuple[float, int]] = {}
    own: list[float] = []
    chunks: list[int] = []
    for call in calls:
        key = (call.uncached, call.cached)
        if key not in known:
            known[key] = _prefill_ms(step, call, budget)
        own.append(known[key][0])
        chunks.append(known[key][1])
    added = [max(0.0, ms - number * base_ms) for ms, number in zip(own, chunks, strict=True)]
    count = max(len(own), 1)
    return Work(
        own_ms=sum(own) / count,
        added_ms=sum(added) / count,
        added_square=sum(ms * ms for ms in added) / count,
        chunks=sum(chunks) / count,
    )


def _prefill_ms(step: StepTime, call: Call, budget: int) -> tuple[float, int]:
    """(milliseconds, steps) of one prefill on an idle engine."""
    left = max(call.uncached, 1)  # the last token is always computed
    done = call.cached
    total_ms = 0.0
    steps = 0
    while left > 0:
        chunk = min(left, budget)
        total_ms += step_ms(step, ((chunk, done),), 0, 0)
        done += chunk
        left -= chunk
        steps += 1
    return total_ms, steps


def has_coefficients(step: StepTime) -> bool:
    """True when the law gives a step a length: an attached or a preset engine has none."""
    return step.a + step.floor > 0
