"""Page: our figures on Locust's web page: TTFT and episode latency, p50 and p95, over time.

`/agents` draws them (no outside script), `/agents/figures` is their data, and the tab "Agents" of
Locust's own page shows the newest. For looking on: Locust rounds its times, and no result is
computed from them.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Blueprint, Response, request
from jinja2 import Environment as Templates
from jinja2 import PackageLoader

EVERY_S = 2.0
WINDOW = 5  # samples that one figure looks back
KEPT = 1800
KINDS = {"ttft": "TTFT of the first turn", "episode": "Episode latency"}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of time over the last 10 seconds, milliseconds; None: none ended."""

    at_s: float
    kind: str
    count: int
    p50_ms: float | None
    p95_ms: float | None


class Figures:
    """Takes figures from Locust's statistics, which hold every worker's response times."""

    def __init__(self, stats: Any) -> None:
        self._stats = stats
        self._seen: deque[dict[str, Counter[float]]] = deque(maxlen=WINDOW)
        self._first_s: float | None = None
        self.kept: deque[Figure] = deque(maxlen=KEPT)

    def take(self, now_s: float) -> None:
        """Add one figure of each kind."""
        self._first_s = now_s if self._first_s is None else self._first_s
        totals = {kind: self._total(kind) for kind in KINDS}
        for kind, total in totals.items():
            before = self._seen[0][kind] if self._seen else Counter[float]()
            window = total - before
            self.kept.append(
                Figure(
                    at_s=round(now_s - self._first_s, 3),
                    kind=kind,
                    count=window.total(),
                    p50_ms=quantile(window, 0.5),
                    p95_ms=quantile(window, 0.95),
                )
            )
        self._seen.append(totals)

    def newest(self) -> list[Figure]:
        """The last figure of each kind."""
        return list(itertools.islice(reversed(self.kept), len(KINDS)))[::-1]

    def _total(self, kind: str) -> Counter[float]:
        total: Counter[float] = Counter()
        for entry in list(self._stats.entries.values()):
            if entry.method == kind:
                total.update(entry.response_times)
        return total


def quantile(counts: Mapping[float, int], q: float) -> float | None:
    """The smallest value that at least a share q of all counted values does not exceed."""
    left = q * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if counts[value] > 0 and left <= 1e-9:
            return float(value)
    return None


def add_figures(page: Any, stats: Any) -> Figures:
    """Add them to Locust's web page (`locust.web.WebUI`)."""
    figures = Figures(stats)
    template = Templates(loader=PackageLoader("bench.load"), autoescape=True)
    agents = Blueprint("agents", __name__)

    @agents.get("/agents")
    def show() -> str:
        return template.get_template("agents.html").render(kinds=KINDS, every_s=EVERY_S)

    @agents.get("/agents/figures")
    def data() -> Response:
        return Response(msgspec.json.encode(list(figures.kept)), mimetype="application/json")

    def add_tab(response: Response) -> Response:
        if request.path == "/stats/requests" and response.is_json:
            stats_shown = response.get_json()
            rows = [_row(figure) for figure in figures.newest()]
            stats_shown["extended_stats"] = [{"key": "agents", "data": rows}]
            response.set_data(msgspec.json.encode(stats_shown))
        return response

    page.app.register_blueprint(agents)
    page.app.after_request(add_tab)
    columns = {"kind": "Over the last 10 s", "count": "Ended", "p50": "p50, ms", "p95": "p95, ms"}
    page.template_args = {
        **page.template_args,
        "extended_tabs": [{"title": "Agents", "key": "agents"}],
        "extended_tables": [
            {
                "key": "agents",
                "structure": [{"key": key, "title": title} for key, title in columns.items()],
            }
        ],
    }
    return figures


def _row(figure: Figure) -> dict[str, Any]:
    return {
        "kind": KINDS[figure.kind],
        "count": figure.count,
        "p50": "–" if figure.p50_ms is None else figure.p50_ms,
        "p95": "–" if figure.p95_ms is None else figure.p95_ms,
    }
