"""Server-sent events out of kept bytes: pure, after the stream ended.

Stamp of an event: the arrival of the segment that completed it. An event is complete with the
first byte of the line end that closes its blank line (of CRLF the CR counts, as a lone CR would);
an event that the end of the body left open is stamped where its last data line ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
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
    events: list[Event] = []
    data: list[bytes] = []
    name = b""
    data_end = index = 0

    def arrival(end: int) -> int:
        nonlocal index
        while segments[index][1] < end:
            index += 1
        return segments[index][0]

    for line, end in _lines(body):
        if not line:
            if data:
                events.append(Event(b"\n".join(data), arrival(end), name))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
            data_end = end
        elif field == b"event":
            name = value
    if data:
        events.append(Event(b"\n".join(data), arrival(data_end), name, False))
    return events


def _lines(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Each line without its end, and the offset after the first byte of that end."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    for match in _LINE_END.finditer(body, start):
        yield body[start : match.start()], match.start() + 1
        start = match.end()
    if start < len(body):
        yield body[start:], len(body)
