"""Proof: what load this client has been shown to carry on this machine, as a record.

`bench selftest` writes it, a run keeps a copy (selftest.json), the gate and the report read it.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = "react-bench/selftest/1"
BUSY = 0.7  # of a core; below it a process waited for the core, not for itself
TTFT_LIMIT_MS = 5.0  # added p99 TTFT up to which a load counts as carried


class ProofLevel(msgspec.Struct, frozen=True, kw_only=True):
    """One load against the null server. Added is what the client saw beyond what was written.

    ttft_added: client's TTFT - (first write - arrival of the request at the server), so it holds
    the way of the request and of the answer; the server's own lateness is in neither.
    token_lag: arrival of the last token - its write. lag: sent - scheduled. loop_lag: how late
    the host's event loop wakes. server_late: write - due, what was subtracted.
    """

    prompt_tokens: int
    burst: bool = False  # every stream starts at once, and stays in step
    streams: int
    requests: int  # measured
    failed: int = 0
    events_per_s: float
    ttft_added_ms_p50: float | None = None
    ttft_added_ms_p99: float | None = None
    token_lag_ms_p50: float | None = None
    token_lag_ms_p99: float | None = None
    tpot_error_ms_p99: float | None = None
    lag_ms_p99: float | None = None
    loop_lag_ms_p99: float | None = None
    client_cpu: float | None = None  # of one core, the episode host
    server_cpu: float | None = None  # of one core
    server_late_ms_p99: float | None = None
    error: str = ""

    @property
    def carried(self) -> bool:
        """True when the load was carried with an added p99 TTFT below the limit."""
        added_ms = self.ttft_added_ms_p99
        return not self.error and not self.failed and added_ms is not None and (
            added_ms < TTFT_LIMIT_MS
        )  # fmt: skip

    @property
    def limited_by(self) -> str:
        """Who was too slow, when the load was not carried."""
        if self.carried:
            return ""
        if (self.server_cpu or 0.0) > BUSY:
            return "null server"
        return "client" if (self.client_cpu or 0.0) > BUSY else "cores taken by other processes"


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """All levels of one self-test. `levels` are staggered, `bursts` are not."""

    schema: str = SCHEMA
    created: str  # UTC, ISO 8601
    quick: bool
    ttft_s: float  # of the null server
    itl_s: float
    answer_tokens: int
    machine: dict[str, Any]
    versions: dict[str, str]
    levels: list[ProofLevel] = []
    bursts: list[ProofLevel] = []

    @property
    def prompt_lengths(self) -> list[int]:
        """The tested prompt lengths, tokens, shortest first."""
        return sorted({level.prompt_tokens for level in self.levels})

    def largest(self, prompt_tokens: int) -> ProofLevel | None:
        """The largest carried level of a prompt length, below the first that was not."""
        best: ProofLevel | None = None
        mine = [level for level in self.levels if level.prompt_tokens == prompt_tokens]
        for level in sorted(mine, key=lambda level: level.streams):
            if not level.carried:
                break
            best = level
        return best
