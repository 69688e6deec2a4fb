"""Infeasible: a bound that even an idle engine could not keep (methods.md sections 4 and 5).

By the accepted laws of the engine, each model call and each episode of a level gets the least time
that it could have taken, alone on the engine:

    TTFT >= idle law of its uncached and cached tokens
    TPOT >= TPOT law of one sequence with this context   (turns that call a tool: 0, because the
                                                          server withholds their first tokens)
    time to the first answer token, latency >= sum over its calls, the decode of the last one only
                                               in the latency; tools and client taken as 0

A size that is not known gives 0, so no least time is too large, and the quantile of the least times
is at most the quantile of the times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.fit.law import Law
from bench.fit.level import EpisodeKey, Level, by_episode, calls_tool
from bench.fit.tpot import predict_tpot
from bench.fit.ttft import predict_ttfts
from bench.record import EpisodeRecord, LLMRecord
from bench.scenario import Direction, Objective
from bench.slo.evidence import members_of


class _Least(NamedTuple):
    """The least times of one model call, seconds."""

    ttft_s: float
    tpot_s: float
    decode_s: float


def infeasible(level: Level, objective: Objective, laws: Sequence[Law]) -> str:
    """Why the bound cannot be met by an idle engine, in a sentence; empty: nothing says so.

    A least time outside the range that a law was fitted on is an extrapolation, and is called one.
    """
    if objective.direction is not Direction.below or objective.quantile is None:
        return ""
    ttft, tpot = _accepted(laws, level.engine, "ttft"), _accepted(laws, level.engine, "tpot")
    members = members_of(level, objective.workload, objective.metric)
    calls = {key: mine for key, mine in by_episode(level.llm).items() if key in members}
    found = _least_times(objective.metric, members, calls, ttft, tpot)
    if not found:
        return ""
    least_s = float(np.quantile(found, objective.quantile))
    if least_s <= objective.bound:
        return ""
    outside = _outside([call for mine in calls.values() for call in mine], ttft)
    tag = f" (extrapolated for {outside:.0%} of the calls)" if outside else ""
    return (
        f"infeasible: alone on an idle engine, p{objective.quantile * 100:g} of {objective.metric} "
        f"would be at least {least_s:.3g} s{tag}, the bound is {objective.bound:g} s"
    )


def _accepted(laws: Sequence[Law], engine: str, name: str) -> Law | None:
    found = (law for law in laws if (law.engine, law.name) == (engine, name))
    return next((law for law in found if law.accepted), None)


def _least_times(
    metric: str,
    members: Mapping[EpisodeKey, EpisodeRecord],
    calls: Mapping[EpisodeKey, list[LLMRecord]],
    ttft: Law | None,
    tpot: Law | None,
) -> list[float]:
    """The least times of a metric; none without the law that they need."""
    if metric == "tpot_s":
        every = [call for mine in calls.values() for call in mine]
        return [] if tpot is None else [one.tpot_s for one in _least(every, None, tpot)]
    if ttft is None or metric not in ("ttft_s", "ttfat_s", "latency_s"):
        return []
    if metric == "ttft_s":
        return [
            one.ttft_s for one in _least([c for mine in calls.values() for c in mine], ttft, None)
        ]
    found = []
    for key in members:
        mine = sorted(calls.get(key, []), key=lambda call: call.turn)
        least = _least(mine, ttft, tpot)
        total_s = sum(one.ttft_s + one.decode_s for one in least)
        if metric == "ttfat_s" and least:
            total_s -= least[-1].decode_s
        found.append(total_s)
    return found


def _least(calls: Sequence[LLMRecord], ttft: Law | None, tpot: Law | None) -> list[_Least]:
    sizes = [
        (call.uncached_tokens, (call.prompt_tokens or 0) - call.uncached_tokens)
        if call.uncached_tokens is not None
        else (0, 0)
        for call in calls
    ]
    table = np.array(sizes, dtype=np.float64).reshape(-1, 2)
    first_s = (
        np.zeros(len(calls)) if ttft is None else predict_ttfts(ttft, table[:, 0], table[:, 1])
    )
    found = []
    for call, seconds, known in zip(calls, first_s, table[:, 0] > 0, strict=True):
        output, prompt = call.output_tokens, call.prompt_tokens
        each_s = 0.0
        if tpot is not None and output is not None and prompt is not None:
            each_s = predict_tpot(tpot, 1, prompt + output / 2)
        found.append(
            _Least(
                ttft_s=float(seconds) if known else 0.0,
                tpot_s=0.0 if calls_tool(call) else each_s,
                decode_s=each_s * max((output or 0) - 1, 0),
            )
        )
    return found


def _outside(calls: Sequence[LLMRecord], ttft: Law | None) -> float:
    """Share of the calls whose prompt lies outside what the TTFT law was fitted on."""
    if ttft is None or not calls:
        return 0.0
    outside = 0
    for call in calls:
        if call.uncached_tokens is not None and call.prompt_tokens is not None:
            outside += ttft.extrapolated(
                uncached_tokens=call.uncached_tokens,
                cached_tokens=call.prompt_tokens - call.uncached_tokens,
            )
    return outside / len(calls)
