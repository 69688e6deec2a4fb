"""KV cache: blocks of tokens, shared by prefix, evicted least recently used.

The semantics of vLLM's prefix cache: a block's hash chains the hash before it with its own
tokens, full blocks only, the last token of a prompt is always computed, blocks that nobody
references stay until their room is needed.

The cache is a radix tree over runs of blocks, so cost follows branches, not blocks. Hashes are
chained: where two lists agree at a position, they agree before it. So where a prompt leaves a run
is found by bisection, and a caller may pass any sequence that computes its hashes on demand.
"""

from __future__ import annotations

from typing import Protocol


class Hashes(Protocol):
    """Chained hashes by block: a list, or something that computes them when asked."""

    def __len__(self) -> int: ...
    def __getitem__(self, block: int, /) -> int: ...


class Run:
    """Blocks start..stop of one content: a node of the tree, positions counted from the root.

    holders: allocations that end in this run or below it. hashes: of the whole path, by position.
    """

    __slots__ = ("children", "hashes", "holders", "parent", "start", "stop")

    def __init__(
        self, hashes: Hashes, start: int, stop: int, parent: Run | None, holders: int
    ) -> None:
        self.hashes = hashes
        self.start = start
        self.stop = stop
        self.parent = parent
        self.holders = holders
        self.children: dict[int, Run] = {}

    def agrees_to(self, hashes: Hashes, stop: int) -> int:
        """The position up to which these hashes are this run's; its first block is known to be."""
        if hashes[stop - 1] == self.hashes[stop - 1]:
            return stop
        low, high = self.start + 1, stop - 1
        while low < high:
            middle = (low + high + 1) // 2
            if hashes[middle - 1] == self.hashes[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low


class Allocation:
    """What one request holds: the path from the root to `run`, and `private` blocks.

    cached_blocks of its prompt were there already. Private blocks have no place in the tree: not
    computed yet, not full, or without a hash.
    """

    __slots__ = ("cached_blocks", "private", "run")

    def __init__(self, cached_blocks: int, run: Run, private: int) -> None:
        self.cached_blocks = cached_blocks
        self.run = run
        self.private = private


class Blocks:
    """The block pool of one engine.

    free + idle + used = capacity, where idle blocks are in the tree and nobody holds them.
    """

    def __init__(self, kv_tokens: int, block_size: int, prefix_caching: bool) -> None:
        self.block_size = block_size
        self.capacity = kv_tokens // block_size
        self.free = self.capacity
        self.idle = 0
        self._prefix_caching = prefix_caching
        self._root = Run((), 0, 0, None, 1)
        # In order of release; what is released together, tails first: the first one is a leaf.
        self._idle_runs: dict[Run, None] = {}

    @property
    def used(self) -> int:
        """Blocks that running requests hold."""
        return self.capacity - self.free - self.idle

    @property
    def room(self) -> int:
        """Blocks that can be taken."""
        return self.free + self.idle

    def blocks_of(self, tokens: int) -> int:
        """Blocks that `tokens` tokens need."""
        return -(-tokens // self.block_size)

    def matched(self, hashes: Hashes, prompt_tokens: int) -> int:
        """Leading blocks of this prompt that are in the cache; its last token never counts."""
        return self._find(self._root, hashes, self._limit(hashes, prompt_tokens))[1]

    def reserve(self, hashes: Hashes, prompt_tokens: int, total_tokens: int) -> Allocation | None:
        """Take the blocks for total_tokens, cached ones first; None when there is no room."""
        run, cached = self._find(self._root, hashes, self._limit(hashes, prompt_tokens))
        private = self.blocks_of(total_tokens) - cached
        if private > self.free and private > self.room - _idle_of(run, cached):
            return None
        if cached < run.stop:
            run = self._split(run, cached)
        self._hold(run, self._root)
        self.take(private)
        return Allocation(cached, run, private)

    def take(self, count: int) -> None:
        """Take blocks out of the room, which must be there."""
        self.free -= count
        while self.free < 0:
            self._evict(-self.free)

    def publish(self, allocation: Allocation, hashes: Hashes, computed_tokens: int) -> None:
        """Give the full blocks computed so far their hashes, so that others may share them.

        What another request published in the meantime is shared from now on, and the copies are
        given back (vLLM keeps them to the end of the request): so a request never holds more
        blocks than its tokens need.
        """
        full = min(len(hashes), computed_tokens // self.block_size)
        if not self._prefix_caching or full <= allocation.run.stop:
            return
        run, there = self._find(allocation.run, hashes, full)
        if there < run.stop:
            run = self._split(run, there)
        self._hold(run, allocation.run)
        allocation.private -= full - allocation.run.stop
        self.free += there - allocation.run.stop
        if there < full:
            if run.holders == 1 and not run.children and run is not self._root:
                run.hashes, run.stop = hashes, full
            else:
                run.children[hashes[there]] = run = Run(hashes, there, full, run, 1)
        allocation.run = run

    def release(self, allocation: Allocation) -> None:
        """Give everything back; hashed blocks stay until their room is needed, tails go first."""
        self.free += allocation.private
        allocation.private = 0
        run = allocation.run
        while run.parent is not None:
            run.holders -= 1
            if run.holders == 0:
                self._idle_runs[run] = None
                self.idle += run.stop - run.start
            run = run.parent
        allocation.run = self._root

    def reset(self) -> bool:
        """Forget every block that nobody references; False when some are still referenced."""
        while self._idle_runs:
            self._evict(self.capacity)
        return not self._root.children

    def _limit(self, hashes: Hashes, prompt_tokens: int) -> int:
        return min(len(hashes), (prompt_tokens - 1) // self.block_size)

    def _find(self, run: Run, hashes: Hashes, limit: int) -> tuple[Run, int]:
        """Follow the hashes below a run: the last run entered, and the position reached in it."""
        reached = run.stop
        while reached < limit and reached == run.stop:
            child = run.children.get(hashes[reached])
            if child is None:
                break
            run = child
            reached = child.agrees_to(hashes, min(child.stop, limit))
        return run, reached

    def _split(self, run: Run, at: int) -> Run:
        """Cut a run in two; the upper part, whose new holder comes at once."""
        assert run.parent is not None
        upper = Run(run.hashes, run.start, at, run.parent, run.holders)
        run.parent.children[run.hashes[run.start]] = upper
        upper.children[run.hashes[at]] = run
        run.parent, run.start = upper, at
        return upper

    def _hold(self, run: Run, above: Run) -> None:
        """One holder more for every run from here up to `above`, which is held already."""
        while run is not above:
            if run.holders == 0:
                self._idle_runs.pop(run, None)
                self.idle -= run.stop - run.start
            run.holders += 1
            assert run.parent is not None
            run = run.parent

    def _evict(self, wanted: int) -> None:
        """Free up to `wanted` blocks from the tail of the run that was released first."""
        run = next(iter(self._idle_runs))
        count = min(wanted, run.stop - run.start)
        run.stop -= count
        self.idle -= count
        self.free += count
        if run.stop == run.start:
            del self._idle_runs[run]
            assert run.parent is not None
            del run.parent.children[run.hashes[run.start]]


def _idle_of(run: Run, reached: int) -> int:
    """Blocks up to a position that nobody holds."""
    idle = 0
    while run.holders == 0:
        idle += min(reached, run.stop) - run.start
        assert run.parent is not None
        run = run.parent
    return idle
