"""Provenance: tables of what threatens the numbers and of how they were made."""

from __future__ import annotations

import re
from typing import Any

from bench.proof import ProofLevel, SelfTest
from bench.report import quantity
from bench.report.content import Content, RunSummary
from bench.report.table import Cell, Column, Table, numbers, row, texts
from bench.scenario import Load, LoadKind, Stage

LONGEST_EXAMPLE = 300
NO_RUN = "no run was read"


def runs_table(content: Content) -> Table:
    """Which runs are complete, and what the others lack."""
    rows = [
        row(
            item.facts.id,
            item.facts.endpoint.label or item.facts.scenario.engine.name,
            Cell("✓ complete", "passed") if item.complete else Cell("✗ incomplete", "failed"),
            quantity.count(item.scheduled),
            quantity.count(item.recorded),
            quantity.count(item.torn),
            item.reason or quantity.DASH,
        )
        for item in content.runs
    ]
    return Table(
        id="runs",
        caption="Runs and their records",
        columns=[
            *texts("Run", "Engine", "State"),
            *numbers("Episodes scheduled", "Episodes recorded", "Torn last lines"),
            *texts("Reason"),
        ],
        rows=rows,
        empty=NO_RUN,
    )


def selftest_table(content: Content) -> Table:
    """What the client added at each load of its self-test, once per machine."""
    rows = []
    seen: list[SelfTest] = []
    for item in content.runs:
        test = item.selftest
        if test is None or test in seen:
            continue
        seen.append(test)
        for level in [*test.levels, *test.bursts]:
            rows.append(_selftest_row(test, level))
    return Table(
        id="selftest",
        caption="What the client itself adds: its self-test on this machine (null server)",
        columns=[
            *texts("Measured (UTC)", "Starts"),
            *numbers(
                "Prompt, tokens", "Streams", "Events/s", "Added TTFT p50, ms",
                "Added TTFT p99, ms", "Token lag p99, ms", "Client CPU",
            ),
            *texts("Carried"),
        ],
        rows=rows,
        empty="no run holds a self-test; `bench selftest` makes one for later runs",
    )  # fmt: skip


def _selftest_row(test: SelfTest, level: ProofLevel) -> list[Cell]:
    if level.carried:
        carried = Cell("✓ below 5 ms", "passed")
    else:
        carried = Cell(f"✗ limit: {level.limited_by}", "failed")
    return row(
        test.created,
        "burst" if level.burst else "staggered",
        quantity.count(level.prompt_tokens),
        quantity.count(level.streams),
        f"{level.events_per_s:,.0f}",
        _milliseconds(level.ttft_added_ms_p50),
        _milliseconds(level.ttft_added_ms_p99),
        _milliseconds(level.token_lag_ms_p99),
        quantity.missing("too short") if level.client_cpu is None else f"{level.client_cpu:.0%}",
        carried,
    )


def _milliseconds(value: float | None) -> str:
    return quantity.missing("no request came whole") if value is None else f"{value:.2f}"


def errors_table(content: Content) -> Table:
    """Every kind of error with its count and one example."""
    rows = [
        row(
            str(item.get("what", quantity.missing("not named"))),
            quantity.count(item.get("count")),
            _shorten(str(item.get("example") or quantity.missing("no message"))),
        )
        for item in content.errors
    ]
    return Table(
        id="errors",
        caption="Errors, over every attempt",
        columns=[*texts("What"), *numbers("Count"), *texts("One of them")],
        rows=rows,
        empty="no error was recorded",
        stacked=True,
    )


def facts_table(content: Content) -> Table:
    """Engine, workload, load, tools and seed of every run, a column each."""
    facts = [_facts(item) for item in content.runs]
    names = list(dict.fromkeys(name for column in facts for name in column))
    rows = [
        row(name, *(column.get(name) or quantity.missing("not recorded") for column in facts))
        for name in names
    ]
    return Table(
        id="facts",
        caption="What was run, on what",
        columns=[Column("Fact"), *texts(*(item.facts.id for item in content.runs))],
        rows=rows,
        empty=NO_RUN,
    )


def _facts(item: RunSummary) -> dict[str, str]:
    facts, scenario, endpoint = item.facts, item.facts.scenario, item.facts.endpoint
    engine, workload, load = scenario.engine, scenario.workload, scenario.load
    mix = ", ".join(f"{name} {weight:g}" for name, weight in workload.mix.items())
    return {
        "Scenario": f"{scenario.name}, seed {scenario.seed}",
        "Created (UTC)": facts.created,
        "Engine": f"{engine.kind.value}: {endpoint.label or engine.name}",
        "Source of the numbers": "simulated engine" if endpoint.simulated else "measured engine",
        "Model": endpoint.model,
        "Tensor parallel, replicas": f"{engine.tensor_parallel}, {engine.replicas}",
        "Context, tokens": f"{engine.max_model_len:,}",
        "Engine version": endpoint.version,
        "Profile hash": endpoint.profile_hash,
        "Profile's source": engine.provenance,
        **_load(load),
        "Issued per level, s": f"{load.duration_s:g}",
        "Workload mix": mix,
        "Mode": f"control {workload.control.value}, tools {scenario.tools.source.value}",
        "Tool descriptions": workload.descriptions.value,
        "SQL": _address(facts.tools.sql_dsn, facts.tools.embedded),
        "Vector store": _address(facts.tools.vector_url, facts.tools.embedded),
        "Web search": _address(facts.tools.web_url, facts.tools.embedded),
    }


def _load(load: Load) -> dict[str, str]:
    """The points of a load in words."""
    match load.kind:
        case LoadKind.closed:
            facts = {"Users": ", ".join(f"{users}" for users in load.users)}
        case LoadKind.open:
            facts = {"Arrivals, episodes/s": ", ".join(f"{rate:g}" for rate in load.rates)}
        case LoadKind.trace:
            facts = {"Traces": f"{', '.join(load.traces)}, at {load.speed:g} times their speed"}
        case LoadKind.steps:
            facts = {"Steps": "; ".join(_stage(stage) for stage in load.stages)}
    if load.kind is LoadKind.open or any(stage.rate for stage in load.stages):
        cv = f", CV {load.cv:g}" if load.cv else ""
        facts["Law of the arrivals"] = f"{load.arrivals.value}{cv}"
    if load.repeats > 1:
        facts["Repeats of each point"] = f"{load.repeats}, {load.order.value}"
    if load.workers > 1:
        facts["Load workers"] = f"{load.workers}"
    return facts


def _stage(stage: Stage) -> str:
    many = f"{stage.rate:g} episodes/s" if stage.rate else f"{stage.users} users"
    ramp = f", ramp {stage.ramp_s:g} s" if stage.ramp_s else ""
    return f"{many} for {stage.duration_s:g} s{ramp}"


def _address(address: str, embedded: bool) -> str:
    if not address:
        return ""
    address = re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", address)
    return f"embedded, started by the run ({address})" if embedded else address


def machines_table(content: Content) -> Table:
    """The machine that drove each run."""
    return _mappings(
        content,
        "machine",
        "The machine that drove the load",
        [item.facts.machine for item in content.runs],
    )


def versions_table(content: Content) -> Table:
    """Versions of what took part."""
    merged = [{**item.facts.versions, **item.facts.tools.versions} for item in content.runs]
    return _mappings(content, "versions", "Versions", merged)


def _mappings(content: Content, name: str, caption: str, columns: list[dict[str, Any]]) -> Table:
    keys = list(dict.fromkeys(key for column in columns for key in column))
    same = len(columns) > 1 and all(column == columns[0] for column in columns)
    shown = columns[:1] if same else columns
    heads = ["Every run"] if same else [item.facts.id for item in content.runs]
    rows = [
        row(key.replace("_", " "), *(_value(column.get(key)) for column in shown)) for key in keys
    ]
    return Table(
        id=name,
        caption=caption,
        columns=texts("What", *heads),
        rows=rows,
        empty="not recorded",
    )


def _value(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return quantity.missing("not known")
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, list):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_value(item)}" for key, item in value.items())
    return str(value)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"
