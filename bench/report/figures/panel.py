"""Figure: panels of inline SVG with a caption and the data behind them.

A figure is a set of small panels, not one wide picture: beside each other on a desk, below each
other on a phone, so that the words in them stay readable. Matplotlib's object-oriented API
draws them; nothing global is kept, and the same data give the same bytes.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import msgspec
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator

from bench.report.offered import HasLoad, offered
from bench.report.table import Table, printable

# Okabe and Ito's palette without its yellow, which is too light for a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)))
INK = "#1b1f24"
GRID = "#d9dde2"
LONGEST_LABEL = 42
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "react-bench",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a tool's name may hold a dollar sign
    "font.family": ["DejaVu Sans"],  # comes with Matplotlib: the same layout on every machine
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.handlelength": 3.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
}


class Panel(msgspec.Struct, frozen=True):
    """One drawing: its title, what it shows in words, and the SVG."""

    title: str
    description: str
    svg: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Panels under one caption. Without panels, `empty` says why nothing is drawn."""

    id: str
    title: str
    caption: str
    panels: list[Panel]
    data: Table
    empty: str


def draw_panel(
    name: str,
    title: str,
    description: str,
    draw: Callable[[Axes], None],
    size: tuple[float, float] = (4.5, 3.4),
) -> Panel:
    """Draw one panel of `size` inches. `name` is unique on the page; ids in the SVG begin with it.

    `draw` gets the axes; what it labels goes into a legend below them.
    """
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A glyph that DejaVu lacks is drawn by the reader's browser, with the reader's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        axes.set_title(label(title))
        draw(axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            columns = 2 if max(len(text) for text in labels) <= 26 else 1
            canvas.legend(handles, labels, loc="outside lower left", ncols=columns)
        sink = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(sink, format="svg", metadata=nothing, transparent=True)
    return Panel(title, description, _inline(sink.getvalue(), name, title, description))


def label(text: str) -> str:
    """A text that Matplotlib and XML can show: printable, not too long, no leading underscore."""
    clean = printable(text)
    clean = clean if len(clean) <= LONGEST_LABEL else f"{clean[: LONGEST_LABEL - 1]}…"
    return f" {clean}" if clean.startswith("_") else clean


def style(index: int) -> dict[str, Any]:
    """Colour, marker and dash of the index-th series: three signs, so grey print tells them."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[index % len(DASHES)],
    }


def users_axis(axes: Axes, items: Sequence[HasLoad]) -> None:
    """A logarithmic x axis whose ticks are the measured numbers of users, or the rates."""
    ticks = sorted({offered(item) for item in items})
    axes.set_xscale("log", base=2)
    axes.set_xticks(
        ticks, labels=[f"{tick:.3g}" if tick < 100 else f"{tick:.0f}" for tick in ticks]
    )
    axes.set_xticks([], minor=True)
    axes.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
    names = {"users" if item.rate_per_s is None else "episodes/s offered" for item in items}
    axes.set_xlabel(" or ".join(sorted(names, reverse=True)))


def plain_ticks(axis: Axis, low: float, high: float) -> None:
    """1,000 instead of 10 to the third on a logarithmic axis; more ticks where it is short."""
    ratio = high / low if low > 0 else float("inf")
    steps = (1.0, 2.0, 5.0) if ratio < 100 else (1.0, 3.0) if ratio < 3000 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.set_minor_formatter(lambda value, _: "")


def _inline(svg: str, name: str, title: str, description: str) -> str:
    """The bare svg element, scalable, named for screen readers, its ids unique on the page."""
    body = svg[svg.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', body)
    opening, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]+"', opening)
    assert box is not None, "Matplotlib writes a viewBox"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box.group(0)} role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{html.escape(printable(title))}</title>'
        f'<desc id="{name}-desc">{html.escape(printable(description))}</desc>{rest}'
    )
