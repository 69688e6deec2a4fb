"""The chunks of a completion: vLLM's delta format, and the same content whole and streamed."""

import json
from typing import Any

from bench.simulator.completion import Completion, Usage, pieces_of
from bench.simulator.policy import Call, Reply

CALLS = [Call("sql_query", '{"query": "SELECT 1"}'), Call("web_search", '{"query": "copper"}')]
REPLY = Reply(content="Both are needed.", calls=CALLS, final=False)


def completion(reply: Reply, max_tokens: int = 500, chat: bool = True) -> Completion:
    return Completion(pieces_of(reply), max_tokens, "m", "simulated-x", chat=chat, exact=False)


def events(chunks: list[bytes]) -> list[dict[str, Any]]:
    lines = b"".join(chunks).decode().strip().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_the_first_chunk_carries_the_role_and_the_last_the_reason() -> None:
    chunks = completion(REPLY).chunks()
    first, last = events(chunks[:1]), events(chunks[-1:])
    assert first[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first[1]["choices"][0]["delta"] == {"content": "Both"}
    assert last[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert all(event["system_fingerprint"] == "simulated-x" for event in events(chunks))
    assert len({event["id"] for event in events(chunks)}) == 1


def test_a_call_is_withheld_until_its_name_is_complete() -> None:
    reply = Reply(content="", calls=CALLS[:1], final=False)
    made = completion(reply)
    chunks = made.chunks()
    withheld = [number for number, chunk in enumerate(chunks) if chunk == b""]
    named = next(number for number, piece in enumerate(made.tokens) if piece.delta is not None)
    assert 5 <= named <= 12
    assert set(range(1, named)) <= set(withheld)
    (delta,) = (event["choices"][0]["delta"] for event in events([chunks[named]]))
    (call,) = delta["tool_calls"]
    assert (call["index"], call["type"]) == (0, "function")
    assert call["function"] == {"name": "sql_query", "arguments": ""}
    assert call["id"]


def test_streamed_and_whole_say_the_same() -> None:
    made = completion(REPLY)
    text = ""
    calls: dict[int, dict[str, str]] = {}
    for event in events(made.chunks()):
        delta = event["choices"][0]["delta"]
        text += delta.get("content") or ""
        for part in delta.get("tool_calls", []):
            call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
            call["name"] += part["function"].get("name", "")
            call["arguments"] += part["function"]["arguments"]
    usage = Usage(100, len(made.tokens), 64)
    body = json.loads(made.body(usage))
    message = body["choices"][0]["message"]
    assert text == message["content"] == "Both are needed."
    assert list(calls.values()) == [call["function"] for call in message["tool_calls"]]
    assert [(c["name"], c["arguments"]) for c in calls.values()] == [
        (call.name, call.arguments) for call in CALLS
    ]
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 64}
    assert body["usage"]["total_tokens"] == 100 + len(made.tokens)


def test_max_tokens_cuts_and_says_so() -> None:
    made = completion(REPLY, max_tokens=2)
    assert len(made.tokens) == 2
    assert made.finish_reason == "length"
    assert events(made.chunks())[-1]["choices"][0]["finish_reason"] == "length"


def test_text_completions_have_text_choices() -> None:
    made = completion(Reply(content="Two words."), chat=False)
    streamed = events(made.chunks())
    assert {event["object"] for event in streamed} == {"text_completion"}
    assert "".join(event["choices"][0]["text"] for event in streamed) == "Two words."
    assert json.loads(made.body(Usage(1, 3, 0)))["choices"][0]["text"] == "Two words."


def test_the_usage_chunk_has_no_choices() -> None:
    (event,) = events([completion(REPLY).usage_chunk(Usage(10, 5, 0))])
    assert event["choices"] == []
    assert event["usage"]["completion_tokens"] == 5
