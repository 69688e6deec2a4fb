"""Tool calls put together from the fragments of a stream, and what can be wrong with them.

A fragment belongs to the call of its index; a new id that comes with a name opens a new call even
when the server numbers every parallel call 0, and a new id without a name is the same call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bench.episode import ToolCall

LEAK = re.compile(
    r"</?tool_calls?>|</?tool_response>|\[TOOL_CALLS\]|<function=|<\|[A-Za-z_]+\|>|<｜[^｜]+｜>"
)
_END_REASONS = ("Unterminated string", "Invalid \\escape", "Invalid \\uXXXX escape")

MAX_DEPTH = 100  # of JSON from a model: far beyond any tool's schema


class CheckedCalls(msgspec.Struct, kw_only=True):
    """The calls of one answer. `problems`: why a call cannot be used, empty when all can.

    `unfinished`: a call's JSON is the beginning of a valid one, so it was cut off.
    `coerced`: names of calls whose arguments came as an escaped JSON string.
    """

    calls: list[ToolCall] = []
    problems: list[str] = []
    unfinished: bool = False
    coerced: list[str] = []


class _Draft(msgspec.Struct):
    id: str
    name: str
    arguments: str = ""


class CallAssembly:
    """Collects the fragments of one answer's tool calls."""

    def __init__(self) -> None:
        self.listed = False  # a list of calls came, perhaps an empty one
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def add(self, fragments: list[Any]) -> bool:
        """Take the `tool_calls` of one delta; True when a name or arguments came with it."""
        self.listed = True
        bearing = False
        for fragment in fragments:
            if isinstance(fragment, dict):
                bearing = self._add(fragment) or bearing
        return bearing

    def _add(self, fragment: dict[str, Any]) -> bool:
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name, call_id = _text(function.get("name")), _text(fragment.get("id"))
        arguments = _argument_text(function.get("arguments"))
        index = fragment.get("index")
        draft = self._draft_of(index)
        if draft is None or _opens(draft, call_id, name):
            draft = _Draft(call_id, name)
            self._drafts.append(draft)
        else:
            draft.id = draft.id or call_id
            if name != draft.name:  # a name in pieces; a repeated one is the same name
                draft.name += name
        if isinstance(index, int):
            self._by_index[index] = draft
        draft.arguments += arguments
        return bool(name or arguments)

    def _draft_of(self, index: object) -> _Draft | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        return self._drafts[-1] if self._drafts else None

    def check(self, required: Mapping[str, list[str]]) -> CheckedCalls:
        """The calls as they can be used. required: parameters each offered tool asks for."""
        checked = CheckedCalls(calls=[], problems=[], coerced=[])
        for number, draft in enumerate(self._drafts):
            if not draft.name:
                checked.problems.append("a call without a name")
                continue
            arguments = _checked_arguments(draft, bool(required.get(draft.name)), checked)
            checked.calls.append(ToolCall(draft.id or f"call_{number}", draft.name, arguments))
        return checked


def _opens(draft: _Draft, call_id: str, name: str) -> bool:
    """True when a fragment with a name begins another call than the draft of its index."""
    if not name or not draft.name:
        return False
    if call_id:
        return call_id != draft.id
    return bool(draft.arguments)


def _checked_arguments(draft: _Draft, needed: bool, checked: CheckedCalls) -> str:
    """The JSON text of a call's arguments; what is wrong with it goes to `checked`."""
    text = draft.arguments.strip()
    if not text or text == "null":
        if needed:
            checked.problems.append(f"the arguments of {draft.name} never came")
            return text
        return "{}"
    if LEAK.search(text):
        checked.problems.append(f"special tokens are left in the arguments of {draft.name}")
    try:
        value = load_json(text)
        if isinstance(value, str):
            text, value = _clean(value), load_json(value)
            checked.coerced.append(draft.name)
    except json.JSONDecodeError as error:
        checked.problems.append(f"the arguments of {draft.name} are no JSON")
        checked.unfinished |= error.pos >= len(error.doc) or error.msg.startswith(_END_REASONS)
        return text
    if not isinstance(value, dict):
        checked.problems.append(f"the arguments of {draft.name} are no JSON object")
    return text


def load_json(text: str) -> Any:
    """What a JSON text says. Raises json.JSONDecodeError, also for what Python does not take.

    Of 3,000 open brackets some versions say RecursionError, of a number of 5,000 digits all say
    a bare ValueError. What is nested deeper than MAX_DEPTH is refused by every version alike.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError(str(error), text, 0) from error
    if is_deeper(value, MAX_DEPTH):
        raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH}", text, 0)
    return value


def is_deeper(value: object, limit: int) -> bool:
    """True when lists and objects are nested deeper than `limit`; never recurses."""
    level: list[object] = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def dump_json(value: object) -> str:
    """JSON text of a decoded value; a bracketed reason, which is no JSON, when there is none."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        return f"[{error}]"


def _clean(text: str) -> str:
    """Text that can be encoded: an escaped half of a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _argument_text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return dump_json(value)
