"""Table: a self-test for a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.table import Table

from bench.proof import TTFT_LIMIT_MS, ProofLevel, SelfTest

MISSING = "–"
COLUMNS = (
    "prompt, tokens", "streams", "n", "events/s", "added TTFT p50 / p99, ms",
    "token lag p50 / p99, ms", "TPOT error p99, ms", "schedule lag p99, ms", "loop lag p99, ms",
    "client CPU", "server CPU", "server late p99, ms", "",
)  # fmt: skip


def tables(test: SelfTest) -> Iterator[Table]:
    """Staggered starts, then burst starts."""
    what = f"TTFT {test.ttft_s * 1e3:g} ms, then {1 / test.itl_s:g} tokens/s a stream"
    for title, levels in (("staggered starts", test.levels), ("burst starts", test.bursts)):
        table = Table(title=f"Self-test, {title} ({what}; {test.answer_tokens} tokens an answer)")
        for number, name in enumerate(COLUMNS):
            table.add_column(name, justify="left" if number == len(COLUMNS) - 1 else "right")
        for level in levels:
            table.add_row(*_cells(level))
        yield table


def _cells(level: ProofLevel) -> list[str]:
    return [
        f"{level.prompt_tokens:,}",
        f"{level.streams:,}",
        f"{level.requests:,}",
        f"{level.events_per_s:,.0f}",
        f"{_ms(level.ttft_added_ms_p50)} / {_ms(level.ttft_added_ms_p99)}",
        f"{_ms(level.token_lag_ms_p50)} / {_ms(level.token_lag_ms_p99)}",
        _ms(level.tpot_error_ms_p99),
        _ms(level.lag_ms_p99),
        _ms(level.loop_lag_ms_p99),
        _share(level.client_cpu),
        _share(level.server_cpu),
        _ms(level.server_late_ms_p99),
        remark(level),
    ]


def remark(level: ProofLevel) -> str:
    """What is wrong with a level; empty when it was carried."""
    if level.error or level.failed:
        return level.error or f"{level.failed} of {level.requests} requests failed"
    return "" if level.carried else f"above {TTFT_LIMIT_MS:g} ms: {level.limited_by}"


def line(level: ProofLevel) -> str:
    """One level as progress."""
    kind = "burst, " if level.burst else ""
    added = f"{_ms(level.ttft_added_ms_p50)} / {_ms(level.ttft_added_ms_p99)} ms"
    words = f"{level.streams} streams ({kind}{level.prompt_tokens} prompt tokens)"
    return f"{words}: added TTFT {added}, client CPU {_share(level.client_cpu)} {remark(level)}"


def conclusion(test: SelfTest) -> str:
    """The largest load of each prompt length that was carried, in sentences."""
    lines = []
    for prompt_tokens in test.prompt_lengths:
        best = test.largest(prompt_tokens)
        mine = [level for level in test.levels if level.prompt_tokens == prompt_tokens]
        above = [level for level in mine if best is None or level.streams > best.streams]
        limit = f"; above it the {above[0].limited_by} was the limit" if above else ""
        if not above and best is not None:
            limit = "; nothing larger was tried"
        carried = (
            f"none below {TTFT_LIMIT_MS:g} ms"
            if best is None
            else f"{best.streams:,} streams, {best.events_per_s:,.0f} events/s"
        )
        lines.append(
            f"Largest load with added p99 TTFT below {TTFT_LIMIT_MS:g} ms, prompts of "
            f"{prompt_tokens:,} tokens: {carried}{limit}."
        )
    return "\n".join(lines)


def as_json(test: SelfTest) -> str:
    """The whole self-test, with the largest carried load of each prompt length."""
    largest: list[dict[str, Any]] = []
    for prompt_tokens in test.prompt_lengths:
        best = test.largest(prompt_tokens)
        if best is not None:
            largest.append(msgspec.to_builtins(best))
    whole = {**msgspec.to_builtins(test), "largest": largest}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()


def _ms(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"
