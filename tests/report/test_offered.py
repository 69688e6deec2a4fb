"""A level's load in words and as a place on an axis: users, rates, traces, repeats."""

from __future__ import annotations

import msgspec
import pytest

from bench.report.content import Content
from bench.report.figures.load import concurrency_figure, selection_figure
from bench.report.judgement import headline, level_name
from bench.report.offered import load_words, offered
from bench.report.quantity import NBSP


@pytest.mark.parametrize(
    ("users", "rate_per_s", "point", "words", "place"),
    [
        (1, None, "u1", "1 user", 1.0),
        (8, None, "", "8 users", 8.0),
        (8, None, "u8", "8 users", 8.0),
        (8, None, "u8-r1", "8 users (u8-r1)", 8.0),
        (16, None, "steps", "16 users (steps)", 16.0),
        (0, 0.25, "r0.25", "0.25 episodes/s", 0.25),
        (0, 2.5, "r2.5-r0", "2.5 episodes/s (r2.5-r0)", 2.5),
        (0, 5.5308, "trace-conv", "5.53 episodes/s (trace-conv)", 5.5308),
    ],
)
def test_each_kind_of_load(
    users: int, rate_per_s: float | None, point: str, words: str, place: float, rich: Content
) -> None:
    level = msgspec.structs.replace(rich.levels[0], users=users, rate_per_s=rate_per_s, point=point)
    assert load_words(level).replace(NBSP, " ") == words
    assert offered(level) == place
    assert level_name(rich, level).replace(NBSP, " ") == f"h100-70b-fp8-tp2, {words}"


def test_rates_and_repeats_stay_apart_on_the_page(rich: Content) -> None:
    rates = {4: 0.5, 8: 2.0, 16: 2.0}
    points = {4: "r0.5", 8: "r2-r0", 16: "r2-r1"}

    def opened(item: object) -> object:
        users = getattr(item, "users")  # noqa: B009 # every row has them
        return msgspec.structs.replace(  # type: ignore[type-var]
            item, users=0, rate_per_s=rates[users], point=points[users]
        )

    content = msgspec.structs.replace(
        rich,
        levels=[opened(x) for x in rich.levels],
        verdicts=[opened(x) for x in rich.verdicts],
        latency=[opened(x) for x in rich.latency],
        paths=[opened(x) for x in rich.paths],
        selection=[opened(x) for x in rich.selection],
        answers=[opened(x) for x in rich.answers],
    )
    for before, after in (
        (concurrency_figure(rich), concurrency_figure(content)),
        (selection_figure(rich), selection_figure(content)),
    ):
        cells = [[cell.text for cell in row][2:] for row in before.data.rows]
        assert [[cell.text for cell in row][2:] for row in after.data.rows] == cells
        assert "episodes/s offered" in after.panels[0].svg
    (sentence, *_) = headline(content)
    assert sentence.replace(NBSP, " ").startswith(
        "h100-70b-fp8-tp2: failed at 0.5 episodes/s and 2 episodes/s (r2-r0); "
        "not valid at 2 episodes/s (r2-r1)."
    )
