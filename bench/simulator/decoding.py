"""The sequences that decode: one token each, every step, all in lockstep.

So all of them are kept as sums (KV tokens, who needs a block at which step) and a heap of who ends
first: a step costs the same however many there are, and many equal steps cost as much as one.
"""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar


class Member(Protocol):
    """What a decoding sequence remembers: its place in order of admission, and three counts."""

    place: int
    context: int  # tokens whose KV was there when it joined
    joined: int  # steps that had ended then
    ends: int  # steps that have ended when its last token is there


M = TypeVar("M", bound=Member)


class Decoding(Generic[M]):
    """`ended` steps are over, `started` have their blocks: one more while a step is under way."""

    def __init__(self, block_size: int) -> None:
        self.count = 0
        self.ended = 0
        self.started = 0
        self._block_size = block_size
        self._origin = 0  # sum of context - joined
        # Sequences by (context - joined) mod block_size: those at -steps mod block_size have
        # filled their last block and need one more for the step to come.
        self._phases = [0] * block_size
        self._heap: list[tuple[int, int, M]] = []

    @property
    def kv_tokens(self) -> int:
        """Context of all of them, tokens, when the last step ended."""
        return self._origin + self.count * self.ended

    def join(self, member: M, context: int, left: int) -> None:
        """A sequence whose `context` tokens are computed decodes `left` >= 1 more tokens."""
        member.context, member.joined = context, self.ended
        member.ends = self.ended + left
        self.count += 1
        self._origin += context - self.ended
        self._phases[(context - self.ended) % self._block_size] += 1
        heapq.heappush(self._heap, (member.ends, member.place, member))

    def leave(self, member: M) -> None:
        """It ended, was preempted or cancelled."""
        self.count -= 1
        self._origin -= member.context - member.joined
        self._phases[(member.context - member.joined) % self._block_size] -= 1
        member.ends = -1

    def computed(self, member: M) -> int:
        """Tokens whose KV is there."""
        return member.context + self.ended - member.joined

    def slots(self, member: M) -> int:
        """Tokens that it has room for, the one under way included."""
        return member.context + self.started - member.joined

    def blocks(self, steps: int) -> int:
        """Blocks that the next `steps` steps to start need."""
        cycles, rest = divmod(steps, self._block_size)
        last = -self.started % self._block_size  # the phase whose turn it is; then one below it
        first = last - rest + 1
        part = sum(self._phases[max(first, 0) : last + 1])
        if first < 0:
            part += sum(self._phases[first:])
        return cycles * self.count + part

    def needy(self, member: M) -> bool:
        """Whether it needs a block for the next step to start."""
        return self.slots(member) % self._block_size == 0

    def most_steps(self, room: int, wanted: int) -> int:
        """How many of the next `wanted` steps find their blocks in the room."""
        if self.count * (wanted // self._block_size + 1) <= room or self.blocks(wanted) <= room:
            return wanted
        low, high = 0, wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.blocks(middle) <= room else (low, middle)
        return low

    def until_first_end(self) -> int:
        """Steps until the first of them has its last token."""
        while self._heap[0][2].ends != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] - self.ended

    def pop_ended(self) -> list[M]:
        """Those whose last token is there, in order of admission; they are still to `leave`."""
        found: list[M] = []
        heap = self._heap
        while heap and heap[0][0] <= self.ended:
            ends, _, member = heapq.heappop(heap)
            if member.ends == ends:
                found.append(member)
        return found
