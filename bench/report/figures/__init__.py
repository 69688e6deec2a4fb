"""What do the numbers look like? Content in, Figures of inline SVG out.

The only room that draws (Matplotlib). A figure is a set of small panels with a caption that
names n, units and source, and the drawn numbers as a table behind it.
"""

from __future__ import annotations

from bench.report.content import Content
from bench.report.figures.episode import growth_figure, waterfall_figure
from bench.report.figures.laws import grid_figure, tools_figure
from bench.report.figures.load import concurrency_figure, selection_figure
from bench.report.figures.panel import Figure, Panel

__all__ = ["Figure", "Panel", "all_figures"]


def all_figures(content: Content) -> dict[str, Figure]:
    """Every figure of the report by its id."""
    drawn = (
        concurrency_figure(content),
        waterfall_figure(content),
        growth_figure(content),
        grid_figure(content),
        tools_figure(content),
        selection_figure(content),
    )
    return {figure.id: figure for figure in drawn}
