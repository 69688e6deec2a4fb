"""One completion as the OpenAI face writes it: a chunk of bytes for each token.

Tool calls come in vLLM's delta format: nothing until a call's name is complete, then one delta
with index, id, type and name, then the arguments token by token. Everything is encoded before the
first token is due, so that emitting a token costs one write.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.simulator.policy import Call, Reply
from bench.simulator.tokens import CALL_BREAK, CALL_TAIL, call_head, pieces

DONE = b"data: [DONE]\n\n"
TAIL = b',"logprobs":null,"finish_reason":null}]}\n\n'
_encode = msgspec.json.Encoder().encode


class Piece(msgspec.Struct, frozen=True):
    """One token: its text and the delta that the client sees with it (None: withheld)."""

    text: str
    delta: dict[str, Any] | None


def pieces_of(reply: Reply) -> list[Piece]:
    """The tokens of an assistant turn, with their deltas."""
    found = [Piece(text, {"content": text}) for text in pieces(reply.content)]
    for index, call in enumerate(reply.calls):
        if index:
            found += [Piece(text, None) for text in pieces(CALL_BREAK)]
        found += _call_pieces(call, index)
    return found


def _call_pieces(call: Call, index: int) -> list[Piece]:
    found: list[Piece] = []
    known_after = len(call_head(call.name).split(call.name)[0]) + len(call.name) + 1
    named = False
    written = 0
    for text in pieces(call_head(call.name)):
        written += len(text)
        delta = None
        if not named and written >= known_after:
            named = True
            delta = _call_delta(index, name=call.name, id=f"chatcmpl-tool-{secrets.token_hex(8)}")
        found.append(Piece(text, delta))
    found += [Piece(text, _call_delta(index, arguments=text)) for text in pieces(call.arguments)]
    found += [Piece(text, None) for text in pieces(CALL_TAIL)]
    return found


def _call_delta(index: int, arguments: str = "", name: str = "", id: str = "") -> dict[str, Any]:
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name:
        call |= {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    return {"tool_calls": [call]}


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one completion."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def body(self) -> dict[str, Any]:
        """The `usage` object (with --enable-prompt-tokens-details)."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Completion:
    """A chat completion (chat=True) or a text completion, ready to be written.

    `tokens` is cut to max_tokens; finish_reason is then `length`.
    """

    def __init__(
        self,
        tokens: Sequence[Piece],
        max_tokens: int,
        model: str,
        fingerprint: str,
        chat: bool,
        exact: bool,
    ) -> None:
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}"
        self.chat = chat
        self.tokens = list(tokens[:max_tokens])
        self._frame = {
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint,
        }
        called = any(piece.delta and "tool_calls" in piece.delta for piece in self.tokens)
        if exact or len(tokens) > max_tokens:
            self.finish_reason = "length"
        else:
            self.finish_reason = "tool_calls" if called else "stop"

    def chunks(self, with_role: bool = True) -> list[bytes]:
        """The server-sent event of each token; empty bytes for a withheld one.

        The first one carries the role (in a chunk of its own, unless `role_chunk` was written
        before), the last one the finish reason.
        """
        head = self._head()
        found = [self._event(head, piece.delta, TAIL) for piece in self.tokens]
        if self.chat and with_role:
            found[0] = self.role_chunk() + found[0]
        end = b',"logprobs":null,"finish_reason":' + _encode(self.finish_reason) + b"}]}\n\n"
        found[-1] += self._event(head, {} if self.chat else {"content": ""}, end)
        return found

    def role_chunk(self) -> bytes:
        """The event that says who speaks; nothing for a text completion."""
        role = {"role": "assistant", "content": ""}
        return self._event(self._head(), role, TAIL) if self.chat else b""

    def _head(self) -> bytes:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        frame = _encode({"id": self.id, "object": kind, **self._frame})
        return b"data: " + frame[:-1] + b',"choices":[{"index":0,'

    def _event(self, head: bytes, delta: dict[str, Any] | None, tail: bytes) -> bytes:
        if delta is None:
            return b""
        if self.chat:
            return head + b'"delta":' + _encode(delta) + tail
        return head + b'"text":' + _encode(delta.get("content", "")) + tail

    def usage_chunk(self, usage: Usage) -> bytes:
        """The last event before [DONE], when the request asked for usage."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        body = {"id": self.id, "object": kind, **self._frame, "choices": [], "usage": usage.body()}
        return b"data: " + _encode(body) + b"\n\n"

    def body(self, usage: Usage) -> bytes:
        """The whole completion in one JSON object (not streamed)."""
        text = "".join((p.delta or {}).get("content", "") for p in self.tokens)
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": self.finish_reason,
        }
        if self.chat:
            calls = self._calls()
            choice["message"] = {
                "role": "assistant",
                "content": text or None,
                **({"tool_calls": calls} if calls else {}),
            }
        else:
            choice["text"] = text
        kind = "chat.completion" if self.chat else "text_completion"
        return _encode(
            {
                "id": self.id,
                "object": kind,
                **self._frame,
                "choices": [choice],
                "usage": usage.body(),
            }
        )

    def _calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        for piece in self.tokens:
            for delta in (piece.delta or {}).get("tool_calls", []):
                if "id" in delta:
                    calls.append(
                        {
                            "id": delta["id"],
                            "type": "function",
                            "function": dict(delta["function"]),
                        }
                    )
                else:
                    calls[-1]["function"]["arguments"] += delta["function"]["arguments"]
        return calls
