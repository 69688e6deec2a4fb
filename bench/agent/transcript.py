"""Transcript: the messages of one episode as the next model call will send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bench.client.calls import MAX_DEPTH, is_deeper
from bench.episode import ToolCall

ARGUMENT_CHARS = 100_000  # of one call: a longer text would hold up the loop it is parsed in


class Transcript:
    """Builds the `messages` of a chat request, append only: the prefix never changes."""

    def __init__(self, system: str, user: str) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        self._ids: set[str] = set()

    def add_turn(
        self, content: str, calls: Sequence[ToolCall], observations: Sequence[str]
    ) -> None:
        """Append an assistant turn and the observation of each of its calls, in their order.

        Arguments that are no JSON object are not sent again: a server refuses them in the
        history for the rest of the episode (vllm#55497), so `{}` stands in their place.
        """
        ids = [self._own_id(call.id) for call in calls]
        self.messages.append(
            {
                "role": "assistant",
                "content": content,
                "tool_calls": [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {
                            "name": call.name,
                            "arguments": "{}"
                            if parse_arguments(call.arguments) is None
                            else call.arguments,
                        },
                    }
                    for call_id, call in zip(ids, calls, strict=True)
                ],
            }
        )
        for call_id, observation in zip(ids, observations, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": observation})

    def _own_id(self, wanted: str) -> str:
        """The model's id, made unique: some servers number the calls of every turn from 0."""
        own, number = wanted, 1
        while own in self._ids:
            own, number = f"{wanted}-{number}", number + 1
        self._ids.add(own)
        return own


def parse_arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call; None when the text is no JSON object or longer than any query is."""
    if len(text) > ARGUMENT_CHARS:
        return None
    try:
        arguments = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None if is_deeper(arguments, MAX_DEPTH) else arguments
