"""Judgement: the tables of the verdict and of the plan, which a reader sees first."""

from __future__ import annotations

from bench.report import quantity
from bench.report.content import Content
from bench.report.offered import OfLevel, load_words
from bench.report.table import NBSP, Cell, Table, numbers, row, texts, verdict_cell
from bench.sizing.plan import PlanRow
from bench.slo import LevelVerdict, ObjectiveVerdict
from bench.stats.interval import Interval

NO_VERDICT = "no objective was judged (the scenario sets none, or no level has records)"


def headline(content: Content) -> list[str]:
    """One sentence per launch: which levels passed, failed, are undecided or not valid."""
    sentences = []
    for engine, run in dict.fromkeys((v.engine, v.run) for v in content.verdicts):
        levels = [v for v in content.verdicts if (v.engine, v.run) == (engine, run)]
        parts = []
        for word in ("passed", "failed", "undecided", "not valid"):
            found = [v for v in levels if _word(v.verdict, v.valid) == word]
            if found and all(v.point in ("", f"u{v.users}") for v in found):
                parts.append(f"{word} at {_and([f'{v.users}' for v in found])} users")
            elif found:
                parts.append(f"{word} at {_and([load_words(v) for v in found])}")
        name = f"{engine} (run {run})" if several_launches(content) else engine
        sentences.append(f"{name}: {'; '.join(parts)}.{_unchecked_words(levels)}")
    return sentences


def _unchecked_words(levels: list[LevelVerdict]) -> str:
    """How many gates stand behind a launch's verdicts without having been checked everywhere."""
    gates = {gate for level in levels for gate in level.gates}
    unchecked = {
        gate for level in levels for gate, state in level.gates.items() if is_unchecked(state)
    }
    if not unchecked:
        return ""
    return f" {len(unchecked)} of {len(gates)} gates could not be checked at every level."


def several_launches(content: Content) -> bool:
    """True when an engine was launched more than once, so that levels need the run's id."""
    pairs = {(level.engine, level.run) for level in content.levels}
    return len(pairs) > len({engine for engine, _ in pairs})


def verdict_table(content: Content) -> Table:
    """Levels x objectives: symbol and word, the observed value against the bound."""
    objectives = list(dict.fromkeys(o.name for v in content.verdicts for o in v.objectives))
    heads = {o.name: _objective_head(o) for v in content.verdicts for o in v.objectives}
    rows = [_verdict_row(content, level, objectives) for level in content.verdicts]
    return Table(
        id="verdict-levels",
        caption="Verdict of every level against every objective",
        columns=texts("Level", "Sign-off", *(heads[name] for name in objectives)),
        rows=rows,
        empty=NO_VERDICT,
        notes=[
            "✓ passed: the confidence bound lies inside the objective. ✗ failed: it lies outside. "
            "? undecided: the data allow neither. ⊘ not valid: a validity gate is not met, so the "
            "numbers may not be believed, whatever they say.",
            "A level is signed off only if every objective is passed. Brackets are one-sided "
            "bounds at the SLO's confidence; \u201copen\u201d means that the data do not bound "
            "that side.",
        ],
        stacked=True,
    )


def _verdict_row(content: Content, level: LevelVerdict, objectives: list[str]) -> list[Cell]:
    found = {o.name: o for o in level.objectives}
    cells = [
        _objective_cell(found[name]) if name in found else Cell(quantity.missing("not judged"))
        for name in objectives
    ]
    name = level_name(content, level)
    return row(name, verdict_cell(level.verdict, level.valid), *cells)


def level_name(content: Content, item: OfLevel) -> str:
    """How a level is called in a table."""
    suffix = f", run {item.run}" if several_launches(content) else ""
    label = source_label(content, item.engine, item.run)
    return f"{item.engine}, {load_words(item)}{suffix}{label}"


def source_label(content: Content, engine: str, run: str) -> str:
    """Where a launch's tokens came from, beside its name; nothing where all have one source."""
    sources = {(level.engine, level.run): level.simulated for level in content.levels}
    if len(set(sources.values())) < 2 or (engine, run) not in sources:
        return ""
    return f" ({'simulated' if sources[engine, run] else 'measured'})"


def _objective_head(objective: ObjectiveVerdict) -> str:
    scale, unit = quantity.metric_scale(objective.metric)
    sign = "≤" if objective.direction == "below" else "≥"
    if unit == "share":
        return f"{objective.name} {sign}{NBSP}{quantity.share(objective.bound, 'no bound')}"
    bound = quantity.number(objective.bound, "no bound", scale)
    return f"{objective.name} {sign}{NBSP}{bound}{NBSP}{unit}"


def _objective_cell(objective: ObjectiveVerdict) -> Cell:
    tag = ", infeasible" if objective.infeasible else ""
    cell = verdict_cell(objective.verdict, objective.valid)
    return Cell(f"{cell.text}{tag}: {_observed(objective)}", cell.tone)


def _observed(objective: ObjectiveVerdict) -> str:
    scale, unit = quantity.metric_scale(objective.metric)
    observed = Interval(
        value=objective.observed, low=objective.low, high=objective.high, n=objective.n
    )
    size = f"(n{NBSP}={NBSP}{objective.n:,})"
    if not quantity.is_known(objective.observed):
        return f"{quantity.missing('not observed')} {size}"
    if unit == "share":
        return f"{quantity.rate(observed)} {size}"
    return f"{quantity.interval(observed, scale)}{NBSP}{unit} {size}"


def decision_table(content: Content) -> Table:
    """Each objective that is not passed: why, and what would decide it."""
    rows = [line for level in content.verdicts for line in _decision_rows(content, level)]
    passed = "every objective is passed and valid at every level"
    return Table(
        id="verdict-decide",
        caption="What stands in the way, and what would decide it",
        columns=texts("Level", "Objective", "Verdict", "Reasons", "What would decide it"),
        rows=rows,
        empty=passed if content.verdicts else NO_VERDICT,
        heads=2,
        stacked=True,
    )


def _decision_rows(content: Content, level: LevelVerdict) -> list[list[Cell]]:
    name = level_name(content, level)
    if not level.valid:
        states = [
            _sentence(state)
            for state in level.gates.values()
            if state != "ok" and not is_unchecked(state)
        ]
        reasons = "; ".join(states) or quantity.missing("no gate names a reason")
        remedy = "Meet the validity gates and measure again."
        return [row(name, "every objective", verdict_cell(level.verdict, False), reasons, remedy)]
    return [
        row(
            name,
            objective.name,
            verdict_cell(objective.verdict, objective.valid),
            "; ".join(_sentence(reason) for reason in objective.reasons) or quantity.DASH,
            what_decides(objective),
        )
        for objective in level.objectives
        if not (objective.verdict == "passed" and objective.valid)
    ]


def what_decides(objective: ObjectiveVerdict) -> str:
    """What a reader can do about an objective that is not passed, in one sentence."""
    if not objective.valid:
        return "Meet the validity gates and measure again."
    if objective.infeasible:
        return "No run can: even an idle engine needs longer. Raise the bound or change the engine."
    if objective.verdict == "failed":
        return "Decided: failed. Fewer users, another engine or another bound."
    needed, left = objective.needed, objective.available
    unit = {"tsa": "items", "answer_rate": "tasks"}.get(objective.metric, "episodes")
    if needed is not None and left is not None and needed > left:
        return (
            f"A larger set of {unit}: about {needed:,} more distinct {unit} are needed at this "
            f"level, and the material holds {left:,} that were not asked."
        )
    if needed is not None:
        return f"About {needed:,} more {unit} at this level."
    return "A longer run at this level; how much longer cannot be said from these data."


def gates_table(content: Content) -> Table:
    """Validity gates: each state that a gate is in, and at which levels."""
    rows = [
        row(gate.replace("_", " "), _gate_cell(state), where(content, levels))
        for gate, state, levels in gate_states(content)
    ]
    return Table(
        id="validity-gates",
        caption="Validity gates",
        columns=texts("Gate", "State", "Levels"),
        rows=rows,
        empty="no gate was checked",
        notes=[
            "A level with a gate that is not met (✗) is not valid. A gate that could not be "
            "checked (?) does not stand against the level; it is a threat to its numbers."
        ],
        stacked=True,
    )


def gate_states(content: Content) -> list[tuple[str, str, list[LevelVerdict]]]:
    """(gate, state, the levels in that state), gates in the order in which they are checked."""
    states: dict[tuple[str, str], list[LevelVerdict]] = {}
    for gate in dict.fromkeys(gate for v in content.verdicts for gate in v.gates):
        for level in content.verdicts:
            if gate in level.gates:
                states.setdefault((gate, level.gates[gate]), []).append(level)
    return [(gate, state, levels) for (gate, state), levels in states.items()]


def where(content: Content, levels: list[LevelVerdict]) -> str:
    """The levels in words."""
    if len(levels) == len(content.verdicts):
        return "every level"
    return "; ".join(level_name(content, v) for v in levels)


def _gate_cell(state: str) -> Cell:
    if state == "ok":
        return Cell(f"✓{NBSP}ok", "passed")
    symbol, tone = ("?", "undecided") if is_unchecked(state) else ("✗", "failed")
    return Cell(f"{symbol}{NBSP}{_sentence(state)}", tone)


def is_unchecked(state: str) -> bool:
    """True for a gate that could not be checked, as against one that was and is not met."""
    return state.split(":", 1)[0].replace("_", " ").strip().startswith("not checked")


def plan_table(content: Content) -> Table:
    """Layouts beside each other: users per group as predicted, groups, GPUs, nodes."""
    rows = [_plan_row(item) for item in content.plan.rows]
    return Table(
        id="plan-layouts",
        caption=f"GPUs for {content.plan.target_users:,} active users, "
        f"{content.plan.gpus_per_node} GPUs a node",
        columns=[
            *texts("Layout"),
            *numbers("GPUs per group", "Users per group, predicted", "Users per GPU"),
            *texts("What limits it"),
            *numbers("TPOT p50, ms", "Episode p50, s", "Groups", "GPUs", "Nodes"),
            *numbers("GPUs, N+1", "Nodes, N+1"),
            *texts("Source"),
        ],
        rows=rows,
        empty="no layout was sized (the sizing had no coefficients or no objective)",
        notes=[_covered_words(content), *(_sentence(note) for note in content.plan.notes)],
        notes_always=True,
    )


def _covered_words(content: Content) -> str:
    """Which objectives the users of a group rest on, and which the prediction says nothing of."""
    covered = content.plan.covered
    asked = dict.fromkeys(o.name for level in content.verdicts for o in level.objectives)
    left = [name for name in asked if name not in covered]
    words = "Users per group are predicted. "
    if covered:
        words += f"They keep {_and(covered)}, as predicted"
    else:
        words += "They keep no objective, only the KV cache and the engine's own limits"
    return f"{words}; nothing is predicted of {_and(left)}." if left else f"{words}."


def _plan_row(item: PlanRow) -> list[Cell]:
    unmet = item.users_per_group is None
    none = "objectives not met" if unmet else "not computed"
    if item.rejected:
        none = "rejected"
    per_gpu = None if unmet else (item.users_per_group or 0) / item.gpus_per_replica_group
    return row(
        item.layout,
        quantity.count(item.gpus_per_replica_group),
        _users_words(item),
        quantity.number(per_gpu, none),
        item.limiting,
        quantity.number(item.tpot_s_p50, none, quantity.MS),
        quantity.number(item.latency_s_p50, none),
        quantity.count(item.groups, none),
        quantity.count(item.gpus, none),
        quantity.count(item.nodes, none),
        quantity.count(item.gpus_n_plus_1, none),
        quantity.count(item.nodes_n_plus_1, none),
        item.source,
    )


def _users_words(item: PlanRow) -> str:
    """Users per group, and how far that lies beyond what was measured."""
    if item.users_per_group is None:
        return quantity.missing("rejected" if item.rejected else "not even one keeps them")
    users = quantity.count(item.users_per_group)
    if item.measured_users is None:
        return f"{users} (not measured)"
    factor = item.users_per_group / item.measured_users
    return f"{users} ({factor:.1f}{NBSP}× measured)" if factor > 1 else users


def assumptions_table(content: Content) -> Table:
    """What the plan takes for granted."""
    return Table(
        id="plan-assumptions",
        caption="Assumptions of the plan",
        columns=texts("Assumption", "Value"),
        rows=[row(name, value) for name, value in content.plan.assumptions.items()],
        empty="the plan names no assumption",
    )


def _word(verdict: str, valid: bool) -> str:
    return verdict if valid else "not valid"


def _sentence(reason: str) -> str:
    code, colon, text = reason.partition(":")
    return f"{text.strip()} ({code})" if colon and text.strip() else reason


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
