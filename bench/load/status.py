"""HostStatus: how a point stands, for progress and for holding the load; Counters behind it.

Display and control only: no result is computed from these numbers (records are the facts).
Quantiles are taken where a status is read, so that those of several workers can be merged:
quantiles themselves are never averaged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

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
    """Counters of the point since its `begin`, and the last 1,024 values of two metrics."""

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
    planned_start_ns: int | None = None  # of the plan of a load that is not closed
    ttft_s: list[float] = []
    latency_s: list[float] = []
    last_error: str = ""
    cpu_s: float = 0.0  # CPU time of the host process since it started
    loop_lag_s_p99: float | None = None  # how late the host's event loop woke

    @property
    def ttft_s_p50(self) -> float | None:
        """Median of the last TTFTs, seconds."""
        return _quantile(self.ttft_s, 0.5)

    @property
    def ttft_s_p95(self) -> float | None:
        """p95 of the last TTFTs, seconds."""
        return _quantile(self.ttft_s, 0.95)

    @property
    def latency_s_p50(self) -> float | None:
        """Median of the last episode latencies, seconds."""
        return _quantile(self.latency_s, 0.5)


def merge(statuses: Sequence[HostStatus]) -> HostStatus:
    """The status of all load workers together."""
    if len(statuses) == 1:
        return statuses[0]
    members = [one.members_running for one in statuses]
    return HostStatus(
        point=statuses[0].point,
        ns=max(one.ns for one in statuses),
        started=sum(one.started for one in statuses),
        running=sum(one.running for one in statuses),
        done=sum(one.done for one in statuses),
        errors=sum(one.errors for one in statuses),
        cut=sum(one.cut for one in statuses),
        llm_errors=sum(one.llm_errors for one in statuses),
        tool_errors=sum(one.tool_errors for one in statuses),
        members_running=None if None in members else sum(filter(None, members)),
        oldest_running_ns=_earliest(one.oldest_running_ns for one in statuses),
        first_scheduled_ns=_earliest(one.first_scheduled_ns for one in statuses),
        planned_start_ns=_earliest(one.planned_start_ns for one in statuses),
        ttft_s=[value for one in statuses for value in one.ttft_s],
        latency_s=[value for one in statuses for value in one.latency_s],
        last_error=next((one.last_error for one in statuses if one.last_error), ""),
        cpu_s=sum(one.cpu_s for one in statuses),
    )


def _earliest(stamps: Iterable[int | None]) -> int | None:
    return min((ns for ns in stamps if ns is not None), default=None)


class Counters:
    """What happened since the point began. Fed by the sink, read by `status`."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.started = self.done = self.errors = self.cut = 0
        self.llm_errors = self.tool_errors = 0
        self.first_scheduled_ns: int | None = None
        self.planned_start_ns: int | None = None
        self.last_error = ""
        self._running: dict[tuple[str, int, int], int] = {}
        self._ttft_s: deque[float] = deque(maxlen=RECENT)
        self._latency_s: deque[float] = deque(maxlen=RECENT)

    def start(self, point: str, user: int, episode: int, scheduled_ns: int) -> None:
        """An episode has arrived. A late line of another point is not this one's."""
        if point != self.point:
            return
        self._running[point, user, episode] = scheduled_ns
        self.started += 1
        first = self.first_scheduled_ns
        self.first_scheduled_ns = scheduled_ns if first is None else min(first, scheduled_ns)

    def llm(self, record: LLMRecord) -> None:
        """A model call has ended."""
        if record.point != self.point:
            return
        if record.outcome not in (LLMOutcome.ok, LLMOutcome.cut):
            self.llm_errors += 1
            self.last_error = record.error or record.outcome.value
        if record.ttft_s is not None:
            self._ttft_s.append(record.ttft_s)

    def tool(self, record: ToolRecord) -> None:
        """A tool call has ended. What the guard refused is the model's mistake, not an error."""
        if record.point != self.point:
            return
        if record.outcome in (ToolOutcome.error, ToolOutcome.timeout):
            self.tool_errors += 1
            self.last_error = f"{record.tool}: {record.error or record.outcome.value}"

    def episode(self, record: EpisodeRecord) -> None:
        """An episode has ended."""
        if record.point != self.point:
            return
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
            planned_start_ns=self.planned_start_ns,
            ttft_s=list(self._ttft_s),
            latency_s=list(self._latency_s),
            last_error=self.last_error,
            cpu_s=time.process_time(),
        )


def _quantile(values: list[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None
