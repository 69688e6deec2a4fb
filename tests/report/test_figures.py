from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import matplotlib
import msgspec

from bench.report.content import Content
from bench.report.figures import Figure, all_figures
from bench.report.figures.laws import cached_share, grid_figure, share_groups, tools_figure
from bench.report.figures.load import selection_figure
from bench.report.figures.panel import COLOURS, MARKERS, label, style

SVG = "{http://www.w3.org/2000/svg}"


def elements(figure: Figure) -> list[ET.Element]:
    return [ET.fromstring(panel.svg) for panel in figure.panels]


def test_each_figure_has_panels_caption_and_data(figures: dict[str, Figure]) -> None:
    assert list(figures) == [
        "fig-load",
        "fig-waterfall",
        "fig-growth",
        "fig-grid",
        "fig-tools",
        "fig-selection",
    ]
    panels = {name: len(figure.panels) for name, figure in figures.items()}
    assert panels == {
        "fig-load": 6,
        "fig-waterfall": 2,
        "fig-growth": 2,
        "fig-grid": 2,
        "fig-tools": 3,
        "fig-selection": 2,
    }
    for figure in figures.values():
        assert re.search(r"n = [\d,]+", figure.caption)
        of_tools = figure.id == "fig-tools"
        assert ("real services" if of_tools else "simulated engine") in figure.caption
        assert figure.data.rows
        assert {len(cells) for cells in figure.data.rows} == {len(figure.data.columns)}


def test_each_svg_is_named_and_scales(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        for svg in elements(figure):
            assert svg.get("role") == "img"
            assert svg.get("viewBox")
            assert svg.get("width") is None
            title, description = svg.find(f"{SVG}title"), svg.find(f"{SVG}desc")
            assert title is not None and title.text
            assert description is not None and description.text
            assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"


def test_ids_are_unique_over_the_page_and_references_resolve(figures: dict[str, Figure]) -> None:
    text = "".join(p.svg for figure in figures.values() for p in figure.panels)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    assert used
    assert used <= set(ids)


def test_drawing_twice_gives_the_same_bytes_and_leaves_no_state(
    rich: Content, figures: dict[str, Figure]
) -> None:
    before = dict(matplotlib.rcParams)
    assert all_figures(rich) == figures
    assert dict(matplotlib.rcParams) == before


def test_nothing_to_draw_says_why(empty: Content) -> None:
    for figure in all_figures(empty).values():
        assert figure.panels == []
        assert figure.empty


def test_hostile_names_are_drawn_as_text(hostile: Content) -> None:
    for figure in all_figures(hostile).values():
        for svg in elements(figure):
            assert svg.find(f".//{SVG}script") is None


def test_the_law_is_drawn_where_it_was_fitted(rich: Content, figures: dict[str, Figure]) -> None:
    bare = msgspec.structs.replace(rich, laws=[])
    for draw in (grid_figure, tools_figure):
        without = draw(bare)
        drawn = figures[without.id].panels[0].svg
        assert drawn.count("<path") > without.panels[0].svg.count("<path")
    assert "no law was fitted" in grid_figure(bare).caption
    assert "lognormal" not in figures["fig-tools"].panels[2].svg, "web_search's was not accepted"


def test_the_alarm_line_needs_an_objective(rich: Content, figures: dict[str, Figure]) -> None:
    assert "TSA ≥ 0.85" in figures["fig-selection"].panels[0].svg
    unjudged = msgspec.structs.replace(rich, verdicts=[])
    assert "objective" not in selection_figure(unjudged).panels[0].svg


def test_series_differ_in_three_signs() -> None:
    looks = [style(index) for index in range(5)]
    for sign in ("color", "marker"):
        assert len({look[sign] for look in looks}) == 5
    assert len({str(look["linestyle"]) for look in looks}) == 5
    assert len(set(COLOURS)) == len(MARKERS) == len(COLOURS)


def test_labels_are_short_printable_and_never_hidden() -> None:
    assert label("_x\x07") == " _x "
    assert len(label("x" * 100)) == 42


def test_cells_of_one_planned_hit_rate_are_one_series(rich: Content) -> None:
    nudged = [
        msgspec.structs.replace(cell, cached_tokens=cell.cached_tokens + 0.04 * cell.prompt_tokens)
        for cell in rich.grid[:4]
    ]
    groups = share_groups([*nudged, *rich.grid[4:]])
    assert [len(group) for group in groups] == [6, 6, 6]
    assert {round(cached_share(cell), 2) for cell in groups[0]} == {0.0, 0.04}
