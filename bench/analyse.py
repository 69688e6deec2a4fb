"""Run -> report: read the records, fit, judge, grade, size, write. Nothing here measures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.episode import read_tools
from bench.fit.facts import level_facts
from bench.fit.latency import growth, latency_rows, path_rows
from bench.fit.law import Law
from bench.fit.level import Level, levels_of
from bench.fit.seed import STATED_EPISODE_MS, accounting_rows
from bench.fit.tools import fit_tools, tool_samples
from bench.fit.tpot import fit_tpot, points_of
from bench.fit.ttft import fit_ttft, grid_cells, grid_records, predict_ttft
from bench.quality.answers import answer_rows
from bench.quality.selection import SelectionRow, selection_rows
from bench.report.content import Content, GridCell, RunSummary
from bench.report.files import write_report
from bench.run import Run, find_runs, read_run
from bench.scenario import Control
from bench.sizing.plan import plan
from bench.slo import LevelVerdict, count_errors, judge, server_gap
from bench.threats import errors_of, threats_of


def analyse(directory: Path) -> Path:
    """Build `directory`/analysis/ from the records of a run or a campaign; returns report.html.

    Raises RecordError when there is no run or a record is damaged.
    """
    return write_report(content_of(directory), directory)


def verdicts_of(directory: Path, users: int | None = None) -> list[LevelVerdict]:
    """The verdicts of a run or a campaign; with `users`, only those of that level."""
    verdicts = content_of(directory).verdicts
    return [v for v in verdicts if users is None or v.users == users]


def content_of(directory: Path) -> Content:
    """Everything that the report shows, computed from the records."""
    runs = [read_run(path) for path in find_runs(directory)]
    levels = [level for run in runs for level in levels_of(run)]
    first = runs[0].facts.scenario
    ttft_laws = [law for run in runs if (law := _ttft_law(run))]
    engine_laws = [*ttft_laws, *_tpot_laws(runs)]
    selection = [row for run in runs for row in _selection(run, levels)]
    answers = answer_rows(levels)

    def idle(engine: str, prompt_tokens: float, cached_tokens: float) -> float | None:
        law = next((law for law in ttft_laws if law.engine == engine), None)
        if law is None:
            return None
        return predict_ttft(law, prompt_tokens - cached_tokens, cached_tokens)

    return Content(
        title=f"{first.name}: {', '.join(dict.fromkeys(run.facts.endpoint.label for run in runs))}",
        generated=max(_sealed(run) for run in runs),
        simulated=any(run.facts.endpoint.simulated for run in runs),
        runs=[_summary(run) for run in runs],
        levels=[level_facts(level, _error_rate(level), server_gap(level)) for level in levels],
        verdicts=judge(levels, first.slo, selection, answers, idle),
        plan=plan(
            [run.facts.scenario.engine for run in runs],
            levels,
            first.slo,
            first.slo.target_users,
            first.slo.gpus_per_node,
            first.load.think_time_s,
            first.slo.plan_safety,
            engine_laws,
        ),
        latency=[row for level in levels for row in latency_rows(level, first.slo.confidence)],
        paths=[row for level in levels for row in path_rows(level)],
        growth=growth(levels, first.slo.confidence),
        grid=[
            msgspec.convert(cell, GridCell, from_attributes=True)
            for run in runs
            for cell in grid_cells(run)
        ],
        laws=[*engine_laws, *fit_tools(levels, first.slo.confidence)],
        tool_samples=tool_samples(levels),
        accounting=accounting_rows(levels, STATED_EPISODE_MS),
        seed_reference=any(run.facts.scenario.engine.preset_ttft_ms for run in runs),
        selection=selection,
        answers=answers,
        errors=errors_of(runs),
        threats=threats_of(runs),
    )


def _ttft_law(run: Run) -> Law | None:
    engine, slo = run.facts.scenario.engine, run.facts.scenario.slo
    budget = engine.max_num_batched_tokens
    return fit_ttft(grid_records(run), engine.name, budget, slo.confidence)


def _tpot_laws(runs: list[Run]) -> list[Law]:
    by_engine: dict[str, list[Run]] = {}
    for run in runs:
        by_engine.setdefault(run.facts.scenario.engine.name, []).append(run)
    laws = [fit_tpot(points_of(mine), engine) for engine, mine in by_engine.items()]
    return [law for law in laws if law is not None]


def _selection(run: Run, levels: list[Level]) -> list[SelectionRow]:
    """TSA of the run's levels. A scripted run has none: its model chose nothing."""
    workload = run.facts.scenario.workload
    mine = [level for level in levels if level.run == run.facts.id]
    if workload.control is not Control.live or not mine:
        return []
    tools = read_tools(run.directory / "material" / "tools.json")
    return selection_rows(mine, tools, workload.descriptions.value)


def _error_rate(level: Level) -> float:
    errors, attempts = count_errors(level)
    return errors / attempts if attempts else 0.0


def _summary(run: Run) -> RunSummary:
    return RunSummary(
        facts=run.facts,
        complete=run.complete,
        reason=run.incomplete_reason,
        scheduled=len(run.scheduled),
        recorded=len(run.episodes),
        torn=run.torn,
        selftest=run.selftest,
    )


def _sealed(run: Run) -> str:
    """When the run was sealed, so that a report built again is the same to the byte."""
    return run.manifest.sealed if run.manifest else run.facts.created
