"""Tables: the evidence. Each function is pure, Content in and one Table out."""

from __future__ import annotations

from collections.abc import Iterable

from bench.fit.facts import LevelFacts
from bench.fit.latency import LatencyRow, PathRow
from bench.fit.law import Coefficient, Law
from bench.fit.seed import AccountingRow
from bench.quality.selection import SelectionRow
from bench.report import quantity
from bench.report.content import Content
from bench.report.judgement import level_name
from bench.report.offered import load_words
from bench.report.table import NBSP, Cell, Column, Table, numbers, row, texts
from bench.stats.interval import Interval

OPEN = "\u201copen\u201d: the data do not bound that side (too few observations)."
NO_LEVEL = "no level has records"
METRICS = ("ttft_s", "tpot_s", "ttfat_s", "latency_s", "tool_s")
PARTS = {
    "client_wait": "client wait",
    "ttft": "TTFT",
    "call_decode": "thought and call",
    "tools": "tools",
    "answer_decode": "answer",
}


def _intervals(content: Content) -> str:
    return f"Brackets are {content.confidence:.0%} intervals; {OPEN}"


def levels_table(content: Content) -> Table:
    """What each level was: window, counts, load at the engine, throughput."""
    return Table(
        id="levels",
        caption="The levels: what was asked, what came back",
        columns=[
            *texts("Level", "Source"),
            *numbers("Window, s", "Warm-up, s", "Scheduled", "Attempted", "Answered"),
            *numbers("Failed", "Tail", "In flight (mean)", "Output tokens/s", "Episodes/s"),
        ],
        rows=[_level_row(content, level) for level in content.levels],
        empty=NO_LEVEL,
        notes=[
            "Tail: episodes that only held the load until the last member had ended; they count "
            "in no number."
        ],
    )


def _level_row(content: Content, level: LevelFacts) -> list[Cell]:
    source = f"{'simulated' if level.simulated else 'measured'}, {level.control}"
    return row(
        level_name(content, level),
        source,
        quantity.number(level.window_s, "no window"),
        quantity.number(level.warmup_s, "no warm-up") + ("" if level.settled else " (not settled)"),
        quantity.count(level.scheduled),
        quantity.count(level.attempted),
        quantity.count(level.answered),
        quantity.count(level.failed),
        quantity.count(level.tail),
        quantity.number(level.running_mean, "no counter"),
        quantity.number(level.output_tokens_per_s, "not reported"),
        quantity.number(level.episodes_per_s, "not counted"),
    )


def checks_table(content: Content) -> Table:
    """Measured quality of the measurement itself, per level."""
    rows = [
        row(
            level_name(content, level),
            quantity.number(level.lag_s_p99, "no request was sent", quantity.MS),
            quantity.percent(level.client_cpu, "not sampled"),
            quantity.percent(level.error_rate, "no attempt"),
            quantity.percent(level.prefix_hit_rate, "no counter"),
            quantity.percent(level.server_gap, "no counter, or too few requests"),
        )
        for level in content.levels
    ]
    return Table(
        id="level-checks",
        caption="The measurement itself",
        columns=[
            *texts("Level"),
            *numbers("Schedule lag p99, ms", "Client CPU (of a core)", "Error rate (of issued)"),
            *numbers("Prefix hit rate", "Gap to the server's own latency"),
        ],
        rows=rows,
        empty=NO_LEVEL,
        notes=[
            "Error rate: of every episode issued at the level, warm-up included, those that were "
            "cut or got no whole answer from the engine. What the model said wrongly, or a tool "
            "failed to do, is no error here."
        ],
    )


def latency_table(content: Content) -> Table:
    """Quantiles over all workloads but selection, per level and metric."""
    rows = [
        _latency_row(content, item) for item in _ordered(content.latency) if item.workload == "all"
    ]
    return Table(
        id="latency-all",
        caption="Latency by level, all workloads but selection",
        columns=_latency_columns(),
        rows=rows,
        empty="no level has an answered episode",
        heads=2,
        notes=[
            _intervals(content),
            "Missing: attempts that never reached the event that is timed.",
        ],
    )


def workload_table(content: Content) -> Table:
    """The same quantiles for each workload apart."""
    rows = [
        _latency_row(content, item, item.workload)
        for item in _ordered(content.latency)
        if item.workload != "all"
    ]
    return Table(
        id="latency-workloads",
        caption="Latency by level and workload",
        columns=_latency_columns("Workload"),
        rows=rows,
        empty="no workload has an answered episode",
        heads=3,
        folded=True,
    )


def _ordered(rows: list[LatencyRow]) -> list[LatencyRow]:
    """Levels and workloads as they come; metrics from the first token to the whole episode."""
    places: dict[tuple[str, str, int, str, str], int] = {}
    for item in rows:
        places.setdefault(
            (item.engine, item.run, item.users, item.point, item.workload), len(places)
        )

    def key(item: LatencyRow) -> tuple[int, int, str]:
        head, _, kind = item.metric.partition(".")
        rank = METRICS.index(head) if head in METRICS else len(METRICS)
        rank = 2 * rank + (kind == "answer")  # an episode calls before it answers
        return (
            places[item.engine, item.run, item.users, item.point, item.workload],
            rank,
            item.metric,
        )

    return sorted(rows, key=key)


def _latency_columns(*more: str) -> list[Column]:
    return [
        *texts("Level", *more, "Metric"),
        *numbers("n", "Missing", "p50", "p95", "p99"),
    ]


def _latency_row(content: Content, item: LatencyRow, *more: str) -> list[Cell]:
    scale, unit = quantity.metric_scale(item.metric)
    return row(
        level_name(content, item),
        *more,
        f"{quantity.metric_words(item.metric)}, {unit}",
        quantity.sample(item.n),
        quantity.count(item.missing),
        *(quantity.interval(q, scale) for q in (item.p50, item.p95, item.p99)),
    )


def path_table(content: Content) -> Table:
    """Mean seconds and share of each part of the critical path."""
    names = part_names(content.paths)
    rows = [
        row(
            level_name(content, item),
            item.workload,
            quantity.sample(item.n),
            quantity.whole(item.total_s, "no answered episode", quantity.MS),
            *(_part(item, name) for name in names),
        )
        for item in content.paths
    ]
    return Table(
        id="critical-path",
        caption="Critical path of an answered episode: mean ms (share of the whole)",
        columns=[
            *texts("Level", "Workload"),
            *numbers("n", "Whole, ms", *(f"{PARTS.get(name, name)}, ms" for name in names)),
        ],
        rows=rows,
        empty="no episode was answered",
        heads=2,
        notes=["The parts sum to the whole. TTFT holds the engine's queue and the prefill."],
    )


def part_names(paths: Iterable[PathRow]) -> list[str]:
    """The parts in the order of the episode; unknown ones last, as they come."""
    seen = dict.fromkeys(name for item in paths for name in item.parts_s)
    return [name for name in PARTS if name in seen] + [name for name in seen if name not in PARTS]


def _part(item: PathRow, name: str) -> str:
    value, part = item.parts_s.get(name), item.shares.get(name)
    text = quantity.whole(value, "none", quantity.MS)
    return text if part is None else f"{text} ({quantity.percent(part, 'none')})"


def growth_table(content: Content) -> Table:
    """TTFT by turn: how the growing prompt shows."""
    rows = [
        row(
            f"{item.engine}, {load_words(item)}",
            f"turn {item.turn + 1}",
            quantity.sample(item.n),
            quantity.count(item.prompt_tokens_p50),
            quantity.count(item.uncached_tokens_p50, "not reported"),
            quantity.interval(item.ttft_s_p50, quantity.MS),
        )
        for item in content.growth
    ]
    return Table(
        id="growth",
        caption="TTFT by turn of the episode (turns that call a tool)",
        columns=[
            *texts("Level", "Turn"),
            *numbers("n", "Prompt tokens p50", "Uncached tokens p50", "TTFT p50, ms"),
        ],
        rows=rows,
        empty="no episode has a turn with a TTFT",
        heads=2,
        notes=[_intervals(content)],
        folded=True,
    )


def laws_table(content: Content, tools: bool) -> Table:
    """Fitted laws: of the engine, or of the tools."""
    laws = [law for law in content.laws if law.name.startswith("tool") == tools]
    laws.sort(key=lambda law: law.engine)
    kind = "tool" if tools else "engine"
    return Table(
        id=f"laws-{kind}",
        caption=f"Fitted laws of the {'tools' if tools else 'engine'}",
        columns=[
            *texts(
                "Engine",
                "Law",
                "Family",
                f"Coefficients with {content.confidence:.0%} interval",
                "Fitted on",
            ),
            *numbers("n", *(("Timeouts, censored", "Failures, apart") if tools else ())),
            *texts("Error", "Accepted"),
        ],
        rows=[_law_row(law, tools) for law in laws],
        empty=f"no law of the {kind} could be fitted (no observations, or too few)",
        heads=2,
        notes=[
            "A prediction outside the range that a law was fitted on is an extrapolation. "
            "Intervals: open means not identified by the data."
        ],
    )


def _law_row(law: Law, tools: bool) -> list[Cell]:
    ranges = [f"{name} {_span(span)}" for name, span in law.range.items() if len(span) == 2]
    accepted = "✓ yes" if law.accepted else "✗ no"
    if law.unrefuted:
        accepted = "? not refuted"
    return row(
        law.engine,
        law.name,
        law.family,
        "; ".join(_coefficient(item) for item in law.coefficients) or quantity.missing("none"),
        "; ".join(ranges) or quantity.missing("no range"),
        *(quantity.count(x) for x in ((law.n, law.censored, law.failures) if tools else (law.n,))),
        _law_error(law),
        Cell(f"{accepted}: {law.note}" if law.note else accepted),
    )


def _law_error(law: Law) -> str:
    parts = []
    if quantity.is_known(law.mape):
        parts.append(f"mean {quantity.percent(law.mape, '')}, in sample")
    if quantity.is_known(law.quantile_error):
        parts.append(f"largest of p10 to p99 {quantity.percent(law.quantile_error, '')}")
    return "; ".join(parts) or quantity.missing("not computed")


def _coefficient(item: Coefficient) -> str:
    unit = f" {item.unit}" if item.unit not in ("", "1") else ""
    return f"{item.name}{NBSP}={NBSP}{quantity.coefficient(item.value, item.low, item.high)}{unit}"


def _span(span: list[float]) -> str:
    return " to ".join(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" for value in span)


def accounting_table(content: Content) -> Table:
    """Stated by the seed, counted its way, and measured, with the omitted share named."""
    return Table(
        id="accounting",
        caption="Stated, counted the seed's way, and measured (p50, ms)",
        columns=[
            *texts("Level", "Workload"),
            *numbers("n", "Stated", "Seed's accounting", "Accounting against stated"),
            *numbers("Measured", "Left out by the accounting", "Share left out"),
        ],
        rows=[_accounting_row(item) for item in content.accounting],
        empty="no answered episode of a workload that the seed accounts for",
        heads=2,
        notes=[
            "The seed counts TTFT and tool time of each iteration and one synthesis time. It "
            "leaves out the decoding of the thought and the call, and any wait of the client."
        ],
    )


def _accounting_row(item: AccountingRow) -> list[Cell]:
    gap = None if not item.stated_ms else item.seed_accounting_ms / item.stated_ms - 1
    left_out = item.omitted_ms / item.measured_ms if item.measured_ms else None
    return row(
        f"{item.engine}, {load_words(item)}",
        item.row,
        quantity.sample(item.n),
        quantity.number(item.stated_ms, "the seed states none"),
        quantity.number(item.seed_accounting_ms, "not counted"),
        quantity.missing("nothing stated")
        if gap is None
        else f"{gap * 100:+.1f}{NBSP}%".replace("-", "−"),
        quantity.number(item.measured_ms, "not measured"),
        quantity.number(item.omitted_ms, "not counted"),
        quantity.percent(left_out, "not measured"),
    )


def selection_table(content: Content) -> Table:
    """TSA per level, over answered requests and over every attempt."""
    rows = [
        row(
            *_selection_head(content, item),
            item.descriptions,
            quantity.count(item.items),
            *(_rate(x) for x in (item.tsa, item.tsa_attempts, item.tsa_strict, item.abstention)),
        )
        for item in content.selection
    ]
    return Table(
        id="selection",
        caption="Tool selection accuracy (TSA) by level",
        columns=[
            *texts("Level", "Tool descriptions"),
            *numbers("Items", "TSA (answered requests)", "TSA (every attempt)"),
            *numbers("TSA strict (arguments too)", "Right abstentions"),
        ],
        rows=rows,
        empty="the workload held no selection item, so no tool choice was graded",
        notes=[
            f"Brackets are {content.confidence:.0%} Wilson intervals; n is in each cell, since the "
            "bases differ."
        ],
    )


def _rate(item: Interval) -> str:
    text = quantity.rate(item)
    return f"{text} (n = {quantity.sample(item.n)})" if item.n else text


def _selection_head(content: Content, item: SelectionRow) -> list[str]:
    return [level_name(content, item)]


def outcomes_table(content: Content) -> Table:
    """How each selection turn ended, per level."""
    names = list(dict.fromkeys(name for item in content.selection for name in item.outcomes))
    rows = [
        row(
            *_selection_head(content, item),
            *(quantity.count(item.outcomes.get(name), "none") for name in names),
        )
        for item in content.selection
    ]
    return Table(
        id="selection-outcomes",
        caption="Outcomes of the selection turns, by level (items)",
        columns=[*texts("Level"), *numbers(*(name.replace("_", " ") for name in names))],
        rows=rows,
        empty="no selection item was graded",
    )


def confusion_table(content: Content) -> Table:
    """Expected against chosen tool, per level; "none" means no call."""
    chosen = dict.fromkeys(
        name for item in content.selection for line in item.confusion.values() for name in line
    )
    rows = [
        row(
            *_selection_head(content, item),
            expected,
            *(quantity.count(line[name]) if name in line else "0" for name in chosen),
        )
        for item in content.selection
        for expected, line in item.confusion.items()
    ]
    return Table(
        id="confusion",
        caption="Confusion matrix by level: expected tool (rows) against chosen tool (items)",
        columns=[*texts("Level", "Expected"), *numbers(*(f"chose {name}" for name in chosen))],
        rows=rows,
        empty="no selection item with one expected call was graded",
        heads=2,
        notes=["Items with exactly one expected call; \u201cnone\u201d means no call."],
    )


def strata_table(content: Content) -> Table:
    """TSA by stratum of the items."""
    names = list(dict.fromkeys(name for item in content.selection for name in item.by_stratum))
    rows = [
        row(
            *_selection_head(content, item),
            *(
                _rate(item.by_stratum[name])
                if name in item.by_stratum
                else quantity.missing("no item")
                for name in names
            ),
        )
        for item in content.selection
    ]
    return Table(
        id="strata",
        caption="TSA by stratum of the items",
        columns=[*texts("Level"), *numbers(*(name or "no stratum" for name in names))],
        rows=rows if names else [],
        empty="the items carry no stratum",
        folded=True,
    )


def answers_table(content: Content) -> Table:
    """Answers with every expected fact, over the attempted gradable episodes."""
    rows = [
        row(
            level_name(content, item),
            item.workload,
            quantity.sample(item.correct.n),
            quantity.rate(item.correct),
            quantity.sample(item.completed.n),
            quantity.rate(item.completed),
        )
        for item in content.answers
    ]
    return Table(
        id="answers",
        caption="Answer correctness by level and workload",
        columns=[
            *texts("Level", "Workload"),
            *numbers("n with facts", "Correct answers", "n", "Answered at all"),
        ],
        rows=rows,
        empty="no episode with expected facts was attempted",
        heads=2,
        notes=[
            "Both are shares of the attempted episodes, correct answers of those whose task states "
            "facts. " + _intervals(content)
        ],
    )
