"""What the virtual users do: kinds of episodes, tool laws, and draws that are keyed.

A draw belongs to a (user, episode, turn, purpose), never to a moment: so two engines see the same
work (methods.md section 2). `Streams` keys a counter-based generator (Philox) with them, which
costs a seventh of a SeedSequence for each key.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from bench.episode import Purpose, Workload

ToolLaw = Callable[[np.random.Generator], float]
ENDLESS = 1 << 40


class TurnShape(msgspec.Struct, frozen=True, kw_only=True):
    """One planned turn: tokens of thought and call, the tools called (in parallel when several),
    and the tokens that all their observations add to the prompt."""

    call_tokens: int
    tools: list[str]
    observation_tokens: int


class EpisodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of episode. system_tokens are shared by every episode, question_tokens are not."""

    workload: Workload
    weight: float
    system_tokens: int
    question_tokens: int
    turns: list[TurnShape]
    answer_tokens: int


class Streams:
    """One generator that is set to a key before each use."""

    def __init__(self, seed: int) -> None:
        key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._philox = np.random.Philox(key=key)
        self._generator = np.random.Generator(self._philox)
        self._counter = np.zeros(4, dtype=np.uint64)
        self._state = self._philox.state
        self._state["state"]["counter"] = self._counter

    def at(self, user: int, episode: int, turn: int, purpose: Purpose) -> np.random.Generator:
        """The generator of a key. The next call moves it: draw first."""
        counter = self._counter
        counter[0] = 0
        counter[1] = 64 * turn + int(purpose)
        counter[2] = episode
        counter[3] = user
        self._philox.state = self._state
        return self._generator


class Content:
    """Chained block hashes of one episode, computed on demand: a shared prefix, then its own."""

    __slots__ = ("_own", "_shared")

    def __init__(self, shared_blocks: int, user: int, episode: int) -> None:
        self._shared = shared_blocks
        self._own = ((user << 24 | episode) + 1) << 24

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, block: int) -> int:
        return block if block < self._shared else self._own + block
