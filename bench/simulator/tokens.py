"""Text to tokens and back, without a vocabulary: about four characters a token, lossless.

A piece is a run of letters (at most nine), of digits (at most three) or of punctuation (at most
four), each with the space before it, or of white space; the pieces of a text joined again are the
text. That is close enough to a Llama tokeniser in count and in what matters to a prefix cache:
equal text gives equal tokens, and a prompt that extends another one shares its tokens.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

_PIECE = re.compile(r" ?[^\W\d_]{1,9}| ?\d{1,3}| ?[^\w\s]{1,4}|\s+(?= )|\s+|_+")
_HEAD = "<|start_header_id|>{role}<|end_header_id|>\n\n"
_END = "<|eot_id|>"


def pieces(text: str) -> list[str]:
    """The tokens of a text as strings; `"".join(pieces(text)) == text`."""
    found = _PIECE.findall(text)
    if sum(map(len, found)) == len(text):
        return found
    return _with_gaps(text)


def _with_gaps(text: str) -> list[str]:
    """Pieces of a text with characters that are in no class (rare number forms)."""
    found: list[str] = []
    end = 0
    for match in _PIECE.finditer(text):
        found += text[end : match.start()]
        found.append(match.group())
        end = match.end()
    found += text[end:]
    return found


class Tokeniser:
    """Token ids of prompts, with the ids of recent message texts kept.

    Ids are Python string hashes: the same within a process, not between processes.
    max_characters bounds the texts that are kept.
    """

    def __init__(self, max_characters: int = 8_000_000) -> None:
        self._limit = max_characters
        self._held = 0
        self._ids: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def ids(self, text: str) -> tuple[int, ...]:
        """The token ids of a text."""
        known = self._ids.get(text)
        if known is not None:
            self._ids.move_to_end(text)
            return known
        ids = tuple(map(hash, pieces(text)))
        self._ids[text] = ids
        self._held += len(text)
        while self._held > self._limit and len(self._ids) > 1:
            self._held -= len(self._ids.popitem(last=False)[0])
        return ids

    def prompt(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> list[int]:
        """The token ids of a chat prompt: `render`, then the head of the assistant's turn."""
        ids: list[int] = []
        for part in render(messages, tools):
            ids += self.ids(part)
        return ids


def render(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of a chat prompt in order, as a chat template would write it.

    The tools' JSON follows the system message; an assistant turn is written as it was generated
    (`reply_parts`), so the prompt of the next turn extends this one token for token.
    """
    parts: list[str] = []
    tool_text = "\n\n" + json.dumps(list(tools), ensure_ascii=False) if tools else ""
    placed = not tool_text
    for message in messages:
        role = str(message.get("role", "user"))
        if not placed and role != "system":
            parts += [_HEAD.format(role="system"), tool_text, _END]
            placed = True
        parts.append(_HEAD.format(role=role))
        if role == "assistant":
            calls = message.get("tool_calls") or []
            parts += reply_parts(
                content_text(message), [call.get("function") or {} for call in calls]
            )
        else:
            parts.append(content_text(message))
        if not placed:
            parts.append(tool_text)
            placed = True
        parts.append(_END)
    parts.append(_HEAD.format(role="assistant"))
    return parts


def content_text(message: Mapping[str, Any]) -> str:
    """The text of a message, whether given as a string, as parts, or not at all."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def call_head(name: str) -> str:
    """What a model writes before the arguments of a call (Llama 3.1's JSON form)."""
    return f'{{"name": "{name}", "parameters": '


CALL_TAIL = "}"
CALL_BREAK = "; "


def reply_parts(content: str, calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts of an assistant turn: its content, then head, arguments and tail of each call.

    Prompt and generation tokenise the same parts, so a turn keeps its tokens when it is repeated.
    """
    parts = [content] if content else []
    for number, call in enumerate(calls):
        arguments = call.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if number:
            parts.append(CALL_BREAK)
        parts += [call_head(str(call.get("name", ""))), arguments, CALL_TAIL]
    return parts


def block_hashes(ids: Sequence[int], block_size: int) -> list[int]:
    """Chained hashes of the full blocks: each one stands for its tokens and all before them."""
    ids = tuple(ids)
    chained: list[int] = []
    before = 0
    for start in range(0, len(ids) - block_size + 1, block_size):
        before = hash((before, ids[start : start + block_size]))
        chained.append(before)
    return chained
