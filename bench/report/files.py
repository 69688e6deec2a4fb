"""Files: analysis/ as a whole, the page, the Markdown and the JSON for machines.

results/README.md documents every field. A value that is not known is null; NaN and the
infinities are never written. The same Content gives the same bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.fit.latency import LatencyRow, PathRow
from bench.fit.law import Law
from bench.fit.seed import AccountingRow
from bench.quality.selection import AnswerRow, SelectionRow
from bench.report.content import Content
from bench.report.markdown import markdown
from bench.report.page import page
from bench.run import write_atomically
from bench.stats.interval import Interval

FILES = ("verdict", "fits", "selection", "latency", "plan", "seed_latency")
VERSION = 1


def write_report(content: Content, directory: Path) -> Path:
    """Write analysis/ below a run or campaign directory; the path of report.html.

    Raises RecordError when the disk does not take it.
    """
    analysis = directory / "analysis"
    for name, body in documents(content).items():
        head = {"schema": f"react-bench/{name}/{VERSION}", "simulated": content.simulated}
        text = msgspec.json.format(msgspec.json.encode(_plain(head | body)), indent=1)
        write_atomically(analysis / f"{name}.json", text + b"\n")
    write_atomically(analysis / "report.md", _bytes(markdown(content)))
    path = analysis / "report.html"
    write_atomically(path, _bytes(page(content)))
    return path


def documents(content: Content) -> dict[str, dict[str, Any]]:
    """The body of each JSON file by its name."""
    bodies = (
        _verdict(content),
        {"laws": [_law(law) for law in content.laws]},
        {
            "levels": [_selection(item) for item in content.selection],
            "answers": [_answer(item) for item in content.answers],
        },
        _latency(content),
        _builtins(content.plan),
        {"rows": [_accounting(item) for item in content.accounting]},
    )
    return dict(zip(FILES, bodies, strict=True))


def _verdict(content: Content) -> dict[str, Any]:
    sources = {(level.engine, level.run): level.simulated for level in content.levels}
    return {
        "objectives": [
            _builtins(objective) for level in content.verdicts for objective in level.objectives
        ],
        "levels": [
            {
                "engine": level.engine,
                "run": level.run,
                "users": level.users,
                "simulated": sources.get((level.engine, level.run)),
                "point": level.point,
                "rate_per_s": level.rate_per_s,
                "verdict": level.verdict,
                "valid": level.valid,
                "gates": level.gates,
            }
            for level in content.verdicts
        ],
    }


def _law(law: Law) -> dict[str, Any]:
    body: dict[str, Any] = _builtins(law)
    error = {"mape": body.pop("mape"), "quantile_error": body.pop("quantile_error")}
    return body | {"error": error}


def _selection(item: SelectionRow) -> dict[str, Any]:
    body: dict[str, Any] = _builtins(item)
    tsa = _interval(item.tsa)
    return body | {"n": tsa["n"], "tsa": tsa["value"], "low": tsa["low"], "high": tsa["high"]}


def _answer(item: AnswerRow) -> dict[str, Any]:
    body: dict[str, Any] = _builtins(item)
    return body | {"n": item.correct.n}


def _latency(content: Content) -> dict[str, Any]:
    rows: list[LatencyRow | PathRow] = [*content.latency, *content.paths]
    keys = dict.fromkeys((x.engine, x.run, x.users, x.point, x.workload) for x in rows)
    paths = {(x.engine, x.run, x.users, x.point, x.workload): x for x in content.paths}
    levels = []
    for key in keys:
        engine, run, users, point, workload = key
        mine = [
            x for x in content.latency if (x.engine, x.run, x.users, x.point, x.workload) == key
        ]
        path = paths.get(key)
        rate_per_s = path.rate_per_s if path else mine[0].rate_per_s
        levels.append(
            {
                "engine": engine,
                "run": run,
                "users": users,
                "point": point,
                "rate_per_s": rate_per_s,
                "workload": workload,
                "n": next((x.n for x in mine if x.metric == "latency_s"), None),
                "metrics": {item.metric: _metric(item) for item in mine},
                "critical_path": None
                if path is None
                else {
                    "n": path.n,
                    "total_s": path.total_s,
                    "parts_s": path.parts_s,
                    "shares": path.shares,
                    "turns": path.turns,
                },
            }
        )
    return {
        "levels": levels,
        "growth": _builtins(content.growth),
        "grid": _builtins(content.grid),
        "facts": _builtins(content.levels),
    }


def _metric(item: LatencyRow) -> dict[str, Any]:
    quantiles = {"p50": item.p50, "p95": item.p95, "p99": item.p99}
    return {
        "n": item.n,
        "missing": item.missing,
        **{name: _interval(value) for name, value in quantiles.items()},
    }


def _interval(item: Interval) -> dict[str, Any]:
    body: dict[str, Any] = _builtins(item)
    return body


def _accounting(item: AccountingRow) -> dict[str, Any]:
    body: dict[str, Any] = _builtins(item)
    left_out = item.omitted_ms / item.measured_ms if item.measured_ms else None
    return body | {"omitted_share": left_out}


def _builtins(value: Any) -> Any:
    """Structs as dictionaries; a numpy number becomes Python's own."""
    return msgspec.to_builtins(
        value, enc_hook=lambda item: item.item() if isinstance(item, np.generic) else str(item)
    )


def _plain(value: Any) -> Any:
    """The same value without NaN and infinities, which JSON cannot say: null instead."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")
