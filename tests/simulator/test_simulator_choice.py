"""Tool choice responds to question and description, and to nothing else."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.simulator.choice import Chooser, Face, Intent, description_claims, load_embedding

POOL = Path(__file__).parents[3] / "shared" / "data" / "tool_selection_pool.jsonl"
STRONG = [
    Face(
        "vector_search",
        "Search internal company documents about policies, contracts and procedures. Use when "
        "the query requires unstructured text, document context or semantic similarity. NOT for "
        "counts, sums or exact filters.",
    ),
    Face(
        "sql_query",
        "Query the SQL database for structured metrics, counts, aggregations and financial data. "
        "Use when the query requires exact numbers, filters, sums or joins over structured "
        "records. NOT for finding document context.",
    ),
    Face(
        "web_search",
        "Search public web for real-time information, recent news or current prices. Use only "
        "when data is public and not covered by internal sources.",
    ),
]
WEAK = [
    Face("search_docs", "Searches for information in the available sources."),
    Face("query_data", "Gets data from the system."),
    Face("search_info", "Finds information about a topic."),
]
OURS = [
    ("How many orders did we place in March?", 1),
    ("What does the returns policy say about opened boxes?", 0),
    ("What is the price of copper today?", 2),
    ("Sum the Q3 contracts by region.", 1),
    ("Explain the procedure for approving an invoice.", 0),
    ("What is the latest news about our competitor's takeover?", 2),
    ("Which supplier has the highest total amount?", 1),
    ("Which clauses on confidentiality recur?", 0),
]


@pytest.fixture(scope="module")
def chooser() -> Chooser:
    return Chooser(7, load_embedding())


def picks(chooser: Chooser, questions: Sequence[str], faces: Sequence[Face]) -> list[int | None]:
    best = [chooser.rank(question, "", faces, 0)[0] for question in questions]
    return [None if face is None else faces.index(face) for face in best]


def test_strong_descriptions_get_the_seeds_rule_of_thumb_right(chooser: Chooser) -> None:
    expected = [tool for _, tool in OURS]
    got = picks(chooser, [question for question, _ in OURS], STRONG)
    assert sum(a == b for a, b in zip(got, expected, strict=True)) >= 7


def test_the_description_decides_not_the_name_or_the_place(chooser: Chooser) -> None:
    swapped = [
        Face("web_search", STRONG[1].description),
        Face("tool_b", STRONG[2].description),
        Face("sql_query", STRONG[0].description),
    ]
    assert picks(chooser, ["How many orders did we place in March?"], swapped) == [0]
    assert picks(chooser, ["What is the price of copper today?"], swapped) == [1]
    assert picks(chooser, ["What does the returns policy say?"], swapped) == [2]


def test_on_the_public_pool_strong_is_clearly_better_than_weak(chooser: Chooser) -> None:
    if not POOL.exists():
        pytest.skip("../shared is not here")
    lines = [json.loads(line) for line in POOL.read_text().splitlines()]
    items = [line for line in lines if line["expected_tool"]][::2]
    tools = ["vector_search", "sql_query", "web_search"]
    expected = [tools.index(item["expected_tool"]) for item in items]
    rates = []
    for faces in (STRONG, WEAK):
        got = picks(chooser, [item["question"] for item in items], faces)
        rates.append(sum(a == b for a, b in zip(got, expected, strict=True)) / len(items))
    assert 0.8 < rates[0] < 0.97
    assert rates[1] < rates[0] - 0.2


@pytest.mark.parametrize(
    "text", ["Hello, good to see you!", "What is 12 times 9?", "Translate this sentence: hola."]
)
def test_no_tool_where_none_is_needed(chooser: Chooser, text: str) -> None:
    assert picks(chooser, [text], STRONG) == [None]


def test_the_thought_of_a_later_turn_leads(chooser: Chooser) -> None:
    question = "How many contracts were signed in 2025, and which special conditions recur?"
    first = chooser.rank(question, "First the exact count from the records is needed.", STRONG, 0)
    later = chooser.rank(question, "Now the wording of the clauses is needed.", STRONG, 1)
    assert first[0] == STRONG[1]
    assert later[0] == STRONG[0]


def test_the_same_question_gets_the_same_choice_and_the_seed_matters(chooser: Chooser) -> None:
    questions = [question for question, _ in OURS]
    assert picks(chooser, questions, WEAK) == picks(chooser, questions, WEAK)
    other = Chooser(8, load_embedding())
    many = [f"{question} Case {number}." for question in questions for number in range(5)]
    assert picks(chooser, many, WEAK) != picks(other, many, WEAK)


def test_claims_and_disclaimers() -> None:
    claims = description_claims(STRONG[1].description)
    assert claims[Intent.exact] > 0.9
    assert claims[Intent.documents] < 0
    assert abs(description_claims(WEAK[1].description)[Intent.exact]) < 0.2
