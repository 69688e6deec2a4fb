"""The prefix cache: chained hashes, full blocks, last token computed, LRU, references."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.simulator.blocks import Allocation, Blocks, Hashes, Run


def taken(blocks: Blocks, hashes: Hashes, tokens: int, total: int) -> Allocation:
    allocation = blocks.reserve(hashes, tokens, total)
    assert allocation is not None
    return allocation


def path(allocation: Allocation) -> list[Run]:
    """The runs that an allocation holds, the root left out."""
    found = []
    run = allocation.run
    while run.parent is not None:
        found.append(run)
        run = run.parent
    return found


def test_a_second_request_shares_full_blocks_but_never_the_last_token() -> None:
    blocks = Blocks(kv_tokens=1600, block_size=16, prefix_caching=True)
    first = taken(blocks, [1, 2, 3, 4], 64, 80)
    assert first.cached_blocks == 0
    assert blocks.used == 5
    blocks.publish(first, [1, 2, 3, 4], 64)
    assert blocks.matched([1, 2, 3, 4], 64) == 3  # 64 tokens: the last one is computed
    assert blocks.matched([1, 2, 3, 4], 65) == 4
    assert blocks.matched([1, 2, 9, 10], 65) == 2  # a chain ends at the first difference
    second = taken(blocks, [1, 2, 3, 4], 65, 80)
    assert second.cached_blocks == 4
    assert blocks.used == 6  # four shared, one private each


def test_only_computed_blocks_are_published() -> None:
    blocks = Blocks(1600, 16, True)
    first = taken(blocks, [1, 2, 3, 4], 64, 64)
    blocks.publish(first, [1, 2, 3, 4], 40)
    assert blocks.matched([1, 2, 3, 4], 100) == 2


def test_the_least_recently_used_content_goes_first_tails_before_heads() -> None:
    blocks = Blocks(64, 16, True)  # four blocks
    old = taken(blocks, [1, 2], 32, 32)
    blocks.publish(old, [1, 2], 32)
    blocks.release(old)
    new = taken(blocks, [3], 16, 16)
    blocks.publish(new, [3], 16)
    blocks.release(new)
    assert (blocks.free, blocks.idle, blocks.used) == (1, 3, 0)
    taken(blocks, [], 32, 32)  # one free block and the eldest idle one: the tail of `old`
    assert blocks.matched([1, 2], 100) == 1
    assert blocks.matched([3], 100) == 1


def test_no_room_is_refused_and_changes_nothing() -> None:
    blocks = Blocks(64, 16, True)
    held = taken(blocks, [1, 2], 32, 32)
    assert blocks.reserve([5, 6, 7], 48, 48) is None
    assert (blocks.free, blocks.used) == (2, 2)
    blocks.release(held)
    assert blocks.reserve([5, 6, 7], 48, 48) is not None


def test_a_cached_block_that_is_needed_is_not_counted_as_room() -> None:
    blocks = Blocks(64, 16, True)
    first = taken(blocks, [1, 2, 3, 4], 64, 64)
    blocks.publish(first, [1, 2, 3, 4], 64)
    blocks.release(first)
    assert blocks.idle == 4
    assert blocks.reserve([1, 2, 3], 49, 96) is None  # three shared and three new: six of four
    assert blocks.idle == 4


def test_without_prefix_caching_nothing_is_shared() -> None:
    blocks = Blocks(160, 16, False)
    first = taken(blocks, [1, 2], 32, 32)
    blocks.publish(first, [1, 2], 32)
    blocks.release(first)
    assert blocks.matched([1, 2], 100) == 0
    assert blocks.free == blocks.capacity


def test_what_two_requests_computed_at_the_same_time_is_shared_by_the_third() -> None:
    blocks = Blocks(1600, 16, True)
    first = taken(blocks, [1, 2, 3], 48, 48)
    second = taken(blocks, [1, 2, 4], 48, 48)
    blocks.publish(first, [1, 2, 3], 48)
    blocks.publish(second, [1, 2, 4], 48)
    assert blocks.used == 4  # the copies of 1 and 2 are given back
    assert second.private == 0
    assert blocks.matched([1, 2, 4, 9], 64) == 3
    blocks.release(first)
    assert (blocks.used, blocks.idle) == (3, 1)  # 1 and 2 are held by the second one now
    blocks.release(second)
    assert (blocks.used, blocks.idle) == (0, 4)


def test_a_run_is_evicted_from_its_tail_and_only_as_far_as_needed() -> None:
    blocks = Blocks(160, 16, True)
    old = taken(blocks, list(range(8)), 128, 128)
    blocks.publish(old, list(range(8)), 128)
    blocks.release(old)
    blocks.take(5)
    assert (blocks.free, blocks.idle, blocks.used) == (0, 5, 5)
    assert blocks.matched(list(range(8)), 200) == 5
    assert blocks.room == 5


def test_hashes_may_be_computed_on_demand() -> None:
    class Lazy:
        asked = 0

        def __len__(self) -> int:
            return 4096

        def __getitem__(self, block: int) -> int:
            Lazy.asked += 1
            return 7 * block

    blocks = Blocks(160_000, 16, True)
    first = taken(blocks, Lazy(), 65536, 65536)
    blocks.publish(first, Lazy(), 65536)
    assert blocks.matched(Lazy(), 70_000) == 4096
    assert blocks.matched([7 * at if at < 1234 else -at for at in range(4096)], 70_000) == 1234
    assert Lazy.asked < 100


def test_reset_forgets_what_nobody_holds() -> None:
    blocks = Blocks(160, 16, True)
    first = taken(blocks, [1, 2], 32, 32)
    blocks.publish(first, [1, 2], 32)
    assert not blocks.reset()
    blocks.release(first)
    assert blocks.reset()
    assert blocks.matched([1, 2], 100) == 0
    assert blocks.free == blocks.capacity


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "publish", "release"]),
            st.integers(0, 3),  # which conversation
            st.integers(1, 200),  # prompt tokens, or which allocation
            st.integers(0, 60),  # output tokens
        ),
        max_size=60,
    )
)
def test_blocks_are_conserved_and_never_negative(
    actions: list[tuple[str, int, int, int]],
) -> None:
    blocks = Blocks(320, 16, True)
    held: list[tuple[Allocation, list[int], int]] = []
    for action, chat, number, output in actions:
        if action == "reserve":
            hashes = [hash((chat, block)) for block in range((number + output) // 16)]
            allocation = blocks.reserve(hashes, number, number + output)
            if allocation is not None:
                assert allocation.cached_blocks * 16 < number
                held.append((allocation, hashes, number + output))
        elif held:
            allocation, hashes, total = held[number % len(held)]
            if action == "publish":
                blocks.publish(allocation, hashes, min(total, number))
            else:
                blocks.release(allocation)
                held.remove((allocation, hashes, total))
        private = sum(one.private for one, _, _ in held)
        runs = {run for one, _, _ in held for run in path(one)}
        assert blocks.used == private + sum(run.stop - run.start for run in runs)
        assert all(run.holders > 0 for run in runs)
        assert blocks.free >= 0
        assert all(one.private >= 0 for one, _, _ in held)
    for allocation, _, _ in held:
        blocks.release(allocation)
    assert blocks.used == 0
    assert blocks.reset()
    assert blocks.free == blocks.capacity
