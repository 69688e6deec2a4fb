"""Answers quote what was seen: numbers survive, errors are acknowledged."""

import json

from bench.simulator.answer import (
    Seen,
    answer_from,
    answer_from_context,
    observation_error,
    quote,
)
from bench.simulator.tokens import pieces


def test_rows_become_key_and_value_with_numbers_as_they_stand() -> None:
    rows = json.dumps({"columns": ["count", "total"], "rows": [[47, 8300000.5]]})
    assert quote("how many", rows, 30) == "count = 47; total = 8300000.5."
    assert (
        quote("how many", '{"count": 47, "total": 8300000}', 30) == "count = 47; total = 8300000."
    )
    assert quote("x", '[{"name": "A"}, {"name": "B"}]', 30) == "name = A. name = B."


def test_of_many_rows_the_first_are_quoted_and_the_rest_counted() -> None:
    rows = json.dumps({"columns": ["n"], "rows": [[number] for number in range(10)]})
    assert quote("list", rows, 30).endswith("n = 5 (and 4 more rows).")


def test_no_rows_is_said() -> None:
    nothing = Seen("{}", '{"columns": ["n"], "rows": []}')
    assert answer_from("How many?", [nothing]) == "One source returned nothing."


def test_the_sentence_that_fits_question_and_call_is_quoted() -> None:
    documents = json.dumps(
        [
            {"id": 1, "score": 0.9, "text": "Deliveries arrive at the ramp. Pallets are returned."},
            {
                "id": 2,
                "score": 0.8,
                "text": "Clause 8.3 of Provider B sets a penalty of 2% a month.",
            },
            {
                "id": 3,
                "score": 0.7,
                "text": "Clause 8.3 of Provider A sets a penalty of 3% a month.",
            },
        ]
    )
    seen = Seen('{"query": "late penalty clause Provider A"}', documents)
    assert "penalty of 3% a month" in answer_from("Which penalty applies?", [seen])


def test_a_failed_tool_is_acknowledged_beside_the_rest() -> None:
    failed = '{"error": "timeout after 5s", "tool": "web_search"}'
    assert observation_error(failed) == "web_search: timeout after 5s"
    answer = answer_from("Total and price?", [Seen("{}", '{"total": 12}'), Seen("{}", failed)])
    assert "total = 12" in answer
    assert "not available (web_search: timeout after 5s)" in answer


def test_naive_rag_quotes_its_context_and_admits_a_failure() -> None:
    context = json.dumps([{"text": "Claims are paid out after 10 days. Keep every receipt."}])
    assert "10 days" in answer_from_context("When are claims paid out?", context)
    assert "10 days" in answer_from_context("When are claims paid?", "Claims are paid in 10 days.")
    assert "not available" in answer_from_context("When?", '{"error": "refused", "tool": "v"}')


def test_an_answer_stays_short() -> None:
    long = json.dumps(
        [{"text": f"Sentence {n} says something of interest. " * 5} for n in range(9)]
    )
    assert len(pieces(answer_from("What is of interest?", [Seen("{}", long)] * 3))) < 120


def test_a_short_figure_is_told_in_a_sentence() -> None:
    answer = answer_from("How many?", [Seen("{}", '{"columns": ["n"], "rows": [[47]]}')])
    assert "n = 47" in answer
    assert 40 <= len(pieces(answer)) <= 70
