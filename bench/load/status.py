"""HostStatus: how a point stands, for progress and for holding the load; Counters behind it.

Display and control only: no result is computed from these numbers (records are the facts).
"""

from __future__ import annotations

import time
from collections import deque

import msgspec
import numpy as np

from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    ToolOutcome,
    ToolRecord,
)

RECENT = 1024  # at most so many values behind a displayed quantile


class HostStatus(msgspec.Struct, tag="status", kw_only=True):
    """Counters of the point since its `begin`. Quantiles are over the last 1,024 values."""

    point: str
    ns: int  # when this was said
    started: int  # episodes that arrived
    running: int
    done: int  # ended by themselves
    errors: int  # of those, failed
    cut: int
    llm_errors: int
    tool_errors: int
    members_running: int | None = None  # running and scheduled before the ns asked for
    oldest_running_ns: int | None = None  # scheduled time of the oldest running episode
    first_scheduled_ns: int | None = None
    ttft_s_p50: float | None = None
    ttft_s_p95: float | None = None
    latency_s_p50: float | None = None
    last_error: str = ""
    cpu_s: float = 0.0  # CPU time of the host process since it started
    loop_lag_s_p99: float | None = None  # how late the host's event loop woke


class Counters:
    """What happened since the point began. Fed by the sink, read by `status`."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.started = self.done = self.errors = self.cut = 0
        self.llm_errors = self.tool_errors = 0
        self.first_scheduled_ns: int | None = None
        self.last_error = ""
        self._running: dict[tuple[str, int, int], int] = {}
        self._ttft_s: deque[float] = deque(maxlen=RECENT)
        self._latency_s: deque[float] = deque(maxlen=RECENT)

    def start(self, point: str, user: int, episode: int, scheduled_ns: int) -> None:
        """An episode has arrived."""
        self._running[point, user, episode] = scheduled_ns
        self.started += 1
        first = self.first_scheduled_ns
        self.first_scheduled_ns = scheduled_ns if first is None else min(first, scheduled_ns)

    def llm(self, record: LLMRecord) -> None:
        """A model call has ended."""
        if record.outcome not in (LLMOutcome.ok, LLMOutcome.cut):
            self.llm_errors += 1
            self.last_error = record.error or record.outcome.value
        if record.ttft_s is not None:
            self._ttft_s.append(record.ttft_s)

    def tool(self, record: ToolRecord) -> None:
        """A tool call has ended. What the guard refused is the model's mistake, not an error."""
        if record.outcome in (ToolOutcome.error, ToolOutcome.timeout):
            self.tool_errors += 1
            self.last_error = f"{record.tool}: {record.error or record.outcome.value}"

    def episode(self, record: EpisodeRecord) -> None:
        """An episode has ended."""
        self._running.pop((record.point, record.user, record.episode), None)
        if record.outcome is EpisodeOutcome.cut:
            self.cut += 1
            return
        self.done += 1
        if record.outcome is EpisodeOutcome.failed:
            self.errors += 1
            self.last_error = record.error
        if record.latency_s is not None:
            self._latency_s.append(record.latency_s)

    def status(self, before_ns: int | None) -> HostStatus:
        """The counters now; `members_running` when before_ns is given."""
        waiting = self._running.values()
        members = None if before_ns is None else sum(ns < before_ns for ns in waiting)
        return HostStatus(
            point=self.point,
            ns=time.monotonic_ns(),
            started=self.started,
            running=len(self._running),
            done=self.done,
            errors=self.errors,
            cut=self.cut,
            llm_errors=self.llm_errors,
            tool_errors=self.tool_errors,
            members_running=members,
            oldest_running_ns=min(waiting, default=None),
            first_scheduled_ns=self.first_scheduled_ns,
            ttft_s_p50=_quantile(self._ttft_s, 0.5),
            ttft_s_p95=_quantile(self._ttft_s, 0.95),
            latency_s_p50=_quantile(self._latency_s, 0.5),
            last_error=self.last_error,
            cpu_s=time.process_time(),
        )


def _quantile(values: deque[float], q: float) -> float | None:
    return float(np.quantile(np.fromiter(values, float), q)) if values else None
