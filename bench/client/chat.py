"""One streamed chat completion: kept bytes in, the fields of an LLMRecord out.

Stamps (methods.md section 1): first_delta = arrival of the first chunk with non-empty content,
reasoning or tool call; first_answer = of the first content; last_delta = of the last such chunk.
Counts come from the server's `usage`, or are missing; text is never tokenised again. Of a record
with outcome `ok`, `error` is a remark (arguments coerced, request sent twice), else the reason.
"""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec

from bench.client.calls import LEAK, CallAssembly, CheckedCalls, dump_json, load_json
from bench.client.http import Connection, RawStream
from bench.client.sse import Event, parse_events
from bench.record import LLMOutcome, LLMRecord

PATH = "/chat/completions"
COLLAPSED_TOKENS = 4  # so many tokens may come at once; more is a stream held back
ERROR_CHARS = 400
MAX_COUNT = 1 << 40  # of tokens: more was never meant, and could not be recorded
_FAILED_FINISHES = ("abort", "error")


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    finish_reason: str | None = None
    message: Any = None


class _Chunk(msgspec.Struct, gc=False):
    """A chunk as servers send it. One of any other shape is read as a dict, more slowly."""

    choices: list[_Choice]
    usage: Any = None
    error: Any = None
    object: Any = None


_CHUNKS = msgspec.json.Decoder(_Chunk)


async def complete(
    connection: Connection, body: dict[str, Any], blank: LLMRecord, timeout_s: float
) -> LLMRecord:
    """Send one chat completion and wait for its end; `blank` with every field filled in.

    body: an OpenAI chat request with stream=true; with ignore_eos its length is fixed, so being
    cut by max_tokens is no truncation and what it says is not judged. Never raises for a failure
    of network or server: `outcome` and `error` tell it. When cancelled, see `cut_record`.
    """
    await connection.turns.take()
    stream = await connection.post(PATH, msgspec.json.encode(body), timeout_s)
    await connection.turns.take()
    return read_record(stream, body, blank)


def read_record(stream: RawStream, body: dict[str, Any], blank: LLMRecord) -> LLMRecord:
    """The record of an answer that ended, whole or not. Pure."""
    answer = _read_answer(stream)
    calls = answer.calls.check(_required_parameters(body))
    outcome, error = _judge(stream, answer, calls, body)
    if outcome is LLMOutcome.ok:
        error = _remarks(stream, calls)
    return _fill(blank, stream, answer, calls, outcome, error)


def cut_record(connection: Connection, blank: LLMRecord) -> LLMRecord:
    """The record of a call that was cancelled: stamps and text so far, outcome cut."""
    stream = connection.stream
    if stream.sent_ns is None or stream.sent_ns < blank.scheduled_ns:  # it never left
        return msgspec.structs.replace(blank, outcome=LLMOutcome.cut, error="cut before sending")
    answer = _read_answer(stream)
    record = _fill(blank, stream, answer, answer.calls.check({}), LLMOutcome.cut, "cut by us")
    return msgspec.structs.replace(record, done_ns=stream.done_ns or time.monotonic_ns())


class _Answer:
    """What the chunks of one answer said, and when."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.calls = CallAssembly()
        self.finish_reason = ""
        self.usage: dict[str, Any] = {}
        self.error = ""  # an error event
        self.malformed = ""  # an event that is no JSON object
        self.ended = False  # [DONE]
        self.streamed = True
        self.chunks = 0
        self.first_delta_ns: int | None = None
        self.first_answer_ns: int | None = None
        self.last_delta_ns: int | None = None

    def take_events(self, events: list[Event]) -> None:
        """Read events: the usual chunk of text in few steps, anything else as `take_event` does."""
        decode = _CHUNKS.decode
        for event in events:
            try:
                chunk = decode(event.data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self.take_event(event)
                continue
            if event.name or chunk.error or chunk.object == "error" or not chunk.choices:
                self.take_event(event)
                continue
            choice = chunk.choices[0]
            delta = choice.delta
            if chunk.usage is not None or delta.tool_calls is not None or choice.message:
                self.take_event(event)
                continue
            if choice.finish_reason and not self.finish_reason:
                self.finish_reason = choice.finish_reason
            content = delta.content
            if content:
                self.content.append(content)
                if self.first_answer_ns is None:
                    self.first_answer_ns = event.arrived_ns
            elif not (delta.reasoning or delta.reasoning_content):
                continue
            self._bear(event.arrived_ns)

    def _bear(self, arrived_ns: int) -> None:
        self.chunks += 1
        self.last_delta_ns = arrived_ns
        if self.first_delta_ns is None:
            self.first_delta_ns = arrived_ns

    def take_event(self, event: Event) -> None:
        """Read one event; an error event and a malformed one are remembered, the first of each."""
        data = event.data.strip()
        if data == b"[DONE]":
            self.ended = True
        elif data:
            chunk = _decoded(data)
            if event.name == b"error" or (chunk is not None and _is_error(chunk)):
                message = _message_of(chunk or {}) or data.decode("utf-8", "replace")
                self.error = self.error or message
            elif chunk is None:
                shown = data[:80].decode("utf-8", "replace")
                self.malformed = self.malformed or f"an event is no JSON object: {shown}"
            else:
                self.take_chunk(chunk, event.arrived_ns)

    def take_chunk(self, chunk: dict[str, Any], arrived_ns: int) -> None:
        """Read one chunk (or, of a server that does not stream, the whole answer)."""
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        self.finish_reason = self.finish_reason or _text(choice.get("finish_reason"))
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return
        content = _text(delta.get("content"))
        bearing = bool(content or _text(delta.get("reasoning") or delta.get("reasoning_content")))
        fragments = delta.get("tool_calls")
        if isinstance(fragments, list):
            bearing = self.calls.add(fragments) or bearing
        if content:
            self.content.append(content)
            if self.first_answer_ns is None:
                self.first_answer_ns = arrived_ns
        if bearing:
            self._bear(arrived_ns)


def _read_answer(stream: RawStream) -> _Answer:
    answer = _Answer()
    if stream.status != 200 or _encoding(stream) or not stream.segments:
        return answer
    body = bytes(stream.body)
    if _is_object(body):  # the server did not stream
        answer.streamed = False
        answer.take_event(Event(body, stream.segments[-1][0]))
        return answer
    events = parse_events(body, stream.segments)
    if events and not events[-1].closed and stream.error and _decoded(events[-1].data) is None:
        events.pop()  # the connection broke within it
    answer.take_events(events)
    return answer


def _is_object(body: bytes) -> bool:
    return not body.startswith(b"data:") and body.lstrip()[:1] == b"{"


def _judge(
    stream: RawStream, answer: _Answer, calls: CheckedCalls, body: dict[str, Any]
) -> tuple[LLMOutcome, str]:
    failure = _transport_failure(stream, answer)
    if failure:
        return LLMOutcome.transport_error, failure
    if answer.error:
        return LLMOutcome.stream_error, answer.error
    if stream.error:
        return LLMOutcome.stream_error, f"the stream broke off: {stream.error}"
    if stream.to_eof and not answer.ended and not answer.finish_reason:
        return LLMOutcome.stream_error, "the stream ended without finish_reason or [DONE]"
    if answer.finish_reason in _FAILED_FINISHES:
        return LLMOutcome.stream_error, f"finish_reason={answer.finish_reason}"
    if answer.malformed:
        return LLMOutcome.parse_failure, answer.malformed
    if body.get("ignore_eos") is True:
        missing = answer.first_delta_ns is None
        return (LLMOutcome.parse_failure, "no token came") if missing else (LLMOutcome.ok, "")
    return _judge_text(answer, calls, body)


def _judge_text(
    answer: _Answer, calls: CheckedCalls, body: dict[str, Any]
) -> tuple[LLMOutcome, str]:
    """Whether an answer that arrived whole is one (methods.md section 6)."""
    output_tokens = _count(answer.usage, "completion_tokens")
    limit = body.get("max_tokens")
    full = isinstance(limit, int) and output_tokens is not None and output_tokens >= limit
    if calls.problems:
        reason = "; ".join(calls.problems)
        cut = answer.finish_reason == "length" or full
        if cut or (calls.unfinished and output_tokens is None):
            return LLMOutcome.truncated, f"cut by max_tokens: {reason}"
        return LLMOutcome.parse_failure, reason
    if answer.finish_reason == "length":
        return LLMOutcome.truncated, "cut by max_tokens"
    content = "".join(answer.content)
    leak = LEAK.search(content)
    if leak:
        return LLMOutcome.parse_failure, f"{leak.group()} is left in the content"
    if calls.calls:
        return LLMOutcome.ok, ""
    if _is_call(content, body):
        return LLMOutcome.parse_failure, "a call is left in the content"
    if answer.finish_reason == "tool_calls":
        return LLMOutcome.parse_failure, "finish_reason=tool_calls, but no call came"
    if content.strip():
        return LLMOutcome.ok, ""
    if body.get("tool_choice") == "required" and answer.calls.listed:
        return LLMOutcome.ok, ""  # an empty list of calls: a missed call, for the grader
    if output_tokens:
        return LLMOutcome.parse_failure, f"{output_tokens} tokens, but neither text nor call came"
    return LLMOutcome.parse_failure, "no token came"


def _transport_failure(stream: RawStream, answer: _Answer) -> str:
    if stream.status is not None and stream.status != 200:
        text = bytes(stream.body[: 16 * ERROR_CHARS])
        message = _message_of(_decoded(bytes(stream.body)) or {}) or text.decode("utf-8", "replace")
        return f"HTTP {stream.status}: {message.strip()}"
    if stream.status is None or (stream.error and answer.first_delta_ns is None):
        return answer.error or stream.error or "no answer came"
    if _encoding(stream):
        return f"content-encoding={_encoding(stream)}, which was not asked for"
    return ""


def _remarks(stream: RawStream, calls: CheckedCalls) -> str:
    remarks = [f"the arguments of {name} were an escaped JSON string" for name in calls.coerced]
    if stream.resent:
        remarks.append("sent twice: the server had closed the kept connection")
    return "; ".join(remarks)


def _fill(
    blank: LLMRecord,
    stream: RawStream,
    answer: _Answer,
    calls: CheckedCalls,
    outcome: LLMOutcome,
    error: str,
) -> LLMRecord:
    details = answer.usage.get("prompt_tokens_details")
    output_tokens = _count(answer.usage, "completion_tokens")
    tokens = answer.chunks if output_tokens is None else output_tokens
    held_back = answer.first_delta_ns == answer.last_delta_ns and tokens > COLLAPSED_TOKENS
    return msgspec.structs.replace(
        blank,
        sent_ns=stream.sent_ns,
        first_byte_ns=stream.first_byte_ns,
        first_delta_ns=answer.first_delta_ns,
        first_answer_ns=answer.first_answer_ns,
        last_delta_ns=answer.last_delta_ns,
        done_ns=stream.done_ns,
        prompt_tokens=_count(answer.usage, "prompt_tokens"),
        cached_tokens=_count(details, "cached_tokens") if isinstance(details, dict) else None,
        output_tokens=output_tokens,
        chunks=answer.chunks,
        status=stream.status,
        outcome=outcome,
        error=error[:ERROR_CHARS],
        finish_reason=answer.finish_reason,
        calls=calls.calls,
        content="".join(answer.content),
        collapsed=held_back or (not answer.streamed and answer.chunks > 0),
    )


def _required_parameters(body: dict[str, Any]) -> dict[str, list[str]]:
    """What each offered tool's schema requires, by the name that the model sees."""
    required: dict[str, list[str]] = {}
    for tool in body.get("tools") or []:
        function = tool["function"]
        required[function["name"]] = function.get("parameters", {}).get("required", [])
    return required


def _is_call(content: str, body: dict[str, Any]) -> bool:
    """True when the content is a call of an offered tool that the server did not parse."""
    text = content.strip()
    if not text.startswith("{"):
        return False
    try:
        value = load_json(text)
    except json.JSONDecodeError:
        return False
    return _text(value.get("name")) in _required_parameters(body) and (
        "parameters" in value or "arguments" in value
    )


def _is_error(chunk: dict[str, Any]) -> bool:
    return bool(chunk.get("error")) or chunk.get("object") == "error"


def _message_of(failure: dict[str, Any]) -> str:
    """The message of an error object in any of the usual shapes; empty when there is none."""
    error = failure.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error
    message = error or failure.get("message") or failure.get("detail") or ""
    return message if isinstance(message, str) else dump_json(message)


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _encoding(stream: RawStream) -> str:
    encoding = stream.headers.get("content-encoding", "")
    return "" if encoding == "identity" else encoding


def _count(usage: dict[str, Any], key: str) -> int | None:
    """A count of tokens that can be one; else it is missing."""
    value = usage.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
