"""What the simulated model makes of what it read: it quotes, compactly.

Rows become `key = value`, documents and pages their most relevant sentences, errors an
acknowledgement. Numbers and names are kept as they stand, so whether an answer holds the expected
facts depends on what the tools returned.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bench.simulator.tokens import pieces

ANSWER_TOKENS = 70
MIN_TOKENS = 30  # of texts, however many observations there are
SHORT_TOKENS = 40  # an answer below gets a sentence before and after, as people write them
LEAD = (
    "The records that were looked up for this question give the following figures, as they stand "
    "in the tables of the company today:"
)
CLOSE = "This covers what was asked; nothing else had to be consulted for it."
ROWS_QUOTED = 6
FIGURE_BONUS = 0.5  # of a sentence that holds a number
RANK_PENALTY = 0.1  # of a text, for each better ranked one
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|\n+")
_WORD = re.compile(r"\w+", re.UNICODE)
_TEXT_KEYS = ("text", "content", "snippet", "body")
_COMMON = re.compile(
    r"(a|an|and|are|at|by|did|do|does|for|from|how|in|is|it|many|much|of|on|or|our|that|the|their"
    r"|this|to|was|we|were|what|when|which|who|with|you|your)"
)


class Seen(msgspec.Struct, frozen=True):
    """One observation and the arguments of the call that it answers, both as text."""

    arguments: str
    content: str


def answer_from(question: str, seen: Sequence[Seen]) -> str:
    """The final answer from what the tools returned, each a JSON text or plain text."""
    if not seen:
        return "I can answer this directly, without looking anything up."
    left = ANSWER_TOKENS
    parts: dict[int, str] = {}
    texts: list[int] = []
    quoted_rows = False
    for number, each in enumerate(seen):
        error = observation_error(each.content)
        rows = _quote_rows(each.content)
        if error:
            parts[number] = f"One source was not available ({error}), so this part is missing."
        elif rows is None:
            texts.append(number)
        else:
            parts[number] = rows or "One source returned nothing."
            left -= len(pieces(rows))
            quoted_rows = quoted_rows or bool(rows)
    for number in texts:
        wanted = f"{question} {seen[number].arguments}"
        found = quote(wanted, seen[number].content, max(MIN_TOKENS, left // len(texts)))
        parts[number] = found or "One source returned nothing."
    answer = " ".join(parts[number] for number in range(len(seen)))
    short = quoted_rows and len(pieces(answer)) < SHORT_TOKENS
    return f"{LEAD} {answer} {CLOSE}" if short else answer


def answer_from_context(question: str, context: str) -> str:
    """The answer of naive RAG: what fits the question best in the retrieved context."""
    error = observation_error(context)
    if error:
        return f"The documents were not available ({error})."
    return quote(question, context, ANSWER_TOKENS) or "The context does not answer this question."


def observation_error(observation: str) -> str:
    """The error that an observation reports; empty when it reports none."""
    parsed = _parsed(observation)
    if isinstance(parsed, dict) and parsed.get("error"):
        tool = parsed.get("tool")
        return f"{tool}: {parsed['error']}" if tool else str(parsed["error"])
    return ""


def quote(wanted: str, observation: str, tokens: int) -> str:
    """The rows of an observation, or its best sentences up to about `tokens` tokens.

    wanted: the question and the arguments of the call, whose words make a sentence relevant.
    """
    rows = _quote_rows(observation)
    if rows is not None:
        return rows
    parsed = _parsed(observation)
    texts = [observation] if parsed is None else list(_texts(parsed))
    return _best_sentences(wanted, texts, tokens)


def _quote_rows(observation: str) -> str | None:
    """Rows as `key = value`; None when the observation holds texts instead."""
    parsed = _parsed(observation)
    if parsed is None or any(True for _ in _texts(parsed)):
        return None
    rows = list(_rows(parsed))
    lines = ["; ".join(f"{key} = {value}" for key, value in row.items()) for row in rows]
    more = f" (and {len(lines) - ROWS_QUOTED} more rows)" if len(lines) > ROWS_QUOTED else ""
    return ". ".join(lines[:ROWS_QUOTED]) + more + ("." if lines else "")


def _parsed(observation: str) -> Any:
    """The observation as JSON; None when it is plain text."""
    try:
        parsed = json.loads(observation)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _texts(parsed: Any) -> Iterator[str]:
    """Every text of documents or pages in an observation."""
    if isinstance(parsed, dict):
        for key, value in parsed.items():
            if key in _TEXT_KEYS and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(parsed, list):
        for item in parsed:
            yield from _texts(item)


def _rows(parsed: Any) -> Iterator[dict[str, Any]]:
    """The rows of a query result: dictionaries, or columns beside lists of values."""
    if isinstance(parsed, dict):
        columns, rows = parsed.get("columns"), parsed.get("rows")
        if isinstance(columns, list) and isinstance(rows, list):
            for row in rows:
                if isinstance(row, list):
                    yield dict(zip(map(str, columns), row, strict=False))
            if any(isinstance(row, list) for row in rows):
                return
        for value in parsed.values():
            if isinstance(value, list):
                yield from _rows(value)
        flat = {k: v for k, v in parsed.items() if not isinstance(v, dict | list)}
        if flat and not isinstance(rows, list):
            yield flat
    elif isinstance(parsed, list):
        for item in parsed:
            yield from _rows(item)


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def _best_sentences(wanted: str, texts: Sequence[str], tokens: int) -> str:
    """The sentences that share most words with `wanted`, in their order, up to `tokens`.

    A shared word counts for more the fewer of the texts hold it; the words of the whole text count
    half. Of equally good ones the earlier (better ranked) comes first; at least one is quoted.
    """
    words_of = [_words(text) for text in texts]
    terms = _words(wanted)
    weight = {
        term: math.log1p(len(texts) / holding)
        for term in terms
        if (holding := sum(term in words for words in words_of))
    }
    sentences: list[str] = []
    scored: list[tuple[float, int]] = []
    for rank, (text, words) in enumerate(zip(texts, words_of, strict=True)):
        of_text = sum(weight[term] for term in terms & words)
        for sentence in _sentences(text):
            own = sum(weight[term] for term in terms & _words(sentence))
            own += FIGURE_BONUS * any(character.isdigit() for character in sentence)
            scored.append((-(own + of_text / 2) + RANK_PENALTY * rank, len(sentences)))
            sentences.append(sentence)
    chosen: list[int] = []
    left = tokens
    for _, position in sorted(scored):
        size = len(pieces(sentences[position]))
        if chosen and size > left:
            continue
        chosen.append(position)
        left -= size
    return " ".join(sentences[position] for position in sorted(chosen))


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if not _COMMON.fullmatch(word)}
