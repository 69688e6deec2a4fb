"""KV cache: blocks of tokens, shared by prefix, evicted least recently used.

The semantics of vLLM's prefix cache: a block's hash chains the hash before it with its own
tokens, full blocks only, the last token of a prompt is always computed, blocks that nobody
references stay until their room is needed. Hashes are given by the caller; a radix tree over runs
of blocks (methods.md section 7) replaces the table of single blocks behind this same interface.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Allocation(msgspec.Struct, eq=False):
    """What one request holds: `held` hashes that it references, `private` blocks without a hash.

    `cached_blocks` of its prompt were there already; `published` leading blocks have been offered.
    """

    cached_blocks: int
    published: int
    held: list[int]
    private: int


class Blocks:
    """The block pool of one engine.

    free + idle + used = capacity, where idle blocks carry a hash and no reference.
    """

    def __init__(self, kv_tokens: int, block_size: int, prefix_caching: bool) -> None:
        self.block_size = block_size
        self.capacity = kv_tokens // block_size
        self.free = self.capacity
        self._prefix_caching = prefix_caching
        self._references: dict[int, int] = {}
        self._idle: dict[int, None] = {}  # in order of release: the first goes first

    @property
    def idle(self) -> int:
        """Blocks that are kept for their content only."""
        return len(self._idle)

    @property
    def used(self) -> int:
        """Blocks that running requests hold."""
        return self.capacity - self.free - len(self._idle)

    def blocks_of(self, tokens: int) -> int:
        """Blocks that `tokens` tokens need."""
        return -(-tokens // self.block_size)

    def matched(self, hashes: Sequence[int], prompt_tokens: int) -> int:
        """Leading blocks of this prompt that are in the cache; its last token never counts."""
        if not self._prefix_caching:
            return 0
        limit = min(len(hashes), (prompt_tokens - 1) // self.block_size)
        found = 0
        while found < limit and hashes[found] in self._references:
            found += 1
        return found

    def reserve(
        self, hashes: Sequence[int], prompt_tokens: int, total_tokens: int
    ) -> Allocation | None:
        """Take the blocks for total_tokens, cached ones first; None when there is no room."""
        cached = self.matched(hashes, prompt_tokens)
        shared = list(hashes[:cached])
        woken = sum(1 for block in shared if block in self._idle)
        private = self.blocks_of(total_tokens) - cached
        if private > self.free + len(self._idle) - woken:
            return None
        for block in shared:
            self._idle.pop(block, None)
            self._references[block] += 1
        while self.free < private:
            self._evict()
        self.free -= private
        return Allocation(cached, cached, shared, private)

    def publish(self, allocation: Allocation, hashes: Sequence[int], computed_tokens: int) -> None:
        """Give the full blocks computed so far their hashes, so that others may share them.

        A block whose hash another request published in the meantime stays private.
        """
        if not self._prefix_caching:
            return
        full = min(len(hashes), computed_tokens // self.block_size)
        for block in hashes[allocation.published : full]:
            if block not in self._references:
                self._references[block] = 1
                allocation.held.append(block)
                allocation.private -= 1
        allocation.published = max(allocation.published, full)

    def release(self, allocation: Allocation) -> None:
        """Give everything back; hashed blocks stay until their room is needed, tails go first."""
        self.free += allocation.private
        allocation.private = 0
        for block in reversed(allocation.held):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._idle[block] = None
        allocation.held = []

    def reset(self) -> bool:
        """Forget every block that nobody references; False when some are still referenced."""
        while self._idle:
            self._evict()
        return not self._references

    def _evict(self) -> None:
        block = next(iter(self._idle))
        del self._idle[block]
        del self._references[block]
        self.free += 1
