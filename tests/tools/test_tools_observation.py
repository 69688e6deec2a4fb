"""The one form of a failed call."""

from __future__ import annotations

import json

from bench.episode import ObservationOutcome
from bench.tools.observation import ERROR_CHARACTERS, failed, text_argument


def test_a_failure_names_error_and_tool_and_is_cut() -> None:
    found = failed("sql_query", ObservationOutcome.timeout, "é" * 10_000)
    assert found.outcome is ObservationOutcome.timeout
    assert json.loads(found.content) == {"error": "é" * ERROR_CHARACTERS, "tool": "sql_query"}


def test_text_argument() -> None:
    assert text_argument({"query": "x"}) == "x"
    assert text_argument({"q": "x"}, "q") == "x"
    for value in ("", " \n", 5, None, ["x"]):
        assert text_argument({"query": value}) is None
    assert text_argument({}) is None
