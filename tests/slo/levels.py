"""Levels whose truth is known, and one objective judged at one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.fit.law import Law
from bench.fit.level import Level
from bench.record import EngineSample, EpisodeRecord, LLMRecord
from bench.scenario import Objective, Slo
from bench.slo import ObjectiveVerdict, judge
from makers import S, make_call, make_episode, make_level, make_point


def level_of(ttfts_s: list[float], users: int = 8) -> Level:
    """One call per episode of react_1; users take turns, each one episode after the other."""
    episodes: list[EpisodeRecord] = []
    calls: list[LLMRecord] = []
    clock = [0] * users
    for number, ttft_s in enumerate(ttfts_s):
        user = number % users
        start = clock[user]
        first = start + int(ttft_s * S)
        clock[user] = done = first + S // 2
        calls.append(
            make_call(
                user=user,
                episode=number // users,
                sent_ns=start,
                first_delta_ns=first,
                done_ns=done,
                prompt_tokens=2000,
                cached_tokens=500,
                output_tokens=51,
            )
        )
        episodes.append(
            make_episode(
                user=user,
                episode=number // users,
                task=f"task-{number}",
                scheduled_ns=start,
                first_answer_ns=first,
                done_ns=done,
            )
        )
    total_s = sum(call.latency_s or 0.0 for call in calls)
    end_ns = max(clock)
    return make_level(
        episodes,
        calls,
        engine="tp4",
        run="r1",
        point=make_point(users=users, issued_until_ns=end_ns, ended_ns=end_ns, client_cpu=0.2),
        end_ns=end_ns,
        engine_samples=[
            EngineSample(point="u1", ns=0, e2e_sum_s=100.0),
            EngineSample(point="u1", ns=end_ns, e2e_sum_s=100.0 + total_s),
        ],
    )


def lognormal(n: int, median_s: float = 0.2, seed: int = 7) -> list[float]:
    values = np.random.default_rng(seed).lognormal(np.log(median_s), 0.3, n)
    return [float(value) for value in values]


def ttft(bound: float, quantile: float = 0.5, name: str = "ttft") -> Objective:
    return Objective(name=name, metric="ttft_s", bound=bound, quantile=quantile)


def one(
    level: Level, objective: Objective, slo: Slo | None = None, laws: Sequence[Law] = ()
) -> ObjectiveVerdict:
    slo = slo or Slo()
    slo.objectives = [objective]
    (verdict,) = judge([level], slo, [], [], laws)
    return verdict.objectives[0]
