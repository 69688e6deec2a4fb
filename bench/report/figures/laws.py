"""Figures of laws: TTFT against uncached tokens, and each tool's latency distribution."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from bench.fit.law import Law
from bench.fit.tools import tool_quantile
from bench.fit.ttft import predict_ttft
from bench.report import quantity
from bench.report.content import Content, GridCell
from bench.report.figures.panel import (
    Figure,
    draw_panel,
    label,
    plain_ticks,
    style,
)
from bench.report.figures.series import source_words, tool_source_words
from bench.report.table import Table, numbers, row, texts

CURVE_POINTS = 60
SHARE_GAP = 0.15


def grid_figure(content: Content) -> Figure:
    """TTFT at concurrency 1 against uncached tokens, by cached share, with the fitted law."""
    cells = [
        cell
        for cell in content.grid
        if _known(cell.ttft_s) and _known([cell.prompt_tokens, cell.cached_tokens])[1:]
    ]
    laws = {law.engine: law for law in content.laws if law.name == "ttft"}
    panels = []
    for number, engine in enumerate(dict.fromkeys(cell.engine for cell in cells)):
        mine = [cell for cell in cells if cell.engine == engine]
        words = f"TTFT in milliseconds against uncached prompt tokens for {engine}, a marker for "
        words += "each cached share; the lines are the fitted law."
        draw = partial(_draw_grid, cells=mine, law=laws.get(engine))
        panels.append(draw_panel(f"grid-{number}", engine, words, draw))
    data = _grid_data(cells)
    drawn = "lines: fitted law over the fitted range" if laws else "no law was fitted"
    return Figure(
        id="fig-grid",
        title="TTFT against uncached tokens",
        caption="Idle engine, one request at a time. Markers: every repeat of every cell of the "
        f"grid; {drawn}. n = {sum(len(cell.ttft_s) for cell in cells):,} requests; "
        f"{source_words(content)}.",
        panels=panels,
        data=data,
        empty=data.empty,
    )


def _draw_grid(axes: Axes, cells: list[GridCell], law: Law | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for index, mine in enumerate(share_groups(cells)):
        look = style(index) | {"linestyle": ""}
        points = [
            (cell.prompt_tokens - cell.cached_tokens, ttft_s * quantity.MS)
            for cell in mine
            for ttft_s in _known(cell.ttft_s)
        ]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            label=f"{_share_words(mine)} cached",
            fillstyle="none",
            **look,
        )
        if law is not None and law.family == "step-time":
            xs, ys = _law_curve(law, mine)
            axes.plot(xs, ys, color=look["color"], linestyle=style(index)["linestyle"])
    plain_ticks(axes.xaxis, *axes.get_xlim())
    plain_ticks(axes.yaxis, *axes.get_ylim())
    axes.set_xlabel("uncached prompt tokens")
    axes.set_ylabel("TTFT, ms")


def _law_curve(law: Law, cells: list[GridCell]) -> tuple[list[float], list[float]]:
    """The law through the cells: cached tokens are interpolated between theirs."""
    known = sorted((cell.prompt_tokens - cell.cached_tokens, cell.cached_tokens) for cell in cells)
    uncached = np.maximum([u for u, _ in known], 1.0)
    xs = np.geomspace(uncached[0], uncached[-1], CURVE_POINTS)
    cached = np.interp(xs, uncached, [p for _, p in known])
    points = zip(xs.tolist(), cached.tolist(), strict=True)
    return xs.tolist(), [predict_ttft(law, u, p) * quantity.MS for u, p in points]


def share_groups(cells: list[GridCell]) -> list[list[GridCell]]:
    """Cells of one planned hit rate, told by their measured share: it differs a little by prompt,
    since only full blocks are cached. A gap of more than SHARE_GAP starts a new group.
    """
    groups: list[list[GridCell]] = []
    for cell in sorted(cells, key=cached_share):
        if not groups or cached_share(cell) - cached_share(groups[-1][-1]) > SHARE_GAP:
            groups.append([])
        groups[-1].append(cell)
    return groups


def cached_share(cell: GridCell) -> float:
    """Cached tokens of a cell as a share of its prompt."""
    return cell.cached_tokens / cell.prompt_tokens if cell.prompt_tokens else 0.0


def _share_words(cells: list[GridCell]) -> str:
    shares = [round(cached_share(cell) * 100) for cell in cells]
    low, high = min(shares), max(shares)
    return f"{low} %" if low == high else f"{low} to {high} %"


def _grid_data(cells: list[GridCell]) -> Table:
    rows = [
        row(
            cell.engine,
            quantity.count(cell.prompt_tokens),
            quantity.count(cell.cached_tokens),
            quantity.count(cell.prompt_tokens - cell.cached_tokens),
            quantity.count(len(_known(cell.ttft_s))),
            quantity.number(float(np.median(_known(cell.ttft_s))), "none", quantity.MS),
            quantity.number(min(_known(cell.ttft_s)), "none", quantity.MS),
            quantity.number(max(_known(cell.ttft_s)), "none", quantity.MS),
        )
        for cell in cells
    ]
    return Table(
        id="fig-grid-data",
        caption="Data: TTFT of the idle grid",
        columns=[
            *texts("Engine"),
            *numbers("Prompt tokens", "Cached tokens", "Uncached tokens", "n"),
            *numbers("TTFT median, ms", "Smallest, ms", "Largest, ms"),
        ],
        rows=rows,
        empty="no idle grid was measured (load.grid_repeats is 0, or the run stopped before it)",
    )


def tools_figure(content: Content) -> Figure:
    """Each tool's measured latencies as a step curve, beside its fitted law."""
    samples = {tool: _known(values) for tool, values in content.tool_samples.items()}
    samples = {tool: sorted(values) for tool, values in samples.items() if values}
    panels = []
    for number, (tool, values) in enumerate(samples.items()):
        laws = [law for law in content.laws if law.name == f"tool.{tool}"]
        words = f"Share of {len(values):,} calls of {tool} that ended within a latency in "
        words += "milliseconds: measured step curve and fitted law."
        draw = partial(_draw_tool, values=values, laws=laws)
        panels.append(draw_panel(f"tool-{number}", f"{tool} (n = {len(values):,})", words, draw))
    data = _tools_data(samples)
    return Figure(
        id="fig-tools",
        title="Tool latency: measured and fitted",
        caption="Share of calls that ended within a latency (ms), over every level. Step curve: "
        "measured; dashed curve: the fitted law of each engine's calls, where one was accepted. "
        f"n = {sum(map(len, samples.values())):,} calls; {tool_source_words(content)}.",
        panels=panels,
        data=data,
        empty=data.empty,
    )


def _draw_tool(axes: Axes, values: list[float], laws: list[Law]) -> None:
    xs = np.asarray(values) * quantity.MS
    heights = np.arange(1, len(xs) + 1) / len(xs)
    axes.step(xs, heights, where="post", color=style(0)["color"], label="measured")
    fitted = [law for law in laws if law.accepted and law.family != "empirical"]
    for index, law in enumerate(fitted, start=1):
        look = style(index)
        shares = np.linspace(0.001, 0.999, 4 * CURVE_POINTS)
        name = f"{law.family}, {law.engine}" if law.engine else law.family
        latencies = tool_quantile(law, shares) * quantity.MS
        axes.plot(
            latencies, shares, color=look["color"], linestyle=look["linestyle"], label=label(name)
        )
    if xs[0] > 0:
        axes.set_xscale("log")
        plain_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("latency, ms")
    axes.set_ylabel("share of calls")


def _tools_data(samples: dict[str, list[float]]) -> Table:
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    rows = [
        row(
            tool,
            quantity.count(len(values)),
            *(
                quantity.number(float(np.quantile(values, q)), "none", quantity.MS)
                for q in quantiles
            ),
        )
        for tool, values in samples.items()
    ]
    return Table(
        id="fig-tools-data",
        caption="Data: quantiles of the measured tool latencies, ms",
        columns=[*texts("Tool"), *numbers("n", *(f"p{q * 100:g}" for q in quantiles))],
        rows=rows,
        empty="no tool was called",
    )


def _known(values: list[float]) -> list[float]:
    return [value for value in values if quantity.is_known(value)]
