"""Hostile streams say the same with other events: nothing lost, tokens and times unchanged."""

import pytest

from bench.simulator.completion import Completion, Piece, pieces_of
from bench.simulator.hostile import Hostile, buffered, coalesced
from bench.simulator.policy import Call, Reply

REPLY = Reply(
    content="Let me look that up.",
    calls=[Call("sql_query", '{"query": "SELECT 1"}'), Call("web_search", '{"query": "x y"}')],
    final=False,
)


def said(pieces: list[Piece]) -> tuple[str, list[tuple[str, str]], str]:
    completion = Completion(pieces, 500, "m", "f", True, False)
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in completion._calls()
    ]
    content = "".join((piece.delta or {}).get("content", "") for piece in pieces)
    return content, calls, completion.finish_reason


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_coalesced_tokens_say_the_same(count: int) -> None:
    plain = pieces_of(REPLY)
    found = coalesced(plain, count)
    assert [piece.text for piece in found] == [piece.text for piece in plain]
    assert said(found) == said(plain)
    assert sum(piece.delta is not None for piece in found) <= -(-len(plain) // count)


def test_buffered_calls_come_whole_with_the_last_token() -> None:
    plain = pieces_of(REPLY)
    found = buffered(plain)
    assert said(found) == said(plain)
    with_calls = [n for n, p in enumerate(found) if p.delta and "tool_calls" in p.delta]
    assert with_calls == [len(found) - 1]
    assert buffered(pieces_of(Reply(content="No tool."))) == pieces_of(Reply(content="No tool."))


def test_both_at_once() -> None:
    plain = pieces_of(REPLY)
    assert said(Hostile(tokens_per_chunk=4, buffer_calls=True).shaped(plain)) == said(plain)
    assert Hostile().shaped(plain) == plain
