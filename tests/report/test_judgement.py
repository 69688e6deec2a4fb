from __future__ import annotations

import msgspec

from bench.report import judgement
from bench.report.content import Content
from bench.report.quantity import NBSP
from bench.report.table import Table


def words(table: Table) -> list[list[str]]:
    return [[cell.text.replace(NBSP, " ") for cell in cells] for cells in table.rows]


def test_headline_says_each_launch_in_one_sentence(rich: Content) -> None:
    assert judgement.headline(rich) == [
        "h100-70b-fp8-tp2: failed at 4 and 8 users; not valid at 16 users."
        " 1 of 4 gates could not be checked at every level.",
        "h100-70b-fp8-tp4: undecided at 4 and 8 users; not valid at 16 users."
        " 1 of 4 gates could not be checked at every level.",
    ]


def test_verdicts_are_symbol_word_value_and_n(rich: Content) -> None:
    table = judgement.verdict_table(rich)
    heads = [column.header.replace(NBSP, " ") for column in table.columns]
    assert heads[2:] == ["TTFT p95 ≤ 450 ms", "Episode p95 ≤ 3.00 s", "TSA ≥ 0.85"]
    first, *_, last = words(table)
    assert first[0] == "h100-70b-fp8-tp2, 4 users"
    assert first[1] == "✗ failed"
    assert first[2] == "✓ passed: 336 [312, 370] ms (n = 88)"
    assert first[3] == "✗ failed, infeasible: 3.84 [3.57, 4.22] s (n = 88)"
    assert first[4] == "? undecided: – (not observed) (n = 0)"
    assert last[1] == "⊘ not valid"
    assert [cell.tone for cell in table.rows[-1][1:]] == ["invalid"] * 4


def test_an_objective_that_a_level_lacks_is_not_judged(rich: Content) -> None:
    short = msgspec.structs.replace(rich.verdicts[0], objectives=rich.verdicts[0].objectives[:1])
    content = msgspec.structs.replace(rich, verdicts=[short, *rich.verdicts[1:]])
    assert words(judgement.verdict_table(content))[0][3] == "– (not judged)"


def test_what_would_decide_it(rich: Content) -> None:
    rows = words(judgement.decision_table(rich))
    decided = {(cells[0], cells[1]): cells[2:] for cells in rows}
    assert decided["h100-70b-fp8-tp4, 8 users", "TSA"] == [
        "? undecided",
        "88 of 299 episodes (n_too_small)",
        "About 210 more items at this level.",
    ]
    invalid = decided["h100-70b-fp8-tp4, 16 users", "every objective"]
    assert invalid[1] == "61 % would be cut (not_settled)"
    assert invalid[2] == "Meet the validity gates and measure again."
    assert "even an idle engine" in decided["h100-70b-fp8-tp2, 4 users", "Episode p95"][2]
    assert not any(cells[1] == "TTFT p95" for cells in rows), "passed needs no decision"


def test_levels_of_two_launches_of_one_engine_carry_the_run(rich: Content) -> None:
    again = [msgspec.structs.replace(x, run=f"{x.run}-b") for x in rich.levels[:1]]
    content = msgspec.structs.replace(rich, levels=[*rich.levels, *again])
    assert "run 2026" in judgement.verdict_table(content).rows[0][0].text


def test_gates_are_grouped_by_state(rich: Content) -> None:
    rows = words(judgement.gates_table(rich))
    assert ["client cpu", "✓ ok", "every level"] in rows
    assert [
        "server gap",
        "? 120 of 200 requests (not_checked)",
        "h100-70b-fp8-tp2, 4 users; h100-70b-fp8-tp4, 4 users",
    ] in rows
    assert judgement.is_unchecked("not checked: no self-test record")
    assert not judgement.is_unchecked("not_settled: more than half")


def test_more_items_than_the_material_holds_are_a_larger_set(rich: Content) -> None:
    tsa = next(o for level in rich.verdicts for o in level.objectives if o.metric == "tsa")
    tsa = msgspec.structs.replace(
        tsa, valid=True, verdict="undecided", infeasible=False, needed=210
    )
    held = msgspec.structs.replace(tsa, available=210)
    assert judgement.what_decides(held) == "About 210 more items at this level."
    short = msgspec.structs.replace(tsa, available=209)
    assert judgement.what_decides(short).startswith("A larger set of items: about 210 more ")


def test_users_say_how_far_they_lie_beyond_the_measured(rich: Content) -> None:
    _, tp4, _ = words(judgement.plan_table(rich))
    assert tp4[2] == "26 (1.6 × measured)"
    assert tp4[3] == "6.50"
    note = judgement.plan_table(rich).notes[0]
    assert note.startswith("Users per group are predicted. They keep no objective, only ")
    rich = msgspec.structs.replace(
        rich, plan=msgspec.structs.replace(rich.plan, covered=["TTFT p95"])
    )
    note = judgement.plan_table(rich).notes[0]
    assert "They keep TTFT p95, as predicted; nothing is predicted of " in note


def test_a_rejected_layout_names_no_number(rich: Content) -> None:
    row = msgspec.structs.replace(rich.plan.rows[0], rejected="the model does not reproduce it")
    rich = msgspec.structs.replace(rich, plan=msgspec.structs.replace(rich.plan, rows=[row]))
    (cells,) = words(judgement.plan_table(rich))
    assert cells[2] == cells[7] == cells[8] == "– (rejected)"


def test_levels_of_two_sources_say_which(rich: Content) -> None:
    engine = rich.levels[0].engine
    rich = msgspec.structs.replace(
        rich,
        levels=[msgspec.structs.replace(x, simulated=x.engine == engine) for x in rich.levels],
    )
    names = {cells[0] for cells in words(judgement.verdict_table(rich))}
    assert f"{engine}, 4 users (simulated)" in names
    assert "h100-70b-fp8-tp4, 4 users (measured)" in names


def test_a_layout_that_meets_nothing_shows_no_zero(rich: Content) -> None:
    tp2, tp4, _ = words(judgement.plan_table(rich))
    assert tp2[2] == "– (not even one keeps them)"
    assert tp2[6:10] == ["– (objectives not met)"] * 4
    assert tp4[4:7] == ["prefill: the token budget of a step is full", "17.1", "1.82"]


def test_without_verdicts_the_tables_say_why(empty: Content) -> None:
    assert judgement.headline(empty) == []
    assert judgement.decision_table(empty).empty == judgement.NO_VERDICT
