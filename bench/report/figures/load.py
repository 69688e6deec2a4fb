"""Figures of load: latency, throughput, tool selection and answers against users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.axes import Axes

from bench.fit.facts import LevelFacts
from bench.fit.latency import LatencyRow
from bench.quality.selection import AnswerRow, SelectionRow
from bench.report import quantity
from bench.report.content import Content
from bench.report.figures.panel import INK, Figure, draw_panel, label, style, users_axis
from bench.report.figures.series import interval_line, series_index, series_name, source_words
from bench.report.offered import HasLoad, load_words, offered
from bench.report.table import Cell, Table, numbers, row, texts
from bench.stats.interval import Interval

QUANTILES = (("p50", "-"), ("p95", (0, (4, 2))))
METRICS = {  # metric -> title and axis of its panel
    "ttft_s.call": ("TTFT, turn that calls a tool", "ms"),
    "ttft_s.answer": ("TTFT, turn that answers", "ms"),
    "tpot_s": ("TPOT", "ms per token"),
    "latency_s": ("Episode latency", "s"),
}
Point = tuple[HasLoad, Interval]


def concurrency_figure(content: Content) -> Figure:
    """TTFT, TPOT, episode latency and throughput against users: a panel each."""
    rows = [item for item in content.latency if item.workload == "all" and item.metric in METRICS]
    sure = f"{content.confidence:.0%}"
    panels = [
        draw_panel(
            f"load-{metric.replace('.', '-')}",
            title,
            f"{title} in {unit} against users: median and 95th percentile with {sure} intervals, "
            "one colour and marker for each engine.",
            partial(_draw_quantiles, content=content, rows=mine, unit=unit),
        )
        for metric, (title, unit) in METRICS.items()
        if (mine := [item for item in rows if item.metric == metric and item.n])
    ]
    if content.levels:
        for name, title, unit, read in _throughputs():
            words = f"{title} in {unit} against users, one line for each engine."
            draw = partial(_draw_levels, content=content, read=read, unit=unit)
            panels.append(draw_panel(f"load-{name}", title, words, draw))
    count = sum(level.attempted for level in content.levels)
    return Figure(
        id="fig-load",
        title="Latency and throughput under load",
        caption=f"Solid: p50, dashed: p95, bars: {sure} intervals (a side that the data do not "
        f"bound has no bar). n = {count:,} attempted episodes; {source_words(content)}.",
        panels=panels,
        data=_concurrency_data(content, rows),
        empty="no level has records",
    )


def _throughputs() -> list[tuple[str, str, str, Callable[[LevelFacts], float | None]]]:
    return [
        ("tokens", "Output throughput", "tokens per s", lambda level: level.output_tokens_per_s),
        ("episodes", "Episode throughput", "episodes per s", lambda level: level.episodes_per_s),
    ]


def _draw_quantiles(axes: Axes, content: Content, rows: list[LatencyRow], unit: str) -> None:
    scale = quantity.metric_scale(rows[0].metric)[0]
    keys = list(dict.fromkeys((item.engine, item.run) for item in rows))
    for index, key in enumerate(keys):
        mine = [item for item in rows if (item.engine, item.run) == key]
        for name, dash in QUANTILES:
            offset = 1.0 + 0.035 * (index - (len(keys) - 1) / 2)
            _quantile_line(axes, mine, name, dash, offset, scale, series_index(content, key))
            last = axes.lines[-1] if axes.lines else None
            if last is not None:
                text = f"{series_name(content, *key)} {name}"
                _label_series(axes, series_index(content, key), dash, text)
    users_axis(axes, rows)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)


def _label_series(axes: Axes, index: int, dash: object, text: str) -> None:
    look = style(index) | {"linestyle": dash}
    axes.plot([], [], label=label(text), **look)


def _quantile_line(
    axes: Axes,
    rows: list[LatencyRow],
    name: str,
    dash: object,
    offset: float,
    scale: float,
    index: int,
) -> None:
    look = style(index) | {"linestyle": dash}
    known = [item for item in rows if quantity.is_known(getattr(item, name).value)]
    known.sort(key=offered)
    xs = [offered(item) * offset for item in known]
    axes.plot(xs, [getattr(item, name).value * scale for item in known], **look)
    for x, item in zip(xs, known, strict=True):
        found: Interval = getattr(item, name)
        ends = [found.value if side is None else side for side in (found.low, found.high)]
        axes.plot([x, x], [(e or 0.0) * scale for e in ends], color=look["color"], linewidth=1.1)


def _draw_levels(
    axes: Axes, content: Content, read: Callable[[LevelFacts], float | None], unit: str
) -> None:
    for key in dict.fromkeys((level.engine, level.run) for level in content.levels):
        mine = [level for level in content.levels if (level.engine, level.run) == key]
        known = sorted((offered(x), y) for x in mine if (y := read(x)) is not None)
        look = style(series_index(content, key)) | {"linestyle": "-"}
        name = label(series_name(content, *key))
        axes.plot([x for x, _ in known], [y for _, y in known], label=name, **look)
    users_axis(axes, content.levels)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)


def _concurrency_data(content: Content, rows: list[LatencyRow]) -> Table:
    cells: list[list[Cell]] = []
    for level in content.levels:
        key = (level.engine, level.run, level.users, level.point)
        mine = {x.metric: x for x in rows if (x.engine, x.run, x.users, x.point) == key}
        values = [
            quantity.interval(getattr(mine[metric], name), quantity.metric_scale(metric)[0])
            if metric in mine
            else quantity.missing("not observed")
            for metric in METRICS
            for name, _ in QUANTILES
        ]
        cells.append(
            row(
                series_name(content, level.engine, level.run),
                _many(level),
                quantity.count(level.attempted),
                *values,
                quantity.number(level.output_tokens_per_s, "not counted"),
                quantity.number(level.episodes_per_s, "not counted"),
            )
        )
    heads = [f"{title} {name}, {unit}" for title, unit in METRICS.values() for name, _ in QUANTILES]
    return Table(
        id="fig-load-data",
        caption="Data: quantiles and throughput by users",
        columns=[
            *texts("Engine", "Users"),
            *numbers("n attempted", *heads, "Output tokens/s", "Episodes/s"),
        ],
        rows=cells,
        empty="no level has records",
        heads=2,
    )


def selection_figure(content: Content) -> Figure:
    """TSA and answer correctness under load, with Wilson bars and the objective's bound."""
    panels = []
    bounds = sorted({o.bound for v in content.verdicts for o in v.objectives if o.metric == "tsa"})
    answers = overall_answers(content.answers)
    both: list[SelectionRow | AnswerRow] = [*content.selection, *answers]
    for number, key in enumerate(dict.fromkeys((x.engine, x.run) for x in both)):
        name = series_name(content, *key)
        tsa = [(x, x.tsa) for x in content.selection if (x.engine, x.run) == key]
        right = [(x, x.correct) for x in answers if (x.engine, x.run) == key]
        words = f"Tool selection accuracy and answer correctness against users for {name}, "
        words += f"with {content.confidence:.0%} Wilson intervals."
        draw = partial(_draw_selection, tsa=tsa, answers=right, bounds=bounds)
        panels.append(draw_panel(f"tsa-{number}", name, words, draw))
    items = sum(x.tsa.n for x in content.selection)
    line = " Dotted: the objective's bound." if bounds else ""
    return Figure(
        id="fig-selection",
        title="Tool selection and answers under load",
        caption=f"Shares from 0 to 1 with {content.confidence:.0%} Wilson intervals; the axis does "
        f"not start at 0.{line} n = {items:,} selection items and "
        f"{sum(x.correct.n for x in answers):,} gradable episodes; {source_words(content)}.",
        panels=panels,
        data=_selection_data(content, answers),
        empty="no selection item and no answer was graded",
    )


def overall_answers(answers: list[AnswerRow]) -> list[AnswerRow]:
    """The rows over all workloads."""
    return [item for item in answers if item.workload == "all"]


def _draw_selection(
    axes: Axes, tsa: Sequence[Point], answers: Sequence[Point], bounds: list[float]
) -> None:
    lows = [1.0]
    for index, (name, points) in enumerate((("TSA", tsa), ("correct answers", answers))):
        known = sorted(
            (p for p in points if quantity.is_known(p[1].value)), key=lambda p: offered(p[0])
        )
        if not known:
            continue
        xs = [offered(item) * (0.97 + 0.06 * index) for item, _ in known]
        items = [item for _, item in known]
        interval_line(axes, xs, items, 1.0, index, name)
        lows += [item.low if item.low is not None else item.value or 0.0 for item in items]
    for bound in bounds:
        text = label(f"objective: TSA ≥ {bound:g}")
        axes.axhline(bound, color=INK, linestyle=(0, (1, 2)), linewidth=1.4, label=text)
    users_axis(axes, [item for item, _ in [*tsa, *answers]])
    axes.set_ylim(max(0.0, min([*lows, *bounds]) - 0.05), 1.01)
    axes.set_ylabel("share")


def _selection_data(content: Content, answers: list[AnswerRow]) -> Table:
    both: list[SelectionRow | AnswerRow] = [*content.selection, *answers]
    firsts = {(x.engine, x.run, x.users, x.point): x for x in reversed(both)}
    keys = list(dict.fromkeys((x.engine, x.run, x.users, x.point) for x in both))
    tsa = {(x.engine, x.run, x.users, x.point): x.tsa for x in content.selection}
    right = {(x.engine, x.run, x.users, x.point): x.correct for x in answers}
    rows = [
        row(
            series_name(content, key[0], key[1]),
            _many(firsts[key]),
            *_rate_cells(tsa.get(key)),
            *_rate_cells(right.get(key)),
        )
        for key in keys
    ]
    return Table(
        id="fig-selection-data",
        caption="Data: TSA and answer correctness by users",
        columns=[
            *texts("Engine", "Users"),
            *numbers("n items", "TSA", "n episodes", "Correct answers"),
        ],
        rows=rows,
        empty="no selection item and no answer was graded",
        heads=2,
    )


def _rate_cells(item: Interval | None) -> list[str]:
    if item is None:
        return [quantity.missing("none"), quantity.missing("not graded")]
    return [quantity.count(item.n), quantity.rate(item)]


def _many(item: HasLoad) -> str:
    """A level's load in a column headed "Users"."""
    return f"{item.users}" if item.rate_per_s is None else load_words(item)
