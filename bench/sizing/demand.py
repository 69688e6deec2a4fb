"""Demand: what one mean episode asks of the engine and of the tools, as it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from bench.episode import Workload
from bench.fit.level import Level, by_episode, episode_key
from bench.fit.seed import tools_time_s
from bench.record import EpisodeOutcome, EpisodeRecord, LLMOutcome, LLMRecord

MAX_CALLS = 512  # model calls kept of a demand: enough for a mean, few enough to plan in a second
WHOLE = (LLMOutcome.ok, LLMOutcome.truncated, LLMOutcome.parse_failure)  # the engine did it all


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
    left_out: int = 0  # members of which a part is not known, or that were cut or broke off

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
    """The mean episode of some levels; None when no episode gives every part (`why_no_demand`).

    Whatever its outcome: one that reached the iteration limit, or whose answer could not be read,
    loads the engine as much as an answered one. Left out, and counted, is what was cut or broke
    off, and what lacks a size or an end.
    workload: only these episodes ("all but selection" is `all`); empty: every episode, selection
    items included, because they load the engine too.
    """
    calls: list[Call] = []
    tool_s = 0.0
    episodes = left_out = 0
    for level in levels:
        llm, tools = by_episode(level.llm), by_episode(level.tools)
        for episode in level.episodes:
            if not _of_workload(episode, workload):
                continue
            sizes = _sizes(llm.get(episode_key(episode), []))
            spent_s = tools_time_s(tools.get(episode_key(episode), []))
            if episode.outcome is EpisodeOutcome.cut or sizes is None or spent_s is None:
                left_out += 1
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
        left_out=left_out,
    )


def why_no_demand(levels: Sequence[Level]) -> str:
    """Why `demand_of` found nothing, in a sentence."""
    if not levels:
        return "no level that may be believed was measured"
    calls = [call for level in levels for call in level.llm if call.outcome in WHOLE]
    if not calls:
        return "no model call was completed"
    if all(call.output_tokens is None or call.prompt_tokens is None for call in calls):
        return "the engine reported no token counts (`usage`) with its answers"
    if all(call.uncached_tokens is None for call in calls):
        return (
            "the engine does not report cached tokens, so what it computed is not known (vLLM "
            "reports them with --enable-prompt-tokens-details)"
        )
    return "no episode was completed with the size of every call and the end of every tool"


def _of_workload(episode: EpisodeRecord, workload: str) -> bool:
    if workload == "all":
        return episode.workload is not Workload.selection
    return workload in ("", episode.workload.value)


def _sizes(calls: Sequence[LLMRecord]) -> list[Call] | None:
    sizes: list[Call] = []
    for call in calls:
        uncached, cached, output = call.uncached_tokens, call.cached_tokens, call.output_tokens
        if call.outcome not in WHOLE or uncached is None or cached is None or output is None:
            return None
        sizes.append(Call(uncached=uncached, cached=cached, output=output))
    return sizes or None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
