"""Trace: the arrivals of a file, as seconds after its start.

.csv     a column TIMESTAMP (ISO 8601), as in the Azure LLM inference traces; the other columns
         (ContextTokens, GeneratedTokens) describe requests, and what arrives here are
         episodes with tasks of their own, so they are not used
.jsonl   {"at_s": 1.5} or {"at_s": 1.5, "task": "id"}: at_s after the start of the point; task
         names one of the scenario's, else it is dealt; further keys are left alone
"""

from __future__ import annotations

import csv
import math
from datetime import datetime
from pathlib import Path

import msgspec

from bench.errors import ScenarioError


class Arrival(msgspec.Struct, frozen=True, omit_defaults=True):
    """One arrival of a trace. `task` empty: the deal decides."""

    at_s: float
    task: str = ""


def read_trace(path: Path) -> list[Arrival]:
    """The arrivals of a file in order of time.

    Raises ScenarioError when it cannot be read, is empty, or a line is no arrival.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(
            f"load.traces={path}", f"cannot be read ({error})", "name a .csv or .jsonl file"
        ) from error
    lines = text.splitlines()
    arrivals = _jsonl(path, lines) if path.suffix == ".jsonl" else _csv(path, lines)
    if not arrivals:
        raise ScenarioError(
            f"load.traces={path}", "holds no arrival", "write one line for each episode"
        )
    return sorted(arrivals, key=lambda arrival: arrival.at_s)


def played(arrivals: list[Arrival], speed: float, duration_s: float) -> list[Arrival]:
    """The arrivals that fall within duration_s when the trace is played `speed` times as fast."""
    scaled = [Arrival(arrival.at_s / speed, arrival.task) for arrival in arrivals]
    return [arrival for arrival in scaled if arrival.at_s < duration_s]


def _csv(path: Path, lines: list[str]) -> list[Arrival]:
    reader = csv.DictReader(lines)
    if "TIMESTAMP" not in (reader.fieldnames or ()):
        raise ScenarioError(
            f"load.traces={path}",
            f"has no column TIMESTAMP (found: {', '.join(reader.fieldnames or ()) or 'nothing'})",
            "use the columns TIMESTAMP,ContextTokens,GeneratedTokens, or a .jsonl file",
        )
    stamps: list[datetime] = []
    for row in reader:
        try:
            stamps.append(datetime.fromisoformat(row["TIMESTAMP"]))
        except (TypeError, ValueError) as error:
            raise ScenarioError(
                f"load.traces={path}:{reader.line_num}",
                f"TIMESTAMP is no time ({error})",
                "write it as 2023-11-16 18:17:03.9799600",
            ) from error
    if len({stamp.tzinfo is None for stamp in stamps}) > 1:
        raise ScenarioError(
            f"load.traces={path}",
            "some TIMESTAMPs name a time zone and some do not",
            "write all of them the same way",
        )
    first = min(stamps, default=None)
    return [Arrival((stamp - first).total_seconds()) for stamp in stamps if first is not None]


def _jsonl(path: Path, lines: list[str]) -> list[Arrival]:
    decoder = msgspec.json.Decoder(Arrival)
    arrivals: list[Arrival] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            arrival = decoder.decode(line)
            if not (arrival.at_s >= 0 and math.isfinite(arrival.at_s)):
                raise msgspec.ValidationError(f"at_s={arrival.at_s:g} is before the start")
        except msgspec.MsgspecError as error:
            raise ScenarioError(
                f"load.traces={path}:{number}",
                f"is no arrival ({error})",
                'write {"at_s": 1.5} or {"at_s": 1.5, "task": "id"}',
            ) from error
        arrivals.append(arrival)
    return arrivals
