from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.report import provenance, tables
from bench.report.content import Content
from bench.report.quantity import NBSP
from bench.report.table import Table

EVERY: list[Callable[[Content], Table]] = [
    tables.levels_table,
    tables.checks_table,
    tables.latency_table,
    tables.workload_table,
    tables.path_table,
    tables.growth_table,
    lambda content: tables.laws_table(content, tools=False),
    lambda content: tables.laws_table(content, tools=True),
    tables.accounting_table,
    tables.selection_table,
    tables.outcomes_table,
    tables.confusion_table,
    tables.strata_table,
    tables.answers_table,
    provenance.runs_table,
    provenance.errors_table,
    provenance.selftest_table,
    provenance.facts_table,
    provenance.machines_table,
    provenance.versions_table,
]


def words(table: Table) -> list[list[str]]:
    return [[cell.text.replace(NBSP, " ") for cell in cells] for cells in table.rows]


@pytest.mark.parametrize("build", EVERY)
def test_rows_fit_their_columns(build: Callable[[Content], Table], rich: Content) -> None:
    table = build(rich)
    assert table.rows
    assert {len(cells) for cells in table.rows} == {len(table.columns)}
    assert all(cell.text for cells in table.rows for cell in cells)


@pytest.mark.parametrize("build", EVERY)
def test_an_empty_table_says_why(build: Callable[[Content], Table], empty: Content) -> None:
    table = build(empty)
    assert table.rows == []
    assert table.empty


@pytest.mark.parametrize("build", EVERY)
def test_no_table_shows_a_nan(build: Callable[[Content], Table], hostile: Content) -> None:
    shown = {word for cells in words(build(hostile)) for text in cells for word in text.split()}
    assert not shown & {"nan", "inf", "-inf", "None"}


def test_quantiles_have_unit_n_and_interval(rich: Content) -> None:
    table = tables.latency_table(rich)
    assert [column.header for column in table.columns][2:4] == ["n", "Missing"]
    assert words(table)[0] == [
        "h100-70b-fp8-tp2, 4 users",
        "TTFT, turn that calls a tool, ms",
        "90",
        "2",
        "282 [265, 315]",
        "535 [479, open]",
        "– (too few)",
    ]


def test_unknown_facts_are_dashes_not_zeros(rich: Content) -> None:
    level = words(tables.levels_table(rich))[2]
    assert level[3] == "2.60 (not settled)"
    assert level[9] == "– (no counter)"
    assert words(tables.checks_table(rich))[0][5].startswith("– (")


def test_the_omitted_share_is_named(rich: Content) -> None:
    rows = words(tables.accounting_table(rich))
    assert rows[0][1:] == ["react_1", "18", "500", "505", "+1.0 %", "800", "295", "37 %"]
    assert rows[2][3] == "– (the seed states none)"
    assert rows[2][5] == "– (nothing stated)"


def test_confusion_is_expected_against_chosen(rich: Content) -> None:
    table = tables.confusion_table(rich)
    assert [column.header for column in table.columns][2] == "chose sql_query"
    assert words(table)[0] == ["h100-70b-fp8-tp2, 4 users", "sql_query", "38", "3", "3", "1"]
    name, rows = table.groups[0]
    assert name.startswith("h100-70b-fp8-tp2")
    assert len(rows) == 4


def test_strict_tsa_without_expected_arguments_is_missing(rich: Content) -> None:
    row = words(tables.selection_table(rich))[0]
    assert row[3] == "0.89 [0.83, 0.94] (n = 120)"
    assert row[5] == "– (no observation)"


def test_laws_show_range_error_and_rejection(rich: Content) -> None:
    sql, _, web = words(tables.laws_table(rich, tools=True))[:3]
    assert "median = 0.012 [0.0114, 0.01272] s" in sql[3]
    assert "sigma = 0.5 [open, open]" in sql[3]
    assert sql[5:8] == ["240", "2", "1"]
    assert sql[8] == "largest of p10 to p99 7.0 %"
    assert web[9] == "✗ no: empirical law used"


def test_a_password_in_an_address_is_not_shown(rich: Content) -> None:
    shown = str(words(provenance.facts_table(rich)))
    assert "secret" not in shown
    assert "postgresql://agent:***@127.0.0.1" in shown


def test_an_incomplete_run_names_its_reason(rich: Content) -> None:
    done, cut = words(provenance.runs_table(rich))
    assert done[2] == "✓ complete"
    assert cut[2] == "✗ incomplete"
    assert cut[6] == "412 episodes were scheduled and 409 recorded"


def test_a_long_error_is_shortened(hostile: Content) -> None:
    row = words(provenance.errors_table(hostile))[0]
    assert row[1] == "– (not counted)"
    assert len(row[2]) == provenance.LONGEST_EXAMPLE
