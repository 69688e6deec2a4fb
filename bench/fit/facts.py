"""LevelFacts: what a level was, in counts and rates, beside its latencies."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from bench.fit.level import Level
from bench.record import NS_PER_S, EngineSample, EpisodeOutcome, LLMOutcome

COUNTED = (LLMOutcome.ok, LLMOutcome.truncated, LLMOutcome.parse_failure)  # came to their end


class LevelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one level was: for the evidence table and the concurrency curves."""

    engine: str
    run: str
    users: int
    point: str = ""
    rate_per_s: float | None = None
    simulated: bool
    control: str
    window_s: float
    warmup_s: float
    settled: bool
    scheduled: int
    attempted: int
    answered: int
    failed: int
    tail: int
    running_mean: float | None  # measured in flight at the engine
    output_tokens_per_s: float | None  # None: not every answer came with its token count
    episodes_per_s: float | None
    lag_s_p99: float | None
    client_cpu: float | None
    error_rate: float | None  # of all episodes issued, warm-up included
    prefix_hit_rate: float | None
    server_gap: float | None


def level_facts(level: Level, error_rate: float | None, server_gap: float | None) -> LevelFacts:
    """Counts and rates of one level over its window; unknown is None.

    error_rate: share of the episodes issued, None without any; server_gap: relative difference
    between the server's and the client's sum of request times, None when it was not checked.
    """
    window_s = max((level.end_ns - level.start_ns) / NS_PER_S, 0.0)
    outcomes = [episode.outcome for episode in level.episodes]
    answered = sum(o in (EpisodeOutcome.answered, EpisodeOutcome.chosen) for o in outcomes)
    ended = sum(
        _within(level, episode.done_ns) for episode in [*level.cut.episodes, *level.episodes]
    )
    lags_s = [call.lag_s for call in level.llm if call.lag_s is not None]
    running = [sample.running for sample in level.engine_samples if sample.running is not None]
    return LevelFacts(
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        simulated=level.simulated,
        control=level.control,
        window_s=window_s,
        warmup_s=level.warmup_s,
        settled=level.settled,
        scheduled=level.scheduled,
        attempted=level.attempted,
        answered=answered,
        failed=level.attempted - answered,
        tail=level.tail,
        running_mean=float(np.mean(running)) if running else None,
        output_tokens_per_s=_output_tokens_per_s(level),
        episodes_per_s=ended / window_s if window_s else None,
        lag_s_p99=float(np.quantile(lags_s, 0.99)) if lags_s else None,
        client_cpu=level.point.client_cpu,
        error_rate=error_rate,
        prefix_hit_rate=prefix_hit_rate(level.engine_samples),
        server_gap=server_gap,
    )


def _within(level: Level, ns: int | None) -> bool:
    """In the window. What was issued before it and ends in it counts; so nothing is missing at its
    front for what is still running at its end (a flow is counted by one kind of event)."""
    return ns is not None and level.start_ns <= ns < level.end_ns


def _output_tokens_per_s(level: Level) -> float | None:
    """Of the model calls that ended in the window; None without any, or without a token count."""
    calls = [
        call
        for call in [*level.cut.llm, *level.llm]
        if call.outcome in COUNTED and _within(level, call.done_ns)
    ]
    tokens = [call.output_tokens for call in calls if call.output_tokens is not None]
    window_s = (level.end_ns - level.start_ns) / NS_PER_S
    if window_s <= 0 or not calls or len(tokens) < len(calls):
        return None
    return sum(tokens) / window_s


def prefix_hit_rate(samples: list[EngineSample]) -> float | None:
    """Share of prompt tokens that the engine's prefix cache held, by its own counters."""
    hits = _grown(samples, lambda sample: sample.prefix_hits)
    queries = _grown(samples, lambda sample: sample.prefix_queries)
    return hits / queries if hits is not None and queries else None


def _grown(
    samples: list[EngineSample], counter: Callable[[EngineSample], float | None]
) -> float | None:
    """How much a counter grew from the first sample that has it to the last."""
    known = [value for sample in samples if (value := counter(sample)) is not None]
    return known[-1] - known[0] if len(known) > 1 else None
