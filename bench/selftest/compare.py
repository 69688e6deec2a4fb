"""Compare: our client, a bare protocol and other load generators, same server, same work.

`python -m bench.selftest.compare [--streams 100,500] [--peers guidellm,aiperf,vllm | none]
[--environments DIR]`, or `make benchmarks`. All streams start at once. Error = what a client
reports less what the server did, at the same quantile; the server's own lateness is in neither.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.errors import BenchError
from bench.process import Process
from bench.record import NS_PER_S, LLMOutcome
from bench.selftest.bare import PROMPT_WORDS, Seen
from bench.selftest.bed import NullServer, start_host, start_null_server
from bench.selftest.ladder import raised_file_limit
from bench.selftest.level import Step, drive, read_calls
from bench.selftest.null_server import Entry
from bench.selftest.peers import PEERS, Unavailable, Work, install, run_peer

TTFT_S, ITL_S, TOKENS = 0.1, 0.05, 40
ROUNDS = 3  # answers one after another on each stream
NS_PER_MS = 1e6
BARE_LIMIT_S = 300.0


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One client at one number of streams. `reason`: why there is nothing."""

    client: str
    streams: int
    requests: int = 0
    reported_ttft_ms: tuple[float, float] | None = None  # p50, p99
    ttft_error_ms: tuple[float, float] | None = None
    tpot_error_ms: tuple[float, float] | None = None
    events_per_s: float | None = None
    cpu_s: float | None = None  # all its processes, their start included
    reason: str = ""


def main(words: Sequence[str]) -> int:
    """Compare and print one table; the exit code."""
    parser = argparse.ArgumentParser(prog="bench.selftest.compare", description=__doc__)
    parser.add_argument("--streams", default="100,500", help="numbers of streams")
    parser.add_argument("--peers", default=",".join(peer.package for peer in PEERS))
    parser.add_argument("--environments", type=Path, default=Path(".peers"))
    options = parser.parse_args(words)
    streams = [int(word) for word in options.streams.split(",")]
    told = Console(stderr=True, highlight=False)
    try:
        found = list(
            compare(streams, options.peers.split(","), options.environments.resolve(), told.print)
        )
    except BenchError as error:
        told.print(f"{type(error).__name__}: {error}", markup=False, soft_wrap=True)
        return error.exit_code
    Console(highlight=False).print(table(found))
    return 0


def compare(
    streams: Sequence[int], peers: Sequence[str], environments: Path, say: Callable[[str], None]
) -> Iterator[Compared]:
    """Every client at every number of streams. A peer that cannot run says why."""
    versions: dict[str, str] = {}
    reasons: dict[str, str] = {}
    chosen = [peer for peer in PEERS if peer.package in peers]
    for peer in chosen:
        say(f"{peer.name}: preparing its environment")
        try:
            versions[peer.package] = install(peer, environments)
        except Unavailable as reason:
            reasons[peer.package] = str(reason)
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as kept, raised_file_limit():
        directory = Path(kept)
        with start_null_server(directory, TTFT_S, ITL_S) as server:
            for number in streams:
                say(f"{number} streams")
                yield _measured("bare protocol", number, server, partial(_bare, directory))
                yield _measured("react-bench", number, server, partial(_ours, directory))
                for peer in chosen:
                    if peer.package in reasons:
                        why = reasons[peer.package]
                        yield Compared(client=peer.name, streams=number, reason=why)
                        continue
                    out = directory / f"{peer.package}-{number}"
                    out.mkdir()
                    ask = partial(run_peer, peer, environments, out)
                    yield _measured(f"{peer.name} {versions[peer.package]}", number, server, ask)


def _measured(
    client: str, streams: int, server: NullServer, run: Callable[[Work], Seen]
) -> Compared:
    """Let one client do the work, and hold what it reports against the server's ledger."""
    work = Work(url=server.url, streams=streams, requests=ROUNDS * streams, tokens=TOKENS)
    server.ledger()
    with _children_cpu() as used:
        try:
            seen = run(work)
        except Unavailable as reason:
            return Compared(client=client, streams=streams, reason=str(reason))
    entries = [entry for entry in server.ledger() if entry.tokens == TOKENS]
    return judge(client, streams, seen, entries, used[0])


def judge(
    client: str, streams: int, seen: Seen, entries: Sequence[Entry], cpu_s: float
) -> Compared:
    """What a client reports against what the server did. Pure."""
    if not entries or not seen.ttft_ms:
        return Compared(client=client, streams=streams, reason="no request was answered")
    ttft_ms = [(entry.first_written_ns - entry.received_ns) / NS_PER_MS for entry in entries]
    tpot_ms = [
        (entry.last_written_ns - entry.first_written_ns) / (entry.tokens - 1) / NS_PER_MS
        for entry in entries
    ]
    first_ns = min(entry.first_written_ns for entry in entries)
    last_ns = max(entry.last_written_ns for entry in entries)
    events = sum(entry.tokens for entry in entries)
    reported = _both(seen.ttft_ms)
    true = _both(ttft_ms)
    tpot_seen, tpot_true = _both(seen.tpot_ms), _both(tpot_ms)
    return Compared(
        client=client,
        streams=streams,
        requests=len(seen.ttft_ms),
        reported_ttft_ms=reported,
        ttft_error_ms=(reported[0] - true[0], reported[1] - true[1]),
        tpot_error_ms=(tpot_seen[0] - tpot_true[0], tpot_seen[1] - tpot_true[1]),
        events_per_s=events * NS_PER_S / max(1, last_ns - first_ns),
        cpu_s=cpu_s,
    )


def _both(values: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.quantile(values, [0.5, 0.99])
    return float(p50), float(p99)


@contextmanager
def _children_cpu() -> Iterator[list[float]]:
    """CPU seconds of the children that ended within the block, at its end."""
    used = [0.0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        yield used
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used[0] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _bare(directory: Path, work: Work) -> Seen:
    out = directory / "bare.json"
    out.unlink(missing_ok=True)
    words = [work.url, str(work.streams), str(work.requests), str(work.tokens), str(out)]
    command = [sys.executable, "-m", "bench.selftest.bare", *words]
    with Process("bare protocol", command, directory / "bare.log") as process:
        if process.wait(BARE_LIMIT_S) != 0:
            raise Unavailable(process.last_words())
    return msgspec.json.decode(out.read_bytes(), type=Seen)


def _ours(directory: Path, work: Work) -> Seen:
    """The whole path of a run: Locust, socket, episode host, client, records."""
    bed = directory / f"ours-{work.streams}"
    bed.mkdir()
    answer_s = TTFT_S + (work.tokens - 1) * ITL_S
    step = Step(
        streams=work.streams,
        stagger_s=0.0,
        measured_s=(ROUNDS - 0.2) * answer_s,
        hold_s=3 * answer_s,
    )
    with start_host(bed, directory, work.url, PROMPT_WORDS, work.tokens) as host:
        point = drive(host, step, lambda status: None)
    good = [call for call in read_calls(bed, point.point) if call.outcome is LLMOutcome.ok]
    return Seen(
        [call.ttft_s * 1e3 for call in good if call.ttft_s is not None],
        [call.tpot_s * 1e3 for call in good if call.tpot_s is not None],
    )


def table(found: Sequence[Compared]) -> Table:
    """One table, a row per client and number of streams."""
    made = Table(
        title=f"Burst start, TTFT {TTFT_S * 1e3:g} ms, then {1 / ITL_S:g} tokens/s a stream, "
        f"{TOKENS} tokens an answer, {ROUNDS} answers a stream"
    )
    for name in (
        "client", "streams", "n", "TTFT p50 / p99, ms", "error of TTFT, ms", "error of TPOT, ms",
        "events/s", "CPU, s",
    ):  # fmt: skip
        made.add_column(name, justify="left" if name == "client" else "right")
    for one in found:
        if one.reason:
            made.add_row(one.client, str(one.streams), "", f"skipped: {one.reason}")
            continue
        made.add_row(
            one.client,
            str(one.streams),
            f"{one.requests:,}",
            _pair(one.reported_ttft_ms, 1, False),
            _pair(one.ttft_error_ms, 2, True),
            _pair(one.tpot_error_ms, 3, True),
            f"{one.events_per_s or 0.0:,.0f}",
            f"{one.cpu_s or 0.0:.1f}",
        )
    return made


def _pair(values: tuple[float, float] | None, digits: int, signed: bool) -> str:
    if values is None:
        return ""
    sign = "+" if signed else ""
    return " / ".join(f"{value:{sign}.{digits}f}" for value in values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
