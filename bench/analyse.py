"""Run -> report: read the records, fit, judge, grade, size, write. Nothing here measures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.episode import read_tools
from bench.errors import AnalysisError, RecordError, ScenarioError
from bench.fit.cache import planned_hit_rate
from bench.fit.facts import level_facts
from bench.fit.latency import growth, latency_rows, path_rows
from bench.fit.law import Law
from bench.fit.level import Level, levels_of
from bench.fit.seed import STATED_EPISODE_MS, accounting_rows
from bench.fit.tools import fit_tools, tool_samples
from bench.fit.tpot import fit_tpot, points_of
from bench.fit.ttft import fit_ttft, grid_cells, grid_records
from bench.quality.answers import answer_rows
from bench.quality.selection import SelectionRow, selection_rows
from bench.report.content import Content, GridCell, RunSummary
from bench.report.files import write_report
from bench.run import Run, find_runs, read_run
from bench.scenario import Control
from bench.sizing.footing import footing
from bench.sizing.plan import SizingPlan, plan
from bench.slo import LevelVerdict, count_errors, judge, server_gap
from bench.threats import errors_of, threats_of


def analyse(directory: Path) -> Path:
    """Build `directory`/analysis/ from the records of a run or a campaign; returns report.html.

    Raises RecordError when there is no run or a record is damaged.
    """
    return write_report(content_of(directory), directory)


def verdicts_of(content: Content, users: int | None = None) -> list[LevelVerdict]:
    """The verdicts of a run or a campaign; with `users`, only those of that level.

    Raises AnalysisError when there is no such level.
    """
    verdicts = [v for v in content.verdicts if users is None or v.users == users]
    if users is not None and not verdicts:
        known = ", ".join(map(str, sorted({v.users for v in content.verdicts})))
        raise AnalysisError(
            f"users={users}",
            f"no such level was run ({known or 'none was'})",
            f"name one of {known}, or none for all" if known else "run one with bench run",
        )
    return verdicts


def _read(directory: Path) -> tuple[list[Run], dict[str, str]]:
    """The runs, and of a campaign the launches that cannot be read, each with the reason.

    Raises what made the only one, or all of them, unreadable.
    """
    runs: list[Run] = []
    unreadable: dict[str, str] = {}
    for path in find_runs(directory):
        try:
            runs.append(read_run(path))
        except (RecordError, ScenarioError) as error:
            if path == directory:
                raise
            unreadable[path.name] = str(error)
    if not runs:
        raise RecordError(
            f"run={directory}",
            f"none of its launches can be read ({next(iter(unreadable.values()))})",
            "restore the files from their copy",
        )
    return runs, unreadable


def content_of(directory: Path) -> Content:
    """Everything that the report shows, computed from the records."""
    runs, unreadable = _read(directory)
    levels = [level for run in runs for level in levels_of(run)]
    first = runs[0].facts.scenario
    confidence = first.slo.confidence
    laws = [*_ttft_laws(runs), *_tpot_laws(runs)]
    selection = [row for run in runs for row in _selection(run, levels, confidence)]
    answers = answer_rows(levels, confidence)

    def planned(level: Level) -> float | None:
        run = next(run for run in runs if run.facts.id == level.run)
        return planned_hit_rate(run, level)

    verdicts = judge(levels, first.slo, selection, answers, laws, planned)

    return Content(
        title=f"{first.name}: {', '.join(dict.fromkeys(run.facts.endpoint.label for run in runs))}",
        generated=max(_sealed(run) for run in runs),
        simulated=any(run.facts.endpoint.simulated for run in runs),
        runs=[_summary(run) for run in runs],
        levels=[level_facts(level, _error_rate(level), server_gap(level)) for level in levels],
        verdicts=verdicts,
        confidence=confidence,
        plan=_plan(runs, [level for level in levels if level.users], verdicts, laws),
        latency=[row for level in levels for row in latency_rows(level, confidence)],
        paths=[row for level in levels for row in path_rows(level)],
        growth=growth(levels, confidence),
        grid=[
            msgspec.convert(cell, GridCell, from_attributes=True)
            for run in runs
            for cell in grid_cells(run)
        ],
        laws=[*laws, *fit_tools(levels, confidence)],
        tool_samples=tool_samples(levels),
        accounting=accounting_rows(levels, STATED_EPISODE_MS),
        seed_reference=any(run.facts.scenario.engine.preset_ttft_ms for run in runs),
        selection=selection,
        answers=answers,
        errors=errors_of(runs),
        threats=threats_of(runs),
        unreadable=unreadable,
    )


def _ttft_laws(runs: list[Run]) -> list[Law]:
    """One law per engine, over the idle grids of all of its launches."""
    laws = []
    for name, mine in _by_engine(runs).items():
        engine, slo = mine[0].facts.scenario.engine, runs[0].facts.scenario.slo
        records = [record for run in mine for record in grid_records(run)]
        laws.append(fit_ttft(records, name, engine.max_num_batched_tokens, slo.confidence))
    return [law for law in laws if law is not None]


def _tpot_laws(runs: list[Run]) -> list[Law]:
    confidence = runs[0].facts.scenario.slo.confidence
    laws = [
        fit_tpot(points_of(mine), engine, confidence) for engine, mine in _by_engine(runs).items()
    ]
    return [law for law in laws if law is not None]


def _by_engine(runs: list[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.facts.scenario.engine.name, []).append(run)
    return found


def _plan(
    runs: list[Run], levels: list[Level], verdicts: list[LevelVerdict], laws: list[Law]
) -> SizingPlan:
    """The plan from the levels that may be believed; the others are named in its notes."""
    scenario = runs[0].facts.scenario
    slo = scenario.slo
    believed, notes = footing(levels, verdicts)
    found = plan(
        [run.facts.scenario.engine for run in runs],
        believed,
        slo,
        slo.target_users,
        slo.gpus_per_node,
        scenario.load.think_time_s,
        slo.plan_safety,
        laws,
    )
    return msgspec.structs.replace(found, notes=[*notes, *found.notes])


def _selection(run: Run, levels: list[Level], confidence: float) -> list[SelectionRow]:
    """TSA of the run's levels. A scripted run has none: its model chose nothing."""
    workload = run.facts.scenario.workload
    mine = [level for level in levels if level.run == run.facts.id]
    if workload.control is not Control.live or not mine or run.lacks_material:
        return []
    tools = read_tools(run.directory / "material" / "tools.json")
    return selection_rows(mine, tools, workload.descriptions.value, confidence)


def _error_rate(level: Level) -> float | None:
    errors, attempts = count_errors(level)
    return errors / attempts if attempts else None


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
