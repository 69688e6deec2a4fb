"""Events out of kept bytes: text and stamps, however the bytes were cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.client.sse import Event, _any_events, _plain_events, parse_events


def events_of(*segments: bytes) -> list[Event]:
    """Parse segments that arrived at 1, 2, 3, ... ns."""
    total, marks = 0, []
    for number, segment in enumerate(segments, start=1):
        total += len(segment)
        marks.append((number, total))
    return parse_events(b"".join(segments), marks)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    body = b"data: a" + end + end + b"data:b" + end + end
    assert [event.data for event in events_of(body)] == [b"a", b"b"]


def test_comments_names_pings_and_other_fields_give_no_event() -> None:
    body = b": ping\n\nevent: ping\n\nid: 7\nretry: 5\n\nevent: x\ndata: a\n\ndata: b\n\n"
    assert events_of(body) == [Event(b"a", 1, b"x"), Event(b"b", 1)]


def test_one_space_after_the_colon_is_not_data() -> None:
    assert [event.data for event in events_of(b"data:a\n\ndata: b\n\ndata:  c\n\n")] == [
        b"a",
        b"b",
        b" c",
    ]


def test_several_data_lines_are_one_event_and_a_bom_is_none() -> None:
    assert events_of(b"\xef\xbb\xbfdata: a\ndata: b\n\n") == [Event(b"a\nb", 1)]


def test_two_events_in_one_segment_share_its_stamp() -> None:
    assert [e.arrived_ns for e in events_of(b": hi\n\n", b"data: a\n\ndata: b\n\n")] == [2, 2]


def test_one_event_in_twenty_segments_has_the_stamp_of_the_last() -> None:
    wire = b'data: {"text":"twenty"}\n\n'
    cuts = [wire[i : i + 1] for i in range(19)] + [wire[19:]]
    assert events_of(*cuts) == [Event(b'{"text":"twenty"}', 20)]


def test_of_crlf_the_first_byte_completes_the_event() -> None:
    assert events_of(b"data: a\r\n\r", b"\n", b"data: b\r\n", b"\r\n") == [
        Event(b"a", 1),
        Event(b"b", 4),
    ]


def test_an_event_left_open_is_marked_and_stamped_at_its_last_data_line() -> None:
    assert events_of(b"data: a\n\ndata: b", b"c\n", b": bye\n")[-1] == Event(b"bc", 2, b"", False)
    assert events_of(b"data: a\n\ndata: b", b"c")[-1] == Event(b"bc", 2, b"", False)
    assert parse_events(b"", []) == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"data: a", b"data:b", b"data: ", b"data", b": c", b"id: 1", b"", b"data: c "]
        ),
        max_size=8,
    ),
    st.lists(st.integers(1, 60), max_size=6),
)
def test_the_short_way_finds_the_events_of_the_long_one(
    lines: list[bytes], cuts: list[int]
) -> None:
    body = b"\n".join(lines) + b"\n\n"
    bounds = [*sorted({cut for cut in cuts if cut < len(body)}), len(body)]
    marks = [(number, bound) for number, bound in enumerate(bounds)]
    plain = _plain_events(body, marks)
    if plain is not None:
        assert [e for e in plain if e.data or e.closed] == _any_events(body, marks)


TEXTS = st.text(alphabet=st.sampled_from("ab :é漢🎈"), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TEXTS, min_size=1, max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(1, 200), max_size=8),
)
def test_any_split_gives_the_same_events_with_the_stamp_of_the_completing_segment(
    texts: list[str], end: bytes, cuts: list[int]
) -> None:
    wires = [b"data: " + text.encode() + end + end for text in texts]
    body = b"".join(wires)
    bounds = [*sorted({cut for cut in cuts if cut < len(body)}), len(body)]
    marks = [(number, bound) for number, bound in enumerate(bounds)]
    events = parse_events(body, marks)
    assert [event.data.decode() for event in events] == texts
    complete = 0
    for wire, event in zip(wires, events, strict=True):
        complete += len(wire)
        needed = complete - len(end) + 1  # the first byte of the last line end
        assert event.arrived_ns == next(n for n, bound in marks if bound >= needed)
