"""Figures of an episode: TTFT by turn, and where the time goes turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from matplotlib.axes import Axes

from bench.fit.latency import PathRow, TurnGrowth
from bench.report import quantity
from bench.report.content import Content
from bench.report.figures.panel import COLOURS, INK, Figure, draw_panel, label
from bench.report.figures.series import interval_line, series_name, source_words
from bench.report.offered import load_words, offered
from bench.report.table import Table, numbers, row, texts
from bench.report.tables import PARTS, part_names

TOOL_HATCH = "\\" * 4
PART_LOOKS = {  # colour and hatch: in grey print the hatch remains
    "client_wait": ("#8a9099", ""),
    "ttft": ("#56B4E9", ""),
    "call_decode": ("#E69F00", "////"),
    "tools": ("#009E73", TOOL_HATCH),
    "answer_decode": ("#CC79A7", "xxxx"),
}


def growth_figure(content: Content) -> Figure:
    """TTFT by turn of the episode: a panel per engine, a line per number of users."""
    rows = [item for item in content.growth if quantity.is_known(item.ttft_s_p50.value)]
    panels = []
    for number, engine in enumerate(dict.fromkeys(item.engine for item in rows)):
        mine = [item for item in rows if item.engine == engine]
        words = f"Median TTFT in milliseconds by turn of the episode for {engine}, one line for "
        words += f"each number of users, with {content.confidence:.0%} intervals."
        panels.append(
            draw_panel(f"growth-{number}", engine, words, partial(_draw_growth, rows=mine))
        )
    data = Table(
        id="fig-growth-data",
        caption="Data: TTFT by turn",
        columns=[*texts("Engine", "Users", "Turn"), *numbers("n", "TTFT p50, ms")],
        rows=[
            row(
                item.engine,
                f"{item.users}" if item.rate_per_s is None else load_words(item),
                f"{item.turn + 1}",
                quantity.count(item.n),
                quantity.interval(item.ttft_s_p50, quantity.MS),
            )
            for item in rows
        ],
        empty="no episode has a turn with a TTFT",
        heads=3,
    )
    return Figure(
        id="fig-growth",
        title="TTFT by turn of the episode",
        caption="Median TTFT (ms) of the turns that call a tool, with "
        f"{content.confidence:.0%} intervals: the prompt grows with every observation. "
        f"n = {sum(item.n for item in rows):,}; {source_words(content)}.",
        panels=panels,
        data=data,
        empty=data.empty,
    )


def _draw_growth(axes: Axes, rows: list[TurnGrowth]) -> None:
    loads = list(dict.fromkeys(load_words(item) for item in rows))
    for index, load in enumerate(loads):
        mine = [item for item in rows if load_words(item) == load]
        shift = 0.06 * (index - (len(loads) - 1) / 2)
        interval_line(
            axes,
            [item.turn + 1 + shift for item in mine],
            [item.ttft_s_p50 for item in mine],
            quantity.MS,
            index,
            load,
        )
    turns = sorted({item.turn + 1 for item in rows})
    axes.set_xticks(turns)
    axes.set_xlim(turns[0] - 0.4, turns[-1] + 0.4)
    axes.set_xlabel("turn of the episode")
    axes.set_ylabel("TTFT p50, ms")
    axes.set_ylim(bottom=0)


def waterfall_figure(content: Content) -> Figure:
    """The critical path per turn of every workload, at each engine's highest level."""
    chosen = highest_paths(content.paths)
    panels = []
    for number, (engine, run) in enumerate(dict.fromkeys((p.engine, p.run) for p in chosen)):
        mine = [item for item in chosen if (item.engine, item.run) == (engine, run)]
        bars = sum(max(1, len(item.turns)) for item in mine) + len(mine)
        words = f"Mean seconds of each part of the critical path, turn by turn, for {engine} at "
        words += f"{load_words(mine[0])}: " + "; ".join(
            f"{item.workload} {quantity.number(item.total_s, 'not known')} s in all"
            for item in mine
        )
        title = f"{series_name(content, engine, run)}, {load_words(mine[0])}"
        panels.append(
            draw_panel(
                f"waterfall-{number}",
                title,
                f"{words}.",
                partial(_draw_waterfall, paths=mine),
                (4.5, 1.5 + 0.22 * bars),
            )
        )
    data = _waterfall_data(content, chosen)
    return Figure(
        id="fig-waterfall",
        title="Where the time of an episode goes, turn by turn",
        caption="Mean seconds of each part of the critical path; each turn starts where the one "
        f"before ended. n = {sum(item.n for item in chosen):,} answered episodes at the highest "
        f"level of each engine; {source_words(content)}.",
        panels=panels,
        data=data,
        empty=data.empty,
    )


def highest_paths(paths: Iterable[PathRow]) -> list[PathRow]:
    """The paths of each launch's highest level, without "all" where workloads stand apart."""
    highest: dict[tuple[str, str], PathRow] = {}
    rows = list(paths)
    for item in rows:
        key = (item.engine, item.run)
        if key not in highest or offered(item) > offered(highest[key]):
            highest[key] = item
    top = [item for item in rows if item.point == highest[item.engine, item.run].point]
    top = [item for item in top if offered(item) == offered(highest[item.engine, item.run])]
    apart = [item for item in top if item.workload != "all"]
    return apart or top


def _draw_waterfall(axes: Axes, paths: list[PathRow]) -> None:
    position, ticks, names = 0.0, [], []
    seen: set[str] = set()
    for item in paths:
        start = 0.0
        turns = item.turns or [item.parts_s]
        for number, turn in enumerate(turns, start=1):
            ticks.append(position)
            names.append(f"{item.workload}  {number}" if number == 1 else f"{number}")
            for part in [name for name in part_names([item]) if name in turn]:
                width = turn[part] if quantity.is_known(turn[part]) else 0.0
                colour, hatch = PART_LOOKS.get(part, (COLOURS[6], ""))
                name = "" if part in seen else PARTS.get(part, part)
                seen.add(part)
                axes.barh(
                    position,
                    width,
                    left=start,
                    height=0.82,
                    color=colour,
                    hatch=hatch,
                    edgecolor="white",
                    linewidth=0.4,
                    label=label(name) if name else None,
                )
                start += width
            position += 1
        axes.text(start, position - 1, f" {start:.2f} s", va="center", fontsize=9, color=INK)
        position += 0.8
    axes.set_yticks(ticks, labels=[label(name) for name in names])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the scheduled start")
    axes.set_ylabel("workload and turn")


def _waterfall_data(content: Content, paths: list[PathRow]) -> Table:
    names = part_names(paths)
    rows = []
    for item in paths:
        for number, turn in enumerate(item.turns, start=1):
            parts = [quantity.number(turn.get(name), "none") for name in names]
            level = f"{series_name(content, item.engine, item.run)}, {load_words(item)}"
            rows.append(row(level, item.workload, f"{number}", quantity.count(item.n), *parts))
    return Table(
        id="fig-waterfall-data",
        caption="Data: mean seconds of each part, by turn",
        columns=[
            *texts("Level", "Workload", "Turn"),
            *numbers("n", *(f"{PARTS.get(name, name)}, s" for name in names)),
        ],
        rows=rows,
        empty="no episode was answered",
        heads=3,
    )
