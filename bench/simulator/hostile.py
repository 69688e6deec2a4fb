"""Hostile on request: streams as some servers write them, for the tests of clients.

A request asks for them with `"simulate": {...}` beside OpenAI's own fields. Two of them rewrite
the deltas (`coalesced`, `buffered`); the number of tokens and their times stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bench.simulator.completion import Piece


class Hostile(msgspec.Struct, frozen=True, kw_only=True):
    """What the stream of one request does.

    tokens_per_chunk: one event holds the text of so many tokens, and comes with the last of them.
    buffer_calls: all tool calls come whole, in one event, with the last token.
    error_after: the stream ends with an error event after so many tokens; None: it does not.
    role_first: an event with the role alone is written at once, before there is a token.
    start_delay_s: seconds before the response begins (its status line included).
    """

    tokens_per_chunk: int = 1
    buffer_calls: bool = False
    error_after: int | None = None
    role_first: bool = False
    start_delay_s: float = 0.0

    def shaped(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The same tokens with other deltas."""
        found = buffered(pieces) if self.buffer_calls else list(pieces)
        return coalesced(found, self.tokens_per_chunk)


def coalesced(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """Every `count` tokens share one delta, which comes with the last of them."""
    if count <= 1:
        return list(pieces)
    found: list[Piece] = []
    for start in range(0, len(pieces), count):
        group = pieces[start : start + count]
        found += [Piece(piece.text, None) for piece in group[:-1]]
        found.append(Piece(group[-1].text, _merged(piece.delta for piece in group)))
    return found


def buffered(pieces: Sequence[Piece]) -> list[Piece]:
    """The tool calls of a turn whole, in one delta, with its last token."""
    calls = [piece.delta for piece in pieces if piece.delta and "tool_calls" in piece.delta]
    if not calls:
        return list(pieces)
    found = [
        Piece(piece.text, None if piece.delta and "tool_calls" in piece.delta else piece.delta)
        for piece in pieces
    ]
    last = found[-1]
    found[-1] = Piece(last.text, _merged([last.delta, *calls]))
    return found


def _merged(deltas: Any) -> dict[str, Any] | None:
    """One delta that says all that these say; None when they say nothing."""
    content = ""
    calls: dict[int, dict[str, Any]] = {}
    for delta in deltas:
        content += (delta or {}).get("content", "")
        for part in (delta or {}).get("tool_calls", []):
            known = calls.get(part["index"])
            if known is None:
                calls[part["index"]] = {**part, "function": dict(part["function"])}
            else:
                known["function"]["arguments"] += part["function"]["arguments"]
    merged: dict[str, Any] = {"content": content} if content else {}
    if calls:
        merged["tool_calls"] = list(calls.values())
    return merged or None
