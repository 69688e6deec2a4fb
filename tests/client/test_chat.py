"""The rows of field_bugs.md that concern the stream and its tool calls: the kind, not the case."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.client import Connection, RawStream, complete, cut_record, read_record
from bench.client.chat import _Answer
from bench.client.sse import Event
from bench.record import LLMOutcome, LLMRecord

LIMIT_S = 10.0
DONE = b"data: [DONE]\n\n"
MS = 1_000_000
Serve = Callable[..., Any]


def tool(name: str, *required: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


BODY: dict[str, Any] = {
    "max_tokens": 100,
    "tools": [tool("sql", "query"), tool("vector", "query"), tool("clock")],
}
BLANK = LLMRecord(point="u1", user=0, episode=0, turn=0, scheduled_ns=0, outcome=LLMOutcome.cut)


def sse(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return sse({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def call(index: int | None, name: str | None, arguments: Any, call_id: str | None = None) -> bytes:
    fragment: dict[str, Any] = {"function": {"arguments": arguments}}
    if name is not None:
        fragment["function"]["name"] = name
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    return delta(tool_calls=[fragment])


def usage(output: int, prompt: int = 40, cached: int | None = None) -> bytes:
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    return sse({"choices": [], "usage": counts})


def stream_of(*pieces: tuple[int, bytes], **fields: Any) -> RawStream:
    """A whole answer sent at 0 ms whose pieces arrived at these milliseconds."""
    body, segments = bytearray(), []
    for at_ms, piece in pieces:
        body += piece
        segments.append((at_ms * MS, len(body)))
    last_ns = segments[-1][0] if segments else None
    return RawStream(
        **{
            "sent_ns": 0,
            "first_byte_ns": segments[0][0] if segments else None,
            "done_ns": last_ns,
            "segments": segments,
            "body": body,
            "status": 200,
            **fields,
        }
    )


def read(*pieces: bytes, body: dict[str, Any] | None = None, **fields: Any) -> LLMRecord:
    """The record of pieces that arrived at 10, 20, 30, ... ms."""
    timed = [(10 * number, piece) for number, piece in enumerate(pieces, start=1)]
    return read_record(stream_of(*timed, **fields), BODY if body is None else body, BLANK)


def named(record: LLMRecord) -> list[tuple[str, str]]:
    return [(each.name, each.arguments) for each in record.calls]


# ---- Time to first token and the stream


def test_role_and_empty_content_are_no_token() -> None:
    record = read_record(
        stream_of(
            (5, delta(role="assistant", content="")),
            (214, delta(content="Hi")),
            (230, delta("stop", content="") + usage(1) + DONE),
        ),
        BODY,
        BLANK,
    )
    assert record.outcome is LLMOutcome.ok and record.content == "Hi"
    assert record.ttft_s == pytest.approx(0.214)
    assert record.last_delta_ns == record.first_delta_ns == 214 * MS
    assert record.done_ns == 230 * MS and record.chunks == 1
    assert record.tpot_s is None  # one output token


def test_chunks_without_choices_come_first() -> None:
    record = read(sse({"choices": []}), sse({"id": "x"}), delta(content="a"), DONE)
    assert record.outcome is LLMOutcome.ok and record.first_delta_ns == 30 * MS


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_the_first_token_and_content_the_first_answer_token(key: str) -> None:
    record = read(delta(**{key: "hm"}), delta(content="a"), delta("stop", content="b"), DONE)
    assert (record.first_delta_ns, record.first_answer_ns) == (10 * MS, 20 * MS)
    assert record.last_delta_ns == 30 * MS and record.content == "ab" and record.chunks == 3


def test_comments_events_and_pings_have_no_stamp() -> None:
    record = read(
        b": ping\n\n", b'event: ping\ndata: {"message": "hi"}\n\n', b"data:\n\n", delta(content="a")
    )
    assert record.outcome is LLMOutcome.ok and record.first_delta_ns == 40 * MS


def test_no_token_is_missing_not_zero_and_no_success() -> None:
    record = read(delta(role="assistant", content=""), delta("stop"), usage(0), DONE)
    assert record.outcome is LLMOutcome.parse_failure and "no token" in record.error
    assert record.ttft_s is None and record.chunks == 0


def test_everything_at_once_is_a_collapsed_stream() -> None:
    record = read(delta("stop", content="one two three four five six"), usage(6), DONE)
    assert record.outcome is LLMOutcome.ok and record.collapsed
    assert record.ttft_s is None and record.tpot_s is None
    assert not read(delta("stop", content="yes"), usage(1), DONE).collapsed
    held_back = b"".join(delta(content="a ") for _ in range(30)) + usage(30) + DONE
    record = read(held_back)
    assert record.chunks == 30 and record.collapsed and record.ttft_s is None


def test_an_impossible_rate_is_kept_and_flagged() -> None:
    record = read(b"".join(delta(content="a ") for _ in range(30)), delta("stop") + DONE)
    assert record.outcome is LLMOutcome.ok and record.first_delta_ns == record.last_delta_ns
    assert record.collapsed and record.tpot_s is None  # counted apart, also without a usage


def test_the_first_token_is_no_gap() -> None:
    record = read_record(
        stream_of(
            (500, delta(content="a")), (520, delta(content="b")), (540, delta(content="c")),
            (541, delta("stop") + usage(3) + DONE),
        ),
        BODY,
        BLANK,
    )  # fmt: skip
    assert record.ttft_s == pytest.approx(0.5)
    assert record.tpot_s == pytest.approx(0.020)  # two gaps; neither 0.5 s nor 541 ms is in it


def test_an_answer_that_ended_early_has_its_actual_length() -> None:
    record = read(delta(content="a"), delta(content="b"), delta("stop") + usage(2) + DONE)
    assert BODY["max_tokens"] == 100 and record.output_tokens == 2
    assert record.tpot_s == pytest.approx(0.010)


def test_a_server_that_does_not_stream_is_collapsed() -> None:
    message = {"content": "yes", "tool_calls": None}
    whole = {
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1},
    }
    record = read(json.dumps(whole).encode())
    assert record.outcome is LLMOutcome.ok and record.content == "yes" and record.collapsed
    assert record.prompt_tokens == 4 and record.cached_tokens is None


@pytest.mark.parametrize(
    "event",
    [
        sse({"error": {"message": "out of memory", "code": 500}}),
        sse({"error": "out of memory"}),
        sse({"object": "error", "message": "out of memory"}),
        b"event: error\ndata: out of memory\n\n",
    ],
)
def test_an_error_event_fails_the_request_and_keeps_the_text(event: bytes) -> None:
    record = read(delta(content="par"), event, DONE)
    assert record.outcome is LLMOutcome.stream_error and "out of memory" in record.error
    assert record.content == "par" and record.first_delta_ns == 10 * MS


def test_a_reset_after_some_tokens_is_no_sample_and_keeps_its_stamps() -> None:
    half = delta(content="never")[:-20]
    record = read(delta(content="a"), delta(content="b") + half, error="connection broken: reset")
    assert record.outcome is LLMOutcome.stream_error and "reset" in record.error
    assert record.content == "ab" and record.last_delta_ns == 20 * MS


def test_a_timeout_before_any_token_is_a_transport_error() -> None:
    record = read(delta(role="assistant", content=""), error="no complete answer within 5 s")
    assert record.outcome is LLMOutcome.transport_error and "within 5 s" in record.error


@pytest.mark.parametrize(
    ("status", "payload", "message"),
    [
        (400, b'{"error": {"message": "too long"}}', "HTTP 400: too long"),
        (400, b'{"object": "error", "message": "too long"}', "HTTP 400: too long"),
        (422, b'{"detail": "too long"}', "HTTP 422: too long"),
        (503, b"<html>busy</html>", "HTTP 503: <html>busy</html>"),
        (500, b"", "HTTP 500: "),
    ],
)
def test_an_http_error_carries_the_servers_message(
    status: int, payload: bytes, message: str
) -> None:
    record = read(payload, status=status) if payload else read(status=status)
    assert record.outcome is LLMOutcome.transport_error and record.status == status
    assert record.error == message and record.ttft_s is None


def test_a_long_error_is_capped() -> None:
    record = read(b"x" * 100_000, status=500)
    assert len(record.error) <= 400


def test_several_tokens_in_a_chunk_count_by_usage() -> None:
    record = read(delta(content="a b c"), delta(content="d e f"), usage(6, 50, 32), DONE)
    assert record.chunks == 2 and record.output_tokens == 6
    assert record.tpot_s == pytest.approx(0.010 / 5)
    assert (record.prompt_tokens, record.cached_tokens, record.uncached_tokens) == (50, 32, 18)


def test_no_usage_is_missing() -> None:
    record = read(delta(content="a"), delta("stop", content="b"), DONE)
    assert record.outcome is LLMOutcome.ok and record.output_tokens is None
    assert record.prompt_tokens is None and record.tpot_s is None and record.cached_tokens is None


def test_usage_in_every_chunk_and_null_details() -> None:
    chunk = {
        "choices": [{"delta": {"content": "a"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None},
    }
    record = read(sse(chunk), delta("stop", content="b"), usage(2, 5), DONE)
    assert record.output_tokens == 2 and record.cached_tokens is None


def test_no_done_line_is_a_clean_end_when_http_ended_cleanly() -> None:
    assert read(delta(content="a"), delta("stop")).outcome is LLMOutcome.ok
    assert read(delta("stop", content="a")[:-2]).outcome is LLMOutcome.ok  # no blank line either
    cut = read(delta(content="a"), to_eof=True)
    assert cut.outcome is LLMOutcome.stream_error


def test_a_line_that_is_no_json_is_a_parse_failure() -> None:
    record = read(delta(content="a"), b"data: {nonsense\n\n", DONE)
    assert record.outcome is LLMOutcome.parse_failure and "nonsense" in record.error


def test_an_encoding_that_nobody_asked_for_is_an_error() -> None:
    record = read(b"\x1f\x8b\x08", headers={"content-encoding": "gzip"})
    assert record.outcome is LLMOutcome.transport_error and "gzip" in record.error


def test_aborted_by_the_engine() -> None:
    assert read(delta("abort", content="a"), DONE).outcome is LLMOutcome.stream_error


# ---- Tool calls in the stream


def test_calls_in_fragments_by_index() -> None:
    record = read(
        call(0, "sql", "", "a"),
        call(1, "vector", "", "b"),
        call(0, None, '{"query": '),
        call(1, None, '{"query": "y"}'),
        call(0, None, '"x"}'),
        delta("tool_calls"),
        usage(20) + DONE,
    )
    assert record.outcome is LLMOutcome.ok
    assert named(record) == [("sql", '{"query": "x"}'), ("vector", '{"query": "y"}')]
    assert [each.id for each in record.calls] == ["a", "b"]
    assert (record.first_delta_ns, record.last_delta_ns) == (10 * MS, 50 * MS)
    assert record.chunks == 5 and record.first_answer_ns is None


@pytest.mark.parametrize("index", [0, None])
def test_parallel_calls_that_are_all_numbered_zero_or_not_at_all(index: int | None) -> None:
    record = read(
        call(index, "sql", '{"query": ', "a"),
        call(index, None, '"x"}'),
        call(index, "vector", '{"query": "y"}', "b"),
        DONE,
    )
    assert named(record) == [("sql", '{"query": "x"}'), ("vector", '{"query": "y"}')]


def test_two_calls_of_the_same_tool_in_one_delta() -> None:
    both = [
        {"id": f"c{n}", "index": 0, "function": {"name": "sql", "arguments": f'{{"query": "{n}"}}'}}
        for n in range(2)
    ]
    record = read(delta(tool_calls=both), delta("tool_calls"), DONE)
    assert named(record) == [("sql", '{"query": "0"}'), ("sql", '{"query": "1"}')]


def test_a_new_id_without_a_name_is_the_same_call() -> None:
    record = read(
        call(0, "sql", "", "a1"), call(0, None, '{"query":', "a2"), call(0, "", '"x"}', "a3"), DONE
    )
    assert named(record) == [("sql", '{"query":"x"}')] and record.calls[0].id == "a1"


def test_the_same_id_and_name_in_every_chunk_is_one_call() -> None:
    record = read(call(0, "sql", '{"query":', "a"), call(0, "sql", '"x"}', "a"), DONE)
    assert named(record) == [("sql", '{"query":"x"}')]


def test_arguments_as_an_object_are_accepted() -> None:
    record = read(call(0, "sql", {"query": "é"}, "a"), delta("tool_calls"), DONE)
    assert record.outcome is LLMOutcome.ok and named(record) == [("sql", '{"query": "é"}')]


def test_arguments_as_an_escaped_string_are_unescaped_once_and_said_so() -> None:
    record = read(call(0, "sql", json.dumps('{"query": "x"}'), "a"), DONE)
    assert record.outcome is LLMOutcome.ok and named(record) == [("sql", '{"query": "x"}')]
    assert "escaped JSON string" in record.error
    twice = read(call(0, "sql", json.dumps(json.dumps('{"query": "x"}')), "a"), DONE)
    assert twice.outcome is LLMOutcome.parse_failure


def test_a_lost_call_is_a_failure_of_the_server_not_an_abstention() -> None:
    record = read(delta(role="assistant", content=""), delta("stop"), usage(25), DONE)
    assert record.outcome is LLMOutcome.parse_failure and "25 tokens" in record.error
    said = read(delta(content="Let me look."), delta("tool_calls"), usage(25), DONE)
    assert said.outcome is LLMOutcome.parse_failure and "no call came" in said.error


def test_an_unparseable_call_is_no_abstention() -> None:
    record = read(call(0, "sql", "SELECT 1", "a"), delta("tool_calls"), usage(9), DONE)
    assert record.outcome is LLMOutcome.parse_failure and "are no JSON" in record.error
    assert [each.name for each in record.calls] == ["sql"]


def test_a_name_without_arguments() -> None:
    nothing_needed = read(call(0, "clock", "", "a"), delta("tool_calls"), DONE)
    assert nothing_needed.outcome is LLMOutcome.ok and named(nothing_needed) == [("clock", "{}")]
    needed = read(call(0, "sql", "", "a"), delta("tool_calls"), DONE)
    assert needed.outcome is LLMOutcome.parse_failure and "never came" in needed.error


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "sql"}',
        "Sure.<|python_tag|>sql",
        '[TOOL_CALLS][{"name": "sql"}]',
        "<function=sql>{}</function>",
        '{"name": "sql", "parameters": {"query": "x"}}',
    ],
)
def test_a_call_left_in_the_content_is_a_parse_failure(text: str) -> None:
    record = read(delta(content=text), delta("stop"), usage(12), DONE)
    assert record.outcome is LLMOutcome.parse_failure and record.content == text
    cut = read(delta(content=text), delta("length"), usage(100), DONE)
    assert cut.outcome is LLMOutcome.truncated


def test_special_tokens_left_in_arguments() -> None:
    record = read(call(0, "sql", '{"query": "x<|eom_id|>"}', "a"), delta("tool_calls"), DONE)
    assert record.outcome is LLMOutcome.parse_failure and "special tokens" in record.error


def test_a_json_answer_is_not_a_call() -> None:
    assert read(delta(content='{"name": "Acme"}'), DONE).outcome is LLMOutcome.ok


@pytest.mark.parametrize(
    ("tail", "outcome"),
    [
        (delta("length") + usage(100), LLMOutcome.truncated),
        (delta("tool_calls") + usage(100), LLMOutcome.truncated),  # the server does not say so
        (delta("tool_calls"), LLMOutcome.truncated),  # no usage: the JSON just stops
        (delta("tool_calls") + usage(30), LLMOutcome.parse_failure),  # it was not the limit
    ],
)
def test_a_cut_call_is_truncated(tail: bytes, outcome: LLMOutcome) -> None:
    record = read(call(0, "sql", '{"query": "SELECT co', "a"), tail, DONE)
    assert record.outcome is outcome and record.calls[0].arguments == '{"query": "SELECT co'


def test_a_cut_answer_is_truncated_but_a_whole_one_of_that_length_is_not() -> None:
    assert read(delta("length", content="a"), usage(100), DONE).outcome is LLMOutcome.truncated
    assert read(delta("stop", content="a"), usage(100), DONE).outcome is LLMOutcome.ok


def test_required_but_an_empty_list_is_a_missed_call() -> None:
    body = {**BODY, "tool_choice": "required"}
    record = read(delta("stop", content="", tool_calls=[]), usage(3), DONE, body=body)
    assert record.outcome is LLMOutcome.ok and record.calls == []


def test_finish_reason_twice() -> None:
    record = read(call(0, "clock", "{}", "a"), delta("tool_calls"), delta("stop"), DONE)
    assert record.finish_reason == "tool_calls" and record.outcome is LLMOutcome.ok


def test_a_call_without_a_name_is_a_parse_failure() -> None:
    record = read(call(0, None, '{"query": "x"}', "a"), DONE)
    assert record.outcome is LLMOutcome.parse_failure and record.calls == []


def test_of_a_fixed_length_nothing_but_the_transport_is_judged() -> None:
    body = {**BODY, "ignore_eos": True, "max_tokens": 3, "min_tokens": 3}
    record = read(delta(content="<tool_call>"), delta("length", content="x"), usage(3), body=body)
    assert record.outcome is LLMOutcome.ok and record.output_tokens == 3
    silent = read(delta("length"), usage(3), DONE, body=body)
    assert silent.outcome is LLMOutcome.parse_failure and silent.ttft_s is None


# ---- The short way of reading a chunk says what the long one says

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.just(""), st.sampled_from(["a", "é", "stop"]), st.integers(0, 2), st.just({})
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": VALUES, "content": VALUES, "reasoning": VALUES, "reasoning_content": VALUES,
        "tool_calls": st.one_of(
            VALUES, st.just([{"index": 0, "id": "c", "function": {"name": "sql"}}])
        ),
    },
)  # fmt: skip
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "delta": st.one_of(DELTAS, VALUES), "message": st.one_of(DELTAS, VALUES),
        "finish_reason": VALUES, "index": VALUES,
    },
)  # fmt: skip
CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.one_of(st.lists(CHOICES, max_size=2), VALUES),
        "usage": st.one_of(VALUES, st.just({"completion_tokens": 3})),
        "error": VALUES, "object": st.sampled_from(["error", "chat.completion.chunk"]),
    },
)  # fmt: skip


def said(answer: _Answer) -> tuple[object, ...]:
    return (
        answer.content, answer.finish_reason, answer.usage, answer.error, answer.malformed,
        answer.ended, answer.chunks, answer.first_delta_ns, answer.first_answer_ns,
        answer.last_delta_ns, answer.calls.listed, answer.calls.check({}).calls,
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(CHUNKS, VALUES), max_size=5), st.sampled_from([b"", b"error", b"x"]))
def test_the_short_way_reads_what_the_long_one_reads(values: list[Any], name: bytes) -> None:
    events = [
        Event(json.dumps(value).encode(), number, name) for number, value in enumerate(values)
    ]
    short, long = _Answer(), _Answer()
    short.take_events(events)
    for event in events:
        long.take_event(event)
    assert said(short) == said(long)


# ---- Any split, and the whole way over a socket

PIECES = [
    b": ping\r\n\r\n",
    delta(role="assistant", content=""),
    delta(reasoning="hm 🎈"),
    delta(content="é漢"),
    call(0, "sql", "", "a"),
    call(0, None, '{"query": "é'),
    call(0, None, '🎈"}'),
    delta("tool_calls"),
    usage(9, 40, 16),
    DONE,
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, sum(map(len, PIECES)) - 1), max_size=20))
def test_any_split_gives_the_same_record_and_consistent_stamps(cuts: list[int]) -> None:
    wire = b"".join(PIECES)
    bounds = [0, *sorted(set(cuts)), len(wire)]
    segments = [wire[a:b] for a, b in itertools.pairwise(bounds)]
    record = read(*segments)
    whole = read(wire)
    assert record.content == whole.content == "é漢" and record.calls == whole.calls
    assert named(record) == [("sql", '{"query": "é🎈"}')]
    assert (record.outcome, record.chunks, record.output_tokens, record.cached_tokens) == (
        LLMOutcome.ok,
        5,
        9,
        16,
    )

    def arrival(piece: int) -> int:
        needed = sum(map(len, PIECES[: piece + 1]))
        return next(10 * n * MS for n, end in enumerate(bounds[1:], start=1) if end >= needed)

    assert record.first_delta_ns == arrival(2)
    assert record.first_answer_ns == arrival(3)
    assert record.last_delta_ns == arrival(6)


def test_over_a_socket_the_stamp_is_the_arrival_and_not_the_end(serve: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    steps = [
        (0.0, head + delta(role="assistant", content="")),
        (0.05, delta(content="a")),
        (0.05, delta("stop", content="b") + usage(2) + DONE),
        (0.05, "close"),
    ]

    async def body() -> None:
        async with serve(steps) as server:
            connection = Connection(server.url, {})
            record = await complete(connection, {"max_tokens": 5, "é": 1}, BLANK, 5.0)
            assert record.outcome is LLMOutcome.ok and record.content == "ab"
            assert record.first_delta_ns is not None and record.done_ns is not None
            assert record.last_delta_ns is not None
            role_ns, first_ns, last_ns = server.written_ns
            assert role_ns < first_ns <= record.first_delta_ns <= last_ns <= record.last_delta_ns
            assert record.last_delta_ns <= record.done_ns
            assert server.requests[0].endswith('{"max_tokens":5,"é":1}'.encode())

    asyncio.run(asyncio.wait_for(body(), LIMIT_S))


@pytest.mark.parametrize("end", ["reset", "close"])
def test_over_a_socket_a_reset_after_some_tokens_is_no_sample(serve: Serve, end: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = delta(content="par")
    steps = [(0.0, head), (0.01, b"%x\r\n%s\r\n" % (len(piece), piece)), (0.05, end)]

    async def body() -> None:
        async with serve(steps) as server:
            record = await complete(Connection(server.url, {}), BODY, BLANK, 5.0)
            assert record.outcome is LLMOutcome.stream_error and record.content == "par"
            assert record.first_delta_ns is not None and record.done_ns is not None
            assert record.first_delta_ns < record.done_ns and record.output_tokens is None

    asyncio.run(asyncio.wait_for(body(), LIMIT_S))


def test_every_attempt_leaves_a_record(serve: Serve) -> None:
    failed = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nbusy"

    async def body() -> None:
        async with serve([(0, failed)], [(3.0, "close")]) as server:
            connection = Connection(server.url, {})
            refused = Connection("http://127.0.0.1:9/v1", {})
            records = [
                await complete(connection, BODY, BLANK, 5.0),
                await complete(connection, BODY, BLANK, 0.2),
                await complete(refused, BODY, BLANK, 5.0),
            ]
            assert [r.outcome for r in records] == [LLMOutcome.transport_error] * 3
            assert [r.status for r in records] == [500, None, None]
            assert "busy" in records[0].error and "within 0.2 s" in records[1].error
            assert all(r.ttft_s is None and r.done_ns is not None for r in records)

    asyncio.run(asyncio.wait_for(body(), LIMIT_S))


def test_a_cut_call_keeps_what_came(serve: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

    async def body() -> None:
        async with serve([(0, head + delta(content="par")), (8.0, delta(content="never"))]) as s:
            connection = Connection(s.url, {})
            assert cut_record(connection, BLANK).sent_ns is None  # nothing was sent yet
            running = asyncio.create_task(complete(connection, BODY, BLANK, 5.0))
            while not connection.stream.segments:
                await asyncio.sleep(0.005)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            record = cut_record(connection, BLANK)
            assert record.outcome is LLMOutcome.cut and record.content == "par"
            assert record.first_delta_ns is not None and record.done_ns is not None

    asyncio.run(asyncio.wait_for(body(), LIMIT_S))


# ---- Degenerate answers: never an exception, never a record that cannot be written

DEEP, DIGITS = '{"a":' * 3000, '{"query": ' + "1" * 5000 + "}"
DEGENERATE = {
    "brackets": call(0, "sql", "[" * 3000, "a"),
    "objects": call(0, "sql", DEEP, "a"),
    "a long number": call(0, "sql", DIGITS, "a"),
    "an escaped string of brackets": call(0, "sql", json.dumps("[" * 3000), "a"),
    "content of objects": delta(content=DEEP),
    "content with a long number": delta(content=DIGITS),
    "a nested chunk": b"data: " + DEEP.encode() + b"\n\n",
    "nested arguments": delta() + b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function"'
    b':{"name":"sql","arguments":' + b"[" * 900 + b"]" * 900 + b"}}]}}]}\n\n",
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_a_degenerate_answer_is_a_record(name: str) -> None:
    record = read(DEGENERATE[name], delta("tool_calls"), usage(5), DONE)
    kinds = (LLMOutcome.parse_failure, LLMOutcome.ok)
    assert record.outcome in kinds if "content" in name else record.outcome is kinds[0]
    assert json.loads(msgspec.json.encode(record))


def test_content_with_a_name_that_is_no_text_is_content() -> None:
    record = read(delta("stop", content='{"name": ["sql"], "parameters": {}}'), usage(5), DONE)
    assert record.outcome is LLMOutcome.ok


def test_half_a_surrogate_pair_can_be_recorded() -> None:
    escaped = json.dumps('{"query": "\ud83d"}').replace("\\\\", "\\")
    record = read(call(0, "sql", escaped, "a"), delta("tool_calls"), usage(5), DONE)
    assert [each.arguments for each in record.calls] == ['{"query": "?"}']
    assert json.loads(msgspec.json.encode(record))


def test_a_count_that_cannot_be_recorded_is_missing() -> None:
    record = read(delta("stop", content="a"), usage(10**30, prompt=1 << 62), DONE)
    assert (record.output_tokens, record.prompt_tokens) == (None, None)
    assert json.loads(msgspec.json.encode(record))
