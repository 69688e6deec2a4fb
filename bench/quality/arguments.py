"""Are two sets of arguments the same call? By JSON Schema type, not by text (methods.md section 6).

Numbers by value (5 equals 5.0), never across types ("5" is not 5, True is not 1); a missing
argument equals its default; SQL by its normalised syntax tree; the text of a search without regard
to case, spacing and punctuation; every other text exactly.
"""

from __future__ import annotations

import json
import re
from typing import Any

from bench.episode import Tool
from bench.sql import canonical

SEARCH_TOOLS = (Tool.vector_search.value, Tool.web_search.value)
MISSING = object()  # an argument that is absent and has no default


def same_arguments(
    tool: str, parameters: dict[str, Any], expected: dict[str, Any], called: str
) -> bool:
    """True when `called`, the raw JSON text of a call, means `expected`.

    tool: canonical name; parameters: the tool's JSON Schema. Text that is no JSON object never
    matches; empty text is an object without arguments.
    """
    try:
        found = json.loads(called) if called.strip() else {}
    except (ValueError, RecursionError):  # also a number of 5,000 digits, or 3,000 brackets
        return False
    if not isinstance(found, dict):
        return False
    properties = parameters.get("properties", {})
    for name in expected.keys() | found.keys():
        schema = properties.get(name, {})
        default = schema.get("default", MISSING) if isinstance(schema, dict) else MISSING
        if not _same(tool, expected.get(name, default), found.get(name, default)):
            return False
    return True


def _same(tool: str, one: Any, other: Any) -> bool:
    if one is MISSING or other is MISSING:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _same_text(tool, one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _same(tool, left, right) for left, right in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same(tool, one[name], other[name]) for name in one
        )
    return one is None and other is None


def _same_text(tool: str, one: str, other: str) -> bool:
    if tool == Tool.sql_query.value:
        tree = canonical(one)
        return tree is not None and tree == canonical(other)
    return tool in SEARCH_TOOLS and _words(one) == _words(other)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
