"""Content: everything a report shows, and nothing it must compute."""

from __future__ import annotations

from typing import Any

import msgspec

from bench.fit.facts import LevelFacts
from bench.fit.latency import LatencyRow, PathRow, TurnGrowth
from bench.fit.law import Law
from bench.fit.seed import AccountingRow
from bench.proof import SelfTest
from bench.quality.selection import AnswerRow, SelectionRow
from bench.run import RunFacts
from bench.sizing.plan import SizingPlan
from bench.slo import LevelVerdict


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the idle grid: TTFT at concurrency 1."""

    engine: str
    prompt_tokens: float
    cached_tokens: float
    ttft_s: list[float]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One launch: its facts and whether it was sealed complete."""

    facts: RunFacts
    complete: bool
    reason: str
    scheduled: int
    recorded: int
    torn: int
    selftest: SelfTest | None = None


class Content(msgspec.Struct, kw_only=True):
    """The whole report. Empty lists are shown as "nothing to show", with the reason."""

    title: str
    generated: str  # UTC; the only field that changes when a report is rebuilt
    simulated: bool
    runs: list[RunSummary]
    levels: list[LevelFacts]
    verdicts: list[LevelVerdict]
    confidence: float  # of every interval
    plan: SizingPlan
    latency: list[LatencyRow]
    paths: list[PathRow]
    growth: list[TurnGrowth]
    grid: list[GridCell]
    laws: list[Law]
    tool_samples: dict[str, list[float]]  # tool -> latencies, seconds, for the law figure
    accounting: list[AccountingRow]
    seed_reference: bool  # this run is the seed's preset and proves the pipeline
    selection: list[SelectionRow]
    answers: list[AnswerRow]
    errors: list[dict[str, Any]]  # what, count, example
    threats: list[str]
    unreadable: dict[str, str] = {}  # launches of a campaign that are left out, and why
