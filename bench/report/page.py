"""Page: report.html, one self-contained file that needs no script and no network."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.report.content import Content
from bench.report.figures import all_figures
from bench.report.outline import SIGN_OFF, banners, outline
from bench.report.table import printable


def page(content: Content) -> str:
    """The whole report as HTML. Every text is escaped; only the SVG of our figures is markup."""
    environment = Environment(
        loader=PackageLoader("bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    # Our own drawings: Matplotlib and figures.panel have escaped every text in them.
    environment.filters["drawing"] = Markup
    return environment.get_template("report.html.j2").render(
        title=content.title,
        generated=content.generated,
        simulated=content.simulated,
        banners=banners(content),
        sections=outline(content),
        figures=all_figures(content),
        sign_off=SIGN_OFF,
    )


def _shown(value: Any) -> Any:
    """Text without control characters; markup and numbers as they are."""
    return printable(value) if type(value) is str else value
