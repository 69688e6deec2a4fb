"""Observations as the model reads them: JSON, and one form for every failure."""

from __future__ import annotations

import json

from bench.episode import Observation, ObservationOutcome

ERROR_CHARACTERS = 500


def failed(tool: str, outcome: ObservationOutcome, error: str) -> Observation:
    """The observation of a call that failed: `{"error": ..., "tool": ...}` (methods.md section 2).

    The error text is cut at 500 characters, so that a service cannot flood the prompt.
    """
    error = error[:ERROR_CHARACTERS]
    content = json.dumps({"error": error, "tool": tool}, ensure_ascii=False)
    return Observation(content=content, outcome=outcome, error=error)


def text_argument(arguments: dict[str, object], name: str = "query") -> str | None:
    """A non-empty text argument, else None."""
    value = arguments.get(name)
    return value if isinstance(value, str) and value.strip() else None
