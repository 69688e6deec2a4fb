"""Page: report.html, one self-contained file that needs no script and no network."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.report.content import Content
from bench.report.figures import all_figures
from bench.report.outline import SIGN_OFF, banners, outline


def page(content: Content) -> str:
    """The whole report as HTML. Every text is escaped; only the SVG of our figures is markup."""
    environment = Environment(
        loader=PackageLoader("bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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
