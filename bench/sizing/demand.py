"""Demand: what one mean episode asks of the engine and of the tools, as it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from bench.episode import Workload
from bench.fit.level import Level, by_episode, episode_key
from bench.fit.seed import tools_time_s
from bench.record import EpisodeOutcome, EpisodeRecord, LLMRecord

MAX_CALLS = 512  # model calls kept of a demand: enough for a mean, few enough to plan in a second


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One model call, tokens. The engine computes `uncached` and finds `cached`."""

    uncached: int
    cached: int
    output: int


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A mean episode. `calls` is a sample of model calls that stands for all of them.

    `calls_per_episode` model calls and `tool_s` seconds of tools (turn by turn, parallel calls
    overlapping) make one episode.
    """

    calls: list[Call]
    calls_per_episode: float
    tool_s: float
    episodes: int  # that it was measured on

    @property
    def prompt_tokens(self) -> float:
        """Mean prompt of one call, tokens."""
        return _mean([call.uncached + call.cached for call in self.calls])

    @property
    def uncached_tokens(self) -> float:
        """Mean computed tokens of one call."""
        return _mean([call.uncached for call in self.calls])

    @property
    def output_tokens(self) -> float:
        """Mean output of one call, tokens."""
        return _mean([call.output for call in self.calls])

    @property
    def cached_share(self) -> float:
        """Share of all prompt tokens that the prefix cache gave."""
        prompt = self.prompt_tokens
        return 1 - self.uncached_tokens / prompt if prompt > 0 else 0.0

    @property
    def context_tokens(self) -> float:
        """Mean context of a decoding sequence, tokens, weighted by how long it decodes."""
        weight = sum(call.output for call in self.calls)
        if weight == 0:
            return self.prompt_tokens
        total = sum(
            call.output * (call.uncached + call.cached + call.output / 2) for call in self.calls
        )
        return total / weight

    @property
    def peak_context_tokens(self) -> float:
        """Mean context of a call at its end, tokens: what it holds of the KV cache."""
        return self.prompt_tokens + self.output_tokens


def demand_of(levels: Sequence[Level], workload: str = "") -> Demand | None:
    """The mean completed episode of some levels; None when no episode gives every part.

    workload: only these episodes ("all but selection" is `all`); empty: every episode, selection
    items included, because they load the engine too.
    """
    calls: list[Call] = []
    tool_s = 0.0
    episodes = 0
    for level in levels:
        llm, tools = by_episode(level.llm), by_episode(level.tools)
        for episode in level.episodes:
            sizes = _sizes(llm.get(episode_key(episode), []))
            spent_s = tools_time_s(tools.get(episode_key(episode), []))
            if not wanted(episode, workload) or sizes is None or spent_s is None:
                continue
            calls += sizes
            tool_s += spent_s
            episodes += 1
    if not calls:
        return None
    # By size, not in time: every k-th call in time could be the same turn of each episode.
    ordered = sorted(calls, key=lambda call: (call.uncached, call.cached, call.output))
    stride = math.ceil(len(calls) / MAX_CALLS)
    return Demand(
        calls=ordered[stride // 2 :: stride],
        calls_per_episode=len(calls) / episodes,
        tool_s=tool_s / episodes,
        episodes=episodes,
    )


def wanted(episode: EpisodeRecord, workload: str) -> bool:
    """True for an ended episode of the workload (see `demand_of`)."""
    if episode.outcome not in (EpisodeOutcome.answered, EpisodeOutcome.chosen):
        return False
    if workload == "all":
        return episode.workload is not Workload.selection
    return workload in ("", episode.workload.value)


def _sizes(calls: Sequence[LLMRecord]) -> list[Call] | None:
    sizes: list[Call] = []
    for call in calls:
        uncached = call.uncached_tokens
        if uncached is None or call.output_tokens is None:
            return None
        sizes.append(
            Call(uncached=uncached, cached=call.cached_tokens or 0, output=call.output_tokens)
        )
    return sizes or None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
