"""Parameters as JSON has them, and as PostgreSQL's types want them."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import ToolError
from bench.process import free_port
from bench.scenario import Sql
from bench.tools.sql import coerce, open_sql


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, "int4", None),
        (5, "int4", 5),
        (5.0, "int8", 5),
        ("5", "int4", 5),
        ("5.0", "int2", 5),
        (9223372036854775807, "int8", 9223372036854775807),
        ("1e-16383", "numeric", Decimal("1e-16383")),
        (5, "float8", 5.0),
        ("1.5", "float8", 1.5),
        (100000, "numeric", Decimal(100000)),
        (0.1, "numeric", Decimal("0.1")),
        ("1e5", "numeric", Decimal(100000)),
        ("EU", "text", "EU"),
        (5, "varchar", "5"),
        (True, "bool", True),
        ("FALSE", "bool", False),
        ("2025-03-01", "date", date(2025, 3, 1)),
        ("2025-03-01T00:00:00", "date", date(2025, 3, 1)),
        ("2025-03-01", "timestamp", datetime(2025, 3, 1)),
        ("2025-03-01T10:00:00", "timestamptz", datetime(2025, 3, 1, 10, tzinfo=UTC)),
        ("10:30", "time", time(10, 30)),
        ("00000000-0000-0000-0000-000000000005", "uuid", uuid.UUID(int=5)),
        ({"a": 1}, "jsonb", '{"a":1}'),
        ([1, "2"], "int4[]", [1, 2]),
        (["2025-03-01", None], "date[]", [date(2025, 3, 1), None]),
        ("x", "tsvector", "x"),
    ],
)  # fmt: skip
def test_coerces_to_the_prepared_type(value: Any, kind: str, expected: Any) -> None:
    found = coerce(value, kind, "$1")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("many", "int4"),
        (1.5, "int4"),
        (True, "int4"),
        ("nan", "int4"),
        ("inf", "int8"),
        ("1e1000000000", "int4"),
        ("-1e19", "int8"),
        ("1e1000000000", "numeric"),
        ("1e-1000000000", "numeric"),
        (False, "numeric"),
        ("much", "numeric"),
        ([1], "numeric"),
        ("yes", "bool"),
        (1, "bool"),
        ("soon", "date"),
        (20250301, "date"),
        ("2025-03-01T10:00:00", "date"),
        ("noon", "time"),
        ("x", "uuid"),
        ([1], "text"),
        ({}, "text"),
        (1, "int4[]"),
        ([["x"]], "int4[]"),
    ],
)
def test_a_value_that_does_not_fit_is_a_sentence(value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=r"\$2 must be a"):
        coerce(value, kind, "$2")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)
KINDS = "bool int4 float8 numeric text date timestamp timestamptz time uuid jsonb int4[] inet"


@given(JSON, st.sampled_from(KINDS.split()))
def test_any_value_is_coerced_or_a_value_error(value: Any, kind: str) -> None:
    try:
        coerce(value, kind, "$1")
    except ValueError as error:
        assert "$1" in str(error)


def test_an_unreachable_server_is_one_sentence() -> None:
    dsn = f"postgresql://agent@127.0.0.1:{free_port()}/bench"
    with pytest.raises(ToolError, match="PostgreSQL cannot be reached"):
        asyncio.run(open_sql(Sql(), dsn))
