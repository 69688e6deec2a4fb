"""Level: so many streams for some seconds, and what the client added to each request.

A record finds its Entry by the number in the answer's first token. Requests sent in
[start + stagger, end of issuing) are measured: by then every stream runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.load.drive import HostProcess, drive_point
from bench.load.spec import point_spec
from bench.load.status import HostStatus
from bench.proof import ProofLevel
from bench.record import NS_PER_S, LLMOutcome, LLMRecord, PointRecord
from bench.scenario import Load
from bench.selftest.bed import NullServer
from bench.selftest.null_server import Entry

NS_PER_MS = 1e6


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One load to try. stagger_s: users start within it (0: a burst), before it is measured."""

    streams: int
    stagger_s: float
    measured_s: float
    hold_s: float


class _Watched(msgspec.Struct):
    """One look at both processes during a level."""

    ns: int
    client_s: float
    server_s: float
    loop_lag_s: float | None


def run_level(host: HostProcess, server: NullServer, step: Step, prompt_tokens: int) -> ProofLevel:
    """Run one level through Locust and the host. Raises LoadError when a process dies."""
    looks: list[_Watched] = []

    def watch(status: HostStatus) -> None:
        looks.append(_Watched(status.ns, status.cpu_s, server.cpu_s(), status.loop_lag_s_p99))

    server.ledger()  # what came before is nobody's
    point = drive(host, step, watch)
    entries = {entry.number: entry for entry in server.ledger()}
    calls = read_calls(host.spec.run_dir, point.point)
    return judge_level(step, prompt_tokens, point, calls, entries, looks)


def drive(host: HostProcess, step: Step, watch: Callable[[HostStatus], None]) -> PointRecord:
    """Load a host for one level, as a run does it. Raises LoadError when a process dies."""
    spec = host.spec
    load = Load(
        users=[step.streams],
        duration_s=step.stagger_s + step.measured_s,
        hold_s=step.hold_s,
        stagger_s=step.stagger_s,
    )
    point = point_spec(spec, f"u{step.streams}-s{step.stagger_s:g}", step.streams)
    point = msgspec.structs.replace(point, stagger_s=step.stagger_s, duration_s=load.duration_s)
    return drive_point(host, point, load, spec.run_dir / "locust.log", watch)


def read_calls(directory: Path, point: str) -> list[LLMRecord]:
    """The model calls of one point."""
    decoder = msgspec.json.Decoder(LLMRecord)
    paths = sorted(directory.glob("llm-*.jsonl"))
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    return [call for call in map(decoder.decode, lines) if call.point == point]


def judge_level(
    step: Step,
    prompt_tokens: int,
    point: PointRecord,
    calls: Sequence[LLMRecord],
    entries: dict[int, Entry],
    looks: Sequence[_Watched] = (),
) -> ProofLevel:
    """The figures of a level from its records and the server's entries. Pure."""
    begin_ns = point.started_ns + int(step.stagger_s * NS_PER_S)
    until_ns = point.issued_until_ns or begin_ns
    mine = [call for call in calls if begin_ns <= call.scheduled_ns < until_ns]
    pairs = [
        (call, entry)
        for call in mine
        if call.outcome is LLMOutcome.ok and (entry := entries.get(number_of(call))) is not None
    ]
    added_ms, lag_ms, tpot_ms, late_ms = [], [], [], []
    for call, entry in pairs:
        if call.sent_ns is None or call.first_delta_ns is None or call.last_delta_ns is None:
            continue
        seen_ns = call.first_delta_ns - call.sent_ns
        added_ms.append((seen_ns - (entry.first_written_ns - entry.received_ns)) / NS_PER_MS)
        lag_ms.append((call.last_delta_ns - entry.last_written_ns) / NS_PER_MS)
        late_ms.append((entry.first_written_ns - entry.first_due_ns) / NS_PER_MS)
        if entry.tokens > 1:
            span_ns = call.last_delta_ns - call.first_delta_ns
            true_ns = entry.last_written_ns - entry.first_written_ns
            tpot_ms.append(abs(span_ns - true_ns) / (entry.tokens - 1) / NS_PER_MS)
    inside = [look for look in looks if begin_ns <= look.ns <= until_ns]
    return ProofLevel(
        prompt_tokens=prompt_tokens,
        burst=step.stagger_s == 0,
        streams=step.streams,
        requests=len(mine),
        failed=len(mine) - len(pairs),
        events_per_s=_events_per_s(calls, begin_ns, until_ns),
        ttft_added_ms_p50=_quantile(added_ms, 0.5),
        ttft_added_ms_p99=_quantile(added_ms, 0.99),
        token_lag_ms_p50=_quantile(lag_ms, 0.5),
        token_lag_ms_p99=_quantile(lag_ms, 0.99),
        tpot_error_ms_p99=_quantile(tpot_ms, 0.99),
        lag_ms_p99=_quantile([c.lag_s * 1e3 for c in mine if c.lag_s is not None], 0.99),
        loop_lag_ms_p99=_last_lag_ms(inside),
        client_cpu=_share([(look.ns, look.client_s) for look in inside]),
        server_cpu=_share([(look.ns, look.server_s) for look in inside]),
        server_late_ms_p99=_quantile(late_ms, 0.99),
        error=point.error,
    )


def number_of(call: LLMRecord) -> int:
    """The number that the null server wrote into the answer; 0 when there is none."""
    word = call.content.partition(" ")[0]
    return int(word) if word.isdigit() else 0


def _events_per_s(calls: Iterable[LLMRecord], begin_ns: int, until_ns: int) -> float:
    """Chunks that arrived in the window, a second; an answer's chunks are spread evenly."""
    events = 0.0
    for call in calls:
        first_ns, last_ns = call.first_delta_ns, call.last_delta_ns
        if first_ns is None or last_ns is None:
            continue
        overlap_ns = min(last_ns, until_ns) - max(first_ns, begin_ns)
        if overlap_ns >= 0:
            events += call.chunks * (overlap_ns + 1) / (last_ns - first_ns + 1)
    return events * NS_PER_S / max(1, until_ns - begin_ns)


def _share(used: Sequence[tuple[int, float]]) -> float | None:
    """CPU time between the first and the last look, of one core."""
    if len(used) < 2:
        return None
    (first_ns, first_s), (last_ns, last_s) = used[0], used[-1]
    return (last_s - first_s) * NS_PER_S / (last_ns - first_ns)


def _last_lag_ms(looks: Sequence[_Watched]) -> float | None:
    known = [look.loop_lag_s for look in looks if look.loop_lag_s is not None]
    return known[-1] * 1e3 if known else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None
