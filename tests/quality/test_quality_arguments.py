"""Arguments by meaning: JSON types, defaults, SQL trees, search text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.quality.arguments import same_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "params": {"type": "array", "items": {}},
        "top_k": {"type": "integer", "default": 5},
        "region": {"type": "string"},
    },
    "required": ["query"],
}


@pytest.mark.parametrize(
    ("expected", "called", "same"),
    [
        ({"top_k": 5}, {"top_k": 5.0}, True),
        ({"top_k": 5}, {"top_k": "5"}, False),
        ({"top_k": 1}, {"top_k": True}, False),
        ({"top_k": 0}, {"top_k": False}, False),
        ({}, {"top_k": 5}, True),
        ({"top_k": 5}, {}, True),
        ({}, {"top_k": 6}, False),
        ({"region": "EMEA"}, {}, False),
        ({}, {"region": "EMEA"}, False),
        ({"region": "EMEA"}, {"region": "emea"}, False),
        ({"params": [2024, "open"]}, {"params": [2024.0, "open"]}, True),
        ({"params": [2024]}, {"params": ["2024"]}, False),
        ({"params": [1, 2]}, {"params": [2, 1]}, False),
        ({"params": [{"a": 1}]}, {"params": [{"a": 1.0}]}, True),
        ({"params": [None]}, {"params": [None]}, True),
        ({"params": [None]}, {"params": [0]}, False),
    ],
)
def test_by_json_type(expected: dict[str, Any], called: dict[str, Any], same: bool) -> None:
    assert same_arguments("sql_query", SCHEMA, expected, json.dumps(called)) is same


def test_sql_by_its_tree_and_search_text_by_its_words() -> None:
    sql = {"query": "SELECT count(*) FROM contracts WHERE year = $1"}
    other = json.dumps({"query": "select COUNT( * )\n from contracts where year=$1 -- all"})
    assert same_arguments("sql_query", SCHEMA, sql, other)
    wrong = json.dumps({"query": "SELECT count(*) FROM contracts WHERE year > $1"})
    assert not same_arguments("sql_query", SCHEMA, sql, wrong)
    text = {"query": "Penalty clause, EMEA"}
    assert same_arguments(
        "vector_search", SCHEMA, text, json.dumps({"query": "penalty clause EMEA"})
    )
    assert not same_arguments("vector_search", SCHEMA, text, json.dumps({"query": "clause EMEA"}))


@pytest.mark.parametrize("called", ["{", "[1]", '"x"', "null"])
def test_what_is_no_object_never_matches(called: str) -> None:
    assert not same_arguments("sql_query", SCHEMA, {}, called)


def test_empty_text_is_no_arguments() -> None:
    assert same_arguments("sql_query", SCHEMA, {}, " ")
