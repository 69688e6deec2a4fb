"""Dealing tasks: pure, close to the mix, every task used, repeats late."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.episode import Task, Workload
from bench.errors import ScenarioError
from bench.load.deal import BLOCK, check_deal, deal, shares

MIX = {"naive_rag": 1.0, "react_1": 1.0, "react_2": 2.0, "parallel": 1.0, "selection": 3.0}


def make_tasks(per_workload: int) -> dict[Workload, list[Task]]:
    return {
        workload: [
            Task(id=f"{workload.value}-{number}", workload=workload, question="?")
            for number in range(per_workload)
        ]
        for workload in Workload
    }


TASKS = make_tasks(12)

mixes = st.dictionaries(
    st.sampled_from([workload.value for workload in Workload]),
    st.floats(min_value=0.01, max_value=10.0),
    min_size=1,
)


@given(mix=mixes, seed=st.integers(0, 2**32), user=st.integers(0, 500), block=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_every_block_is_within_one_episode_of_the_mix(
    mix: dict[str, float], seed: int, user: int, block: int
) -> None:
    total = sum(mix.values())
    dealt = Counter(
        deal(TASKS, mix, seed, user, block * BLOCK + place).workload.value for place in range(BLOCK)
    )
    for name, weight in mix.items():
        assert abs(dealt[name] - BLOCK * weight / total) < 1 + 1e-9
    assert set(dealt) <= set(mix)


def test_an_arm_sees_the_same_tasks_in_any_order_of_asking() -> None:
    keys = [(user, episode) for user in range(4) for episode in range(30)]
    forwards = {key: deal(TASKS, MIX, 7, *key) for key in keys}
    backwards = {key: deal(make_tasks(12), MIX, 7, *key) for key in reversed(keys)}
    assert forwards == backwards
    assert forwards != {key: deal(TASKS, MIX, 8, *key) for key in keys}


def test_users_do_not_walk_in_step() -> None:
    orders = [tuple(deal(TASKS, MIX, 7, user, e).id for e in range(20)) for user in range(16)]
    assert len(set(orders)) == 16


def test_a_user_sees_every_item_once_before_one_repeats() -> None:
    items = make_tasks(120)
    mix = {"react_1": 1.0, "selection": 2.0}
    dealt = [deal(items, mix, 3, 5, episode) for episode in range(170)]
    chosen = [task.id for task in dealt if task.workload is Workload.selection]
    assert len(chosen) < 120  # so none may repeat yet
    assert len(set(chosen)) == len(chosen)


def test_items_spread_over_users() -> None:
    items = make_tasks(120)
    dealt = [deal(items, {"selection": 1.0}, 3, user, e).id for user in range(8) for e in range(9)]
    assert len(set(dealt)) == len(dealt)


def test_all_tasks_are_used_in_the_end() -> None:
    dealt = Counter(deal(TASKS, {"web": 1.0}, 1, 0, episode).id for episode in range(36))
    assert set(dealt.values()) == {3}
    assert len(dealt) == 12


def test_shares_fill_the_unit_interval() -> None:
    parts = shares(MIX)
    assert parts[0].low == 0.0
    assert parts[-1].high == 1.0
    assert all(before.high == after.low for before, after in pairwise(parts))


def test_a_workload_without_tasks_is_an_error_with_a_remedy() -> None:
    tasks = {Workload.react_1: TASKS[Workload.react_1]}
    with pytest.raises(ScenarioError, match=r"workload\.mix\.web=2\.0.*set workload\.mix\.web=0"):
        check_deal(tasks, {"react_1": 1.0, "web": 2.0})
    check_deal(tasks, {"react_1": 1.0, "web": 0.0})
