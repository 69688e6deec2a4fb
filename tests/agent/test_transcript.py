"""The history that the next model call will send."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bench.agent.transcript import Transcript, parse_arguments
from bench.episode import ToolCall


def test_turns_are_appended_in_the_openai_shape() -> None:
    transcript = Transcript("sys", "ask")
    calls = [ToolCall("a", "sql", '{"query": "x"}'), ToolCall("b", "web", '{"query": "y"}')]
    transcript.add_turn("thought", calls, ["one", "two"])
    assert [message["role"] for message in transcript.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    turn, first, second = transcript.messages[2:]
    assert turn["content"] == "thought"
    assert turn["tool_calls"][1] == {
        "id": "b",
        "type": "function",
        "function": {"name": "web", "arguments": '{"query": "y"}'},
    }
    assert (first["tool_call_id"], first["content"]) == ("a", "one")
    assert (second["tool_call_id"], second["content"]) == ("b", "two")


def test_bad_arguments_are_not_sent_again() -> None:
    transcript = Transcript("sys", "ask")
    bad = ["", "{", "[1]", '"x"', "null"]
    calls = [ToolCall(f"c{n}", "sql", text) for n, text in enumerate(bad)]
    transcript.add_turn("", calls, ["error"] * len(bad))
    sent = [call["function"]["arguments"] for call in transcript.messages[2]["tool_calls"]]
    assert sent == ["{}"] * len(bad)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "a-1", ""]), max_size=3), max_size=4))
def test_ids_are_unique_over_the_episode_and_match_their_observations(
    turns: list[list[str]],
) -> None:
    transcript = Transcript("sys", "ask")
    for number, ids in enumerate(turns):
        calls = [ToolCall(call_id, "sql", "{}") for call_id in ids]
        transcript.add_turn("", calls, [f"{number}.{n}" for n in range(len(ids))])
    asked = [c["id"] for m in transcript.messages for c in m.get("tool_calls", [])]
    answered = [m["tool_call_id"] for m in transcript.messages if m["role"] == "tool"]
    assert asked == answered and len(set(asked)) == len(asked)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_arguments_that_are_an_object_are_understood(arguments: dict[str, object]) -> None:
    small = {key: value for key, value in arguments.items() if not isinstance(value, int)}
    assert parse_arguments(json.dumps(small)) == small


def test_depth_is_bounded_alike_on_every_python() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    assert parse_arguments(nested(100)) is not None
    assert parse_arguments(nested(101)) is None


def test_arguments_beyond_all_measure_are_none() -> None:
    deep = '{"a":' * 3000 + "1" + "}" * 3000
    long = '{"query": "' + "x" * 100_000 + '"}'
    assert [parse_arguments(text) for text in (deep, long, '{"q": ' + "1" * 5000 + "}")] == [
        None
    ] * 3
