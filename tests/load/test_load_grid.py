"""The plan of the idle grid and the length of its prompts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.grid import Cell, Ruler, make_prompt, plan, requests
from bench.scenario import Load


def make_load(repeats: int) -> Load:
    return Load(
        users=[1],
        grid_prompt_tokens=[256, 2048, 4096],
        grid_hit_rates=[0.0, 0.5, 0.9],
        grid_repeats=repeats,
    )


def test_every_cell_once_per_repeat_repeats_one_after_another() -> None:
    cells = plan(make_load(3), seed=1)
    assert len({cell.name for cell in cells}) == len(cells) == 27
    assert [cell.repeat for cell in cells] == [0] * 9 + [1] * 9 + [2] * 9
    assert Counter((cell.prompt_tokens, cell.hit_rate) for cell in cells).most_common(1)[0][1] == 3
    assert requests(cells) == 2 + 27 + 18


def test_the_order_is_shuffled_and_seeded() -> None:
    cells = plan(make_load(3), seed=1)
    assert cells == plan(make_load(3), seed=1)
    assert cells != plan(make_load(3), seed=2)
    lengths = [cell.prompt_tokens for cell in cells[:9]]
    assert lengths != sorted(lengths)


def test_no_grid_costs_nothing() -> None:
    assert plan(make_load(0), seed=1) == []
    assert requests([]) == 0


def test_names() -> None:
    assert Cell(prompt_tokens=4096, hit_rate=0.0, repeat=2).name == "p4096-h0-r2"
    assert Cell(prompt_tokens=256, hit_rate=0.75, repeat=0).name == "p256-h0.75-r0"


@given(
    tokens=st.integers(128, 16000),
    hit_rate=st.floats(0.0, 0.95),
    overhead=st.floats(0.0, 60.0),
    per_word=st.floats(0.5, 4.0),
)
def test_a_prompt_has_the_target_length_and_shares_the_planned_part(
    tokens: int, hit_rate: float, overhead: float, per_word: float
) -> None:
    ruler = Ruler(overhead_tokens=overhead, tokens_per_word=per_word)
    cell = Cell(prompt_tokens=tokens, hit_rate=hit_rate, repeat=0)
    prompt = make_prompt(cell, ruler, "run/grid/cell", seed=1)
    salt, _, shared = prompt.system.partition("\n")
    assert salt == "[salt run/grid/cell]"
    shared_tokens = len(shared.split()) * per_word
    length = overhead + shared_tokens + len(prompt.user.split()) * per_word
    assert length == pytest.approx(tokens, abs=per_word + 1e-6)
    assert max(0.0, shared_tokens) == pytest.approx(
        max(0.0, tokens * hit_rate - overhead), abs=per_word
    )


def test_prompts_of_different_repeats_share_no_text() -> None:
    ruler = Ruler(overhead_tokens=10.0, tokens_per_word=1.0)
    prompts = [
        make_prompt(Cell(prompt_tokens=512, hit_rate=0.5, repeat=repeat), ruler, "s", seed=1)
        for repeat in range(2)
    ]
    assert prompts[0].system != prompts[1].system
    assert prompts[0].user != prompts[1].user
