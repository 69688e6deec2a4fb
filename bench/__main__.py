"""The command line: `bench run | report | check | selftest | validate | calibrate | doctor`.

Each command is a few lines.

Exit codes: 0 done (or passed); `bench check`: 1 failed, 2 undecided, 3 not valid; 64 and above:
an error told in one sentence (see bench.errors); 130 and 143: stopped by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.errors import BenchError, EngineError

RUN_HELP = """\
bench run [scenario=NAME] [GROUP=CHOICE] [KEY=VALUE] ...

  bench run scenario=demo                                     two simulated engines, real tools
  bench run scenario=single engine=h100_tp2 load.users=[4,8,16]
  bench run scenario=single engine=attached engine.url=http://HOST:8000/v1 engine.model=NAME
            engine.gpu=H100-SXM-80GB engine.tensor_parallel=4
  bench run scenario=seed_reference                           the seed's latency table
  bench run scenario=single dry_run=true                      show what would be run
  bench run -m scenario=single engine=h100_tp2,h100_tp4       a campaign of two launches

The choices are the files of conf/: engine, workload, load, tools, slo, scenario.
"""

USAGE_EXIT_CODE = 64
NOT_VALID = 3
TABLE_WIDTH = 120
CHECK_COLUMNS = ("engine", "level", "objective", "observed", "bound", "n", "verdict", "reasons")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code. An expected failure is one line on stderr."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["run"]:
            return _run(words[1:])
        return _other(words)
    except BenchError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:  # before a run began; a run turns it into Stopped
        return 130
    except BrokenPipeError:  # e.g. `bench doctor | head`
        sys.stderr.close()
        return 141


def _other(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description="ReAct agents on vLLM: SLO, TSA, GPUs"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run a scenario (bench run --help)")
    report = commands.add_parser("report", help="build analysis/ again from the records")
    report.add_argument("run", type=Path, help="directory of a run or a campaign")
    check = commands.add_parser("check", help="exit 0 passed, 1 failed, 2 undecided, 3 not valid")
    check.add_argument("run", type=Path, help="directory of a run or a campaign")
    check.add_argument("--users", type=int, help="only the level with so many users")
    selftest = commands.add_parser("selftest", help="what the client adds, and up to which load")
    selftest.add_argument("--quick", action="store_true", help="fewer and shorter levels (1 min)")
    selftest.add_argument("--json", action="store_true", help="print the result as JSON")
    selftest.add_argument("--if-missing", action="store_true", help="only if none is kept")
    selftest.add_argument("--endurance", action="store_true", help="connections held, memory")
    selftest.add_argument("--results", type=Path, default=Path("results"), help="where it is kept")
    validate = commands.add_parser("validate", help="the simulated engine beside published numbers")
    validate.add_argument("--json", action="store_true", help="the rows as JSON, no page")
    validate.add_argument("--out", type=Path, default=Path("results/validation"), help="directory")
    calibrate = commands.add_parser("calibrate", help="a simulated engine from a measured one")
    calibrate.add_argument("run", type=Path, help="directory of a run with an idle grid and load")
    calibrate.add_argument("--out", type=Path, default=Path("results/calibration"))
    commands.add_parser("doctor", help="what is present here, and what each missing thing costs")
    try:
        options = parser.parse_args(words)
    except SystemExit as told:  # argparse's 2 would read as "undecided"
        return USAGE_EXIT_CODE if told.code else 0
    if options.command == "report":
        return _report(options.run)
    if options.command == "check":
        return _check(options.run, options.users)
    if options.command == "selftest":
        return _selftest(options)
    if options.command == "validate":
        return _validate(options.out, options.json)
    if options.command == "calibrate":
        return _calibrate(options.run, options.out)
    return _doctor()


def _run(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        Console().print(RUN_HELP, markup=False, highlight=False)
        return 0
    from bench.config import run_words
    from bench.dry_run import describe
    from bench.measure import measure
    from bench.progress import Display
    from bench.scenario import Scenario

    display = Display()
    measured: list[Path] = []

    def job(scenario: Scenario, directory: Path) -> None:
        if scenario.dry_run:
            display.say(describe(scenario))
            return
        measured.append(directory)
        measure(scenario, directory, display)

    try:
        directory, failures = run_words(words, job)
    finally:
        display.close()
    for failure in failures:
        _tell(failure)
    recorded = [path for path in measured if (path / "run.json").exists()]
    if recorded:
        _report(directory)
    for path in recorded:
        if unserved := _unserved(path):
            _tell(unserved)
            failures.append(unserved)
    return failures[0].exit_code if failures else 0


def _tell(error: BenchError) -> None:
    Console(stderr=True, highlight=False).print(
        f"{type(error).__name__}: {error}", markup=False, soft_wrap=True
    )


def _unserved(directory: Path) -> BenchError | None:
    """Why a complete run is no success all the same: none of its model calls was answered."""
    from bench.run import read_run

    run = read_run(directory)
    if run.served or not run.complete:
        return None
    first = next((call for call in run.llm if call.error), None)
    return EngineError(
        f"run={run.facts.id}",
        f"none of its {len(run.llm)} model calls succeeded"
        + (f" (the first: {first.outcome.value}: {first.error})" if first else ""),
        "read the errors in its report and the engine's log, then run again",
    )


def _report(directory: Path) -> int:
    from bench.analyse import analyse

    Console(highlight=False).print(f"report: {analyse(directory)}", soft_wrap=True)
    return 0


def _check(directory: Path, users: int | None) -> int:
    from bench.analyse import content_of, verdicts_of
    from bench.slo import check_exit_code

    content = content_of(directory)
    verdicts = verdicts_of(content, users)
    console = Console(highlight=False)
    rows = [
        (
            one.engine, one.point or f"u{one.users}", one.name,
            "unknown" if one.observed is None else f"{one.observed:.4g}",
            f"{one.direction} {one.bound:g}", str(one.n),
            one.verdict if one.valid else f"{one.verdict} (not valid)", "; ".join(one.reasons),
        )
        for level in verdicts
        for one in level.objectives
    ]  # fmt: skip
    if console.is_terminal and console.width >= TABLE_WIDTH:
        table = Table(*CHECK_COLUMNS)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:  # a line each, whole, for a pipe or a narrow window
        for row in rows:
            parts = zip(CHECK_COLUMNS, row, strict=True)
            line = "  ".join(f"{name}={value}" for name, value in parts if value)
            console.print(line, markup=False, soft_wrap=True)
    if not verdicts:
        console.print("not valid: no load level was measured")
    for launch, reason in content.unreadable.items():
        console.print(f"not valid: launch {launch}: {reason}", markup=False, soft_wrap=True)
    return NOT_VALID if content.unreadable else check_exit_code(verdicts)


def _selftest(options: argparse.Namespace) -> int:
    from bench.engine.machine import machine_facts, versions
    from bench.selftest import cached, climb, store, table
    from bench.selftest.endurance import endure
    from bench.selftest.ladder import FULL, QUICK

    out, told = Console(highlight=False), Console(stderr=True, highlight=False)
    if options.endurance:
        out.print(endure(quick=options.quick), markup=False, soft_wrap=True)
        return 0
    machine, known = machine_facts(), versions()
    test = cached(options.results, machine, known) if options.if_missing else None
    if test is None:
        rungs = QUICK if options.quick else FULL
        test = climb(rungs, machine, known, lambda level: told.print(table.line(level)))
        told.print(f"kept: {store(options.results, test)}", soft_wrap=True)
    if options.json:
        out.print(table.as_json(test), markup=False, soft_wrap=True)
        return 0
    if out.is_terminal and out.width >= TABLE_WIDTH:
        for one in table.tables(test):
            out.print(one)
    else:  # a line each, whole, for a pipe or a narrow window
        for level in [*test.levels, *test.bursts]:
            out.print(table.line(level), markup=False, soft_wrap=True)
    out.print(table.conclusion(test), soft_wrap=True)
    return 0


def _calibrate(directory: Path, out: Path) -> int:
    from bench.calibrate import calibrate

    path = calibrate(directory, out)
    Console(highlight=False).print(f"profile: {path} (copy it into conf/engine/)", soft_wrap=True)
    return 0


def _validate(directory: Path, as_json: bool) -> int:
    from bench.validate import misses, rows, write_page
    from bench.validate.page import as_builtins

    found = rows()
    missed = misses(found)
    say = Console(highlight=False)
    if as_json:
        say.out(json.dumps(as_builtins(found), indent=1), highlight=False)
    else:
        page = write_page(found, directory)
        say.print(f"validation: {page}, {len(found)} rows, {len(missed)} outside their gate")
    return 1 if missed else 0


def _doctor() -> int:
    from bench.doctor import examine

    lines = Console(highlight=False)
    for found in examine():
        if found.present:
            line = f"yes  {found.name}: {found.detail}"
        else:
            line = f"no   {found.name}: {found.cost}; {found.remedy}"
        lines.print(line, markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
