"""Order: which episode to run and when it was due. Sink: where its records go."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bench.episode import Purpose, substream
from bench.record import EpisodeRecord, LLMRecord, ToolRecord


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One episode of one user at a point. `salt` opens the prompt (cache hygiene)."""

    point: str
    user: int
    episode: int
    scheduled_ns: int
    salt: str

    def request_seed(self, turn: int) -> int:
        """The seed of a model call: the same user, episode and turn get it in every arm."""
        rng = substream(0, self.user, self.episode, turn, Purpose.policy)
        return int(rng.integers(2**31))


class Sink(Protocol):
    """Takes records as they become known; the episode's is the last of its episode.

    Its methods may raise RecordError (full disk), which ends the episode and the host.
    """

    def llm(self, record: LLMRecord) -> None:
        """Take one model call."""

    def tool(self, record: ToolRecord) -> None:
        """Take one attempt of a tool call."""

    def episode(self, record: EpisodeRecord) -> None:
        """Take one episode."""
