"""Server-sent events out of kept bytes: pure, after the stream ended.

Stamp of an event: the arrival of the segment that completed it. An event is complete with the
first byte of the line end that closes its blank line (of CRLF the CR counts, as a lone CR would);
an event that the end of the body left open is stamped where its last data line ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, gc=False):
    """One event. `closed` is False when the body ended before the event's blank line."""

    data: bytes
    arrived_ns: int
    name: bytes = b""
    closed: bool = True


def parse_events(body: bytes, segments: Sequence[tuple[int, int]]) -> list[Event]:
    """The events of a body, in order, each with its arrival.

    segments: (ns, length of the body after the segment), rising in both; they cover the body.
    Comments, `id:` and `retry:` are skipped, and so are events without data: none gets a stamp.
    """
    plain = _plain_events(body, segments)
    return _any_events(body, segments) if plain is None else plain


def _plain_events(body: bytes, segments: Sequence[tuple[int, int]]) -> list[Event] | None:
    """The events of a body of nothing but `data: ...` lines with a blank line after each.

    None when there is anything else. The usual case: a server's answer is parsed on the event
    loop that stamps the others' segments, so it must be short.
    """
    if b"\r" in body or not body.endswith(b"\n\n"):
        return None
    pieces = body.split(b"\n\n")
    pieces.pop()
    events: list[Event] = []
    end = index = 0
    arrived_ns, covered = segments[0]
    for piece in pieces:
        if not piece.startswith(b"data: ") or b"\n" in piece:
            return None
        end += len(piece) + 2
        while covered < end:
            index += 1
            arrived_ns, covered = segments[index]
        events.append(Event(piece[6:], arrived_ns))
    return events


def _any_events(body: bytes, segments: Sequence[tuple[int, int]]) -> list[Event]:
    events: list[Event] = []
    data: list[bytes] = []
    name = b""
    data_end = index = 0
    for line, end in _lines(body):
        if line.startswith(b"data:"):
            data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            data_end = end
        elif line:
            field, _, value = line.partition(b":")
            if field == b"event":
                name = value.removeprefix(b" ")
            elif field == b"data":  # without a colon: an empty line of data
                data.append(b"")
                data_end = end
        else:
            if data:
                while segments[index][1] < end:
                    index += 1
                whole = data[0] if len(data) == 1 else b"\n".join(data)
                events.append(Event(whole, segments[index][0], name))
                data = []
            name = b""
    if data:
        while segments[index][1] < data_end:
            index += 1
        events.append(Event(b"\n".join(data), segments[index][0], name, False))
    return events


def _lines(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Each line without its end, and the offset after the first byte of that end."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    if b"\r" in body:
        for match in _LINE_END.finditer(body, start):
            yield body[start : match.start()], match.start() + 1
            start = match.end()
    else:  # the usual case, several times faster
        while (end := body.find(b"\n", start)) >= 0:
            yield body[start:end], end + 1
            start = end + 1
    if start < len(body):
        yield body[start:], len(body)
