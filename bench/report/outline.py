"""Outline: which sections a report has, in the order in which a reader asks.

The verdict first, then the plan, then the evidence, then what threatens it, then how it was
made. HTML and Markdown render the same outline.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bench.report import judgement, provenance, tables
from bench.report.content import Content
from bench.report.judgement import gate_states, is_unchecked, level_name, where
from bench.report.table import Table
from bench.slo import LevelVerdict

SEED_REFERENCE = (
    "This run replays the seed's stated values through a preset engine and preset tools. It "
    "proves that the pipeline measures and counts what it should: it must give back what was "
    "stated. It says nothing about a real engine, and it is no expectation of one."
)
SIGN_OFF = ("Level signed off", "Owner", "Date", "Valid until", "Re-test when", "Waivers")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section: what it says in words, its tables and figures (by id), its subsections."""

    id: str
    title: str
    lead: list[str] = []
    points: list[str] = []
    figures: list[str] = []
    tables: list[Table] = []
    parts: list[Section] = []


class Banner(msgspec.Struct, frozen=True):
    """A warning that stands above everything."""

    kind: str  # simulated | incomplete | reference
    title: str
    text: str


def banners(content: Content) -> list[Banner]:
    """What a reader must know before the first number."""
    found = []
    if content.simulated:
        found.append(Banner("simulated", "SIMULATED ENGINE", _simulated_words(content)))
    if content.seed_reference:
        found.append(Banner("reference", "SEED REFERENCE", SEED_REFERENCE))
    for item in content.runs:
        if not item.complete:
            reason = item.reason or "no reason was recorded"
            text = f"Run {item.facts.id}: {reason}. Its numbers rest on the records that exist."
            found.append(Banner("incomplete", "INCOMPLETE", text))
    for launch, reason in content.unreadable.items():
        text = f"Launch {launch} cannot be read and is left out of every number: {reason}."
        found.append(Banner("incomplete", "INCOMPLETE", text))
    return found


def _simulated_words(content: Content) -> str:
    engines = {x.facts.scenario.engine.name: x.facts.endpoint.simulated for x in content.runs}
    whose = "The tokens of this report"
    if not all(engines.values()):
        named = ", ".join(name for name, simulated in engines.items() if simulated)
        whose = f"The tokens of {named} (and of these alone)"
    return (
        f"{whose} came from a model of an engine, not from GPUs. Its numbers show what the model "
        "predicts; they sign off nothing on real hardware."
    )


def outline(content: Content) -> list[Section]:
    """The sections of the report, in order."""
    sections = [_verdict(content), _plan(content)]
    if content.seed_reference:
        sections.insert(0, _seed_reference(content))
    return [*sections, _evidence(content), _threats(content), _method(content)]


def _verdict(content: Content) -> Section:
    lead = judgement.headline(content) or [f"No verdict: {judgement.NO_VERDICT}."]
    return Section(
        id="verdict",
        title="Verdict",
        points=lead,
        tables=[judgement.verdict_table(content), judgement.decision_table(content)],
    )


def _plan(content: Content) -> Section:
    return Section(
        id="plan",
        title="Sizing plan",
        lead=[
            "Layouts beside each other at the same target. A group is what is bought together: "
            "one replica, or several where the layout says so; users per GPU compare layouts at "
            "equal GPUs. N+1 adds one replica, so that the loss of one leaves the target served."
        ],
        tables=[judgement.plan_table(content), judgement.assumptions_table(content)],
    )


def _seed_reference(content: Content) -> Section:
    return Section(
        id="seed-reference",
        title="The seed's figures, given back",
        lead=[SEED_REFERENCE],
        tables=[tables.accounting_table(content)],
    )


def _evidence(content: Content) -> Section:
    parts = [
        Section(
            id="levels-evidence",
            title="Load levels",
            figures=["fig-load"],
            tables=[
                tables.levels_table(content),
                tables.checks_table(content),
                provenance.selftest_table(content),
            ],
        ),
        Section(
            id="latency",
            title="Latency",
            tables=[tables.latency_table(content), tables.workload_table(content)],
        ),
        Section(
            id="path",
            title="Critical path",
            figures=["fig-waterfall"],
            tables=[tables.path_table(content)],
        ),
        Section(
            id="ttft",
            title="TTFT: how it grows",
            lead=[
                "TTFT grows with the tokens that the engine must compute: the prompt less what "
                "its prefix cache holds. Every turn adds an observation to the prompt."
            ],
            figures=["fig-growth", "fig-grid"],
            tables=[tables.growth_table(content), tables.laws_table(content, tools=False)],
        ),
        Section(
            id="tools",
            title="Tools",
            figures=["fig-tools"],
            tables=[tables.laws_table(content, tools=True)],
        ),
        *([] if content.seed_reference else [_accounting(content)]),
        Section(
            id="quality",
            title="Tool selection and answers",
            lead=[
                "A right tool with wrong arguments gives a wrong answer, so answer correctness "
                "stands beside tool selection accuracy."
            ],
            figures=["fig-selection"],
            tables=[
                tables.selection_table(content),
                tables.outcomes_table(content),
                tables.confusion_table(content),
                tables.strata_table(content),
                tables.answers_table(content),
            ],
        ),
    ]
    return Section(id="evidence", title="Evidence", parts=parts)


def _accounting(content: Content) -> Section:
    return Section(
        id="seed-accounting",
        title="The seed's accounting beside the measured latency",
        lead=[
            "What the seed states for each workload is a claim about a real engine; it is shown "
            "beside the measured latency and is no expectation."
        ],
        tables=[tables.accounting_table(content)],
    )


def _threats(content: Content) -> Section:
    unchecked = list(_unchecked(content))
    unsettled = [
        f"{level_name(content, x)}: no steady state was reached."
        for x in content.levels
        if not x.settled
    ]
    points = [*content.threats, *unsettled, *unchecked]
    return Section(
        id="threats",
        title="Threats to validity",
        points=points or ["None was found by the checks below; that is not proof of none."],
        tables=[
            judgement.gates_table(content),
            provenance.errors_table(content),
            provenance.runs_table(content),
        ],
    )


def _unchecked(content: Content) -> Iterator[str]:
    """One sentence per gate that could not be checked somewhere, with its first reason."""
    by_gate: dict[str, list[tuple[str, list[LevelVerdict]]]] = {}
    for gate, state, levels in gate_states(content):
        if is_unchecked(state):
            by_gate.setdefault(gate, []).append((state, levels))
    for gate, found in by_gate.items():
        levels = [level for _, mine in found for level in mine]
        reason = found[0][0].partition(":")[2].strip() or found[0][0]
        first = "" if len(found) == 1 else "at the first of them "
        name = gate.replace("_", " ")
        yield f"Gate not checked: {name}, {where(content, levels)} ({first}{reason})."


def _method(content: Content) -> Section:
    return Section(
        id="method",
        title="How it was made",
        lead=[
            "Everything here is derived from the records of the run and can be deleted and "
            "built again by `bench report DIRECTORY`, with the directory that holds this "
            "analysis/ folder. Beside this page lie report.md, verdict.json, fits.json, "
            "selection.json, latency.json, plan.json and seed_latency.json; results/README.md "
            "explains every file and field.",
            "Quantiles are shown by linear interpolation and judged by intervals. A missing "
            "value is an en dash with its reason, never 0.",
        ],
        tables=[
            provenance.facts_table(content),
            provenance.machines_table(content),
            provenance.versions_table(content),
        ],
    )
