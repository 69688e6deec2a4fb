"""Series: how one launch is named, numbered and drawn as a line in every figure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from bench.report import quantity
from bench.report.content import Content
from bench.report.figures.panel import label, style
from bench.report.judgement import several_launches
from bench.scenario import ToolSource
from bench.stats.interval import Interval


def source_words(content: Content) -> str:
    """How the numbers came about, for a caption."""
    kinds = {level.simulated for level in content.levels} or {content.simulated}
    if len(kinds) == 2:
        return "simulated and measured engines"
    return "simulated engine" if kinds.pop() else "measured engine"


def tool_source_words(content: Content) -> str:
    """Where the tools' latencies came from, for a caption; the engine's kind says nothing of it."""
    words = {
        ToolSource.embedded: "real services started on this machine",
        ToolSource.attached: "measured at the services' URLs",
        ToolSource.recorded: "stated delays, not measured",
    }
    found = dict.fromkeys(words[item.facts.scenario.tools.source] for item in content.runs)
    return "; ".join(found)


def series_name(content: Content, engine: str, run: str) -> str:
    """A launch's name in a legend: the engine, and the run where there are several."""
    return f"{engine}, run {run}" if several_launches(content) else engine


def series_index(content: Content, key: tuple[str, str]) -> int:
    """The place of a launch in the report: the same look in every panel."""
    keys = list(dict.fromkeys((level.engine, level.run) for level in content.levels))
    return keys.index(key) if key in keys else len(keys)


def interval_line(
    axes: Axes, xs: Sequence[float], items: Sequence[Interval], scale: float, index: int, name: str
) -> None:
    """One series with its intervals; an unbounded side has no bar. Unknown values are skipped."""
    known = [(x, i) for x, i in zip(xs, items, strict=True) if quantity.is_known(i.value)]
    look = style(index)
    values = [(i.value or 0.0) * scale for _, i in known]
    axes.plot([x for x, _ in known], values, label=label(name), **look)
    for (x, item), value in zip(known, values, strict=True):
        low = value if item.low is None else item.low * scale
        high = value if item.high is None else item.high * scale
        axes.plot([x, x], [low, high], color=look["color"], linewidth=1.2)
