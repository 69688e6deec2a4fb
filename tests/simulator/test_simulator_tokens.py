"""The pseudo-tokeniser: lossless, about four characters a token, stable prefixes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.simulator.tokens import Tokeniser, block_hashes, call_head, pieces, render

PROSE = (
    "The late-delivery penalty is 2% per month on the invoiced amount, and the price revision is "
    "linked to the euro area index. Which special conditions recur in contracts above 100000?"
)


@given(st.text(max_size=300))
def test_lossless(text: str) -> None:
    assert "".join(pieces(text)) == text


def test_about_four_characters_a_token() -> None:
    assert 3.5 < len(PROSE) / len(pieces(PROSE)) < 5.5


def test_a_known_text_is_not_cut_again_and_memory_is_bounded() -> None:
    tokeniser = Tokeniser(max_characters=1000)
    first = tokeniser.ids(PROSE)
    assert tokeniser.ids(PROSE) is first
    for number in range(50):
        tokeniser.ids(f"{number} {PROSE}")
    assert tokeniser.ids(PROSE) is not first
    assert tokeniser.ids(PROSE) == first


def test_the_prompt_of_the_next_turn_extends_prompt_and_reply() -> None:
    tokeniser = Tokeniser()
    tools = [{"type": "function", "function": {"name": "sql_query", "description": "Counts."}}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "[salt u4]\nYou are an analyst."},
        {"role": "user", "content": PROSE},
    ]
    first = tokeniser.prompt(messages, tools)
    arguments = '{"query": "SELECT COUNT(*) FROM contracts", "params": []}'
    thought = "I need exact figures."
    said = [*pieces(thought), *pieces(call_head("sql_query")), *pieces(arguments), *pieces("}")]
    call = {"id": "1", "type": "function"}
    messages += [
        {
            "role": "assistant",
            "content": thought,
            "tool_calls": [{**call, "function": {"name": "sql_query", "arguments": arguments}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": '{"rows": [{"count": 47}]}'},
    ]
    second = tokeniser.prompt(messages, tools)
    generated = [hash(piece) for piece in said]
    assert second[: len(first)] == first
    assert second[len(first) : len(first) + len(generated)] == generated
    assert len(second) > len(first) + len(generated)


def test_tools_are_part_of_the_prompt_even_without_a_system_message() -> None:
    tools = [{"type": "function", "function": {"name": "web_search"}}]
    text = "".join(render([{"role": "user", "content": "Hello"}], tools))
    assert text.index("web_search") < text.index("Hello")


def test_block_hashes_chain() -> None:
    ids = list(range(100))
    hashes = block_hashes(ids, 16)
    assert len(hashes) == 6  # full blocks only
    changed = block_hashes([*ids[:20], -1, *ids[21:]], 16)
    assert changed[0] == hashes[0]
    assert all(a != b for a, b in zip(changed[1:], hashes[1:], strict=True))
