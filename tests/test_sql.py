"""bench/sql.py: the guard's corpus, more of each kind, and statements nobody wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sql import Limits, Refusal, canonical, check, single_statement

CORPUS = Path(__file__).parents[2] / "shared" / "data" / "sql_guard_cases.json"
TABLES = ["public.contracts", "public.providers"]
# fmt: off
FUNCTIONS = [
    "count", "sum", "avg", "min", "max", "round", "abs", "coalesce", "lower", "upper",
    "date_trunc", "extract", "date_part", "percentile_cont", "rank", "row_number", "now",
    "length", "nullif", "greatest", "least", "string_agg", "array_agg",
]
# fmt: on


def judge(sql: str) -> Refusal | None:
    return check(sql, TABLES, FUNCTIONS)


def corpus() -> dict[str, Any]:
    if not CORPUS.exists():
        return {"cases": []}
    return dict(json.loads(CORPUS.read_text(encoding="utf-8")))


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/data is not beside this clone")
def test_corpus_has_no_wrong_verdict() -> None:
    data = corpus()
    wrong = []
    for case in data["cases"]:
        refusal = check(case["sql"], data["allowed_tables"], data["allowed_functions"])
        verdict = "allow" if refusal is None else "deny"
        if verdict != case["expected"]:
            wrong.append((case["id"], case["sql"], refusal))
    assert wrong == []
    assert len(data["cases"]) >= 100


ALLOWED = [
    "SELECT 1",
    "SELECT c.name FROM contracts c",
    "SELECT contracts.amount FROM public.contracts",
    "SELECT DISTINCT ON (year) year, amount FROM contracts ORDER BY year, amount DESC",
    "SELECT count(*) FROM contracts WHERE name LIKE 'a!%' ESCAPE '!' OR name ILIKE $1",
    "SELECT count(*) FROM contracts WHERE name SIMILAR TO 'a|b' AND amount NOT BETWEEN 1 AND 2",
    "SELECT year FROM contracts WHERE signed >= date '2025-01-01' - interval '1 year'",
    "SELECT year FROM contracts WHERE signed < CURRENT_DATE AND year = ANY($1::int[])",
    "SELECT extract(year FROM signed), date_trunc('month', signed) FROM contracts",
    "SELECT amount::numeric(10,2), CAST(year AS text) FROM contracts",
    "SELECT nullif(amount, 0), coalesce(amount, 0), greatest(1, 2) FROM contracts",
    "SELECT sum(amount) OVER w FROM contracts WINDOW w AS (PARTITION BY year)",
    "SELECT year, provider_id, grouping(year) FROM contracts GROUP BY CUBE (year, provider_id)",
    "SELECT (array_agg(id ORDER BY id))[1] FROM contracts",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, s) JOIN contracts ON contracts.id = v.n",
    "SELECT c.id FROM contracts c, providers p WHERE c.provider_id = p.id",
    "SELECT id FROM contracts, providers WHERE provider_id = pid",
    "SELECT c.id FROM contracts c NATURAL JOIN providers p",
    "SELECT c.id FROM contracts c JOIN providers p USING (id) JOIN contracts d USING (id)",
    "SELECT c.id FROM contracts c CROSS JOIN (SELECT avg(amount) AS m FROM contracts) s"
    " CROSS JOIN (SELECT max(amount) AS x FROM contracts) t",
    "WITH t AS (SELECT sum(amount) AS total FROM contracts), m AS (SELECT 1 AS one)"
    " SELECT amount / total FROM contracts, t, m",
    "SELECT p.name, x.n FROM providers p, LATERAL (SELECT count(*) AS n FROM contracts c"
    " WHERE c.provider_id = p.id) x",
    "SELECT id FROM contracts UNION ALL SELECT id FROM providers ORDER BY 1 LIMIT 3",
    "SELECT id FROM contracts c WHERE EXISTS (SELECT 1 FROM providers p WHERE p.id = c.pid)",
    "SELECT * FROM contracts, LATERAL upper('a') x",
    "SELECT * FROM ROWS FROM (upper('a'), lower('b')) AS x (a, b)",
    "WITH secrets AS (SELECT 1 AS n) SELECT n FROM secrets",
    "WITH contracts AS (SELECT * FROM contracts) SELECT count(*) FROM contracts",
    "WITH a AS (SELECT 1 AS n), b AS (SELECT n FROM a) SELECT n FROM b",
    "SELECT (WITH a AS (SELECT 1 AS n) SELECT n FROM a) FROM contracts",
    "SELECT pg_catalog.count(*) FROM contracts",
    "SELECT x.count, x.max FROM (SELECT count(*), max(amount) FROM contracts) x",
    "SELECT year FROM contracts ORDER BY amount USING <",
    "select\n\tCOUNT ( * )\nfrom CONTRACTS;",
]

REFUSED = [
    ("statement", "EXPLAIN SELECT 1"),
    ("statement", "VALUES (1)"),
    ("statement", "SELECT 1; SELECT 2"),
    ("statement", "CALL p()"),
    ("statement", "WITH x AS (DELETE FROM contracts RETURNING id) SELECT id FROM x"),
    ("statement", "SELECT 1 FROM contracts WHERE EXISTS (WITH x AS (UPDATE contracts SET id = 1"
     " RETURNING 1) SELECT 1 FROM x)"),
    ("clause", "SELECT 1 FROM (SELECT * FROM contracts FOR SHARE) x"),
    ("clause", "WITH x AS (SELECT * FROM contracts FOR NO KEY UPDATE) SELECT 1 FROM x"),
    ("clause", "SELECT 1 INTO TEMP t FROM contracts"),
    ("clause", "SELECT 1 INTO UNLOGGED t UNION SELECT 2"),
    ("table", "SELECT * FROM private.contracts"),
    ("table", 'SELECT * FROM "Contracts"'),
    ("table", "SELECT * FROM pg_temp.contracts"),
    ("table", "SELECT * FROM ONLY secrets"),
    ("table", "SELECT * FROM contracts c JOIN secrets s ON c.id = s.id"),
    ("table", "SELECT * FROM contracts WHERE id = (SELECT max(id) FROM secrets)"),
    ("table", "SELECT * FROM public.secrets, (WITH secrets AS (SELECT 1) SELECT 1) x"),
    ("table", "WITH secrets AS (SELECT 1) SELECT * FROM public.secrets"),
    ("table", "SELECT 1 UNION (WITH a AS (SELECT 1) SELECT 1) UNION SELECT * FROM a"),
    ("table", "SELECT count(*) FILTER (WHERE (SELECT true FROM secrets)) FROM contracts"),
    ("table", "SELECT 1 FROM contracts LIMIT (SELECT count(*) FROM secrets)"),
    ("table", "SELECT 1 FROM contracts OFFSET (SELECT count(*) FROM secrets)"),
    ("table", "SELECT sum(1) OVER (PARTITION BY (SELECT 1 FROM secrets)) FROM contracts"),
    ("table", "SELECT 1 FROM contracts GROUP BY (SELECT 1 FROM secrets)"),
    ("table", "SELECT ARRAY(SELECT password FROM secrets)"),
    ("table", "(SELECT 1) UNION (TABLE secrets)"),
    ("function", "SELECT public.count(1)"),
    ("function", "SELECT version()"),
    ("function", "SELECT current_user"),
    ("function", "SELECT current_schema FROM contracts"),
    ("function", "SELECT c.pg_restore_relation_stats FROM contracts c"),
    ("function", "SELECT c.row_to_json FROM contracts c"),
    ("function", "SELECT ((contracts)).query_to_xml FROM contracts"),
    ("function", "SELECT sum(pg_sleep(1)) OVER () FROM contracts"),
    ("function", "SELECT * FROM ROWS FROM (generate_series(1, 9), pg_ls_dir('.')) x"),
    ("function", "SELECT name COLLATE \"C\" || repeat('x', 9) FROM contracts"),
    ("function", "SELECT signed AT TIME ZONE 'UTC' FROM contracts"),
    ("function", "SELECT trim(both from name), overlay(name placing 'x' from 1) FROM contracts"),
    ("function", "SELECT 1 FROM contracts TABLESAMPLE bernoulli (50)"),
    ("function", "SELECT text 'a' LIKE public.like_escape('a', 'b')"),
    ("function", "SELECT * FROM contracts ORDER BY random()"),
    ("function", "SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a int)"),
    ("type", "SELECT 'secrets'::regclass"),
    ("type", "SELECT regproc 'now'"),
    ("type", "SELECT CAST('x' AS public.evil)"),
    ("type", "SELECT '{secrets}'::regclass[]"),
    ("type", "SELECT '1'::xml"),
    ("operator", "SELECT 1 OPERATOR(public.+) 1"),
    ("operator", "SELECT 1 <-> 2"),
    ("operator", "SELECT 1 FROM contracts ORDER BY id USING OPERATOR(public.<)"),
    ("operator", "SELECT 1 OPERATOR(public.=) ANY (SELECT id FROM contracts)"),
    ("node", "SELECT xmlelement(name a)"),
    ("node", "SELECT json_object('a': 1)"),
    ("node", "SELECT * FROM xmltable('/a' PASSING '<a/>' COLUMNS b int)"),
    ("node", "SELECT * FROM json_table('{}', '$' COLUMNS (a int))"),
    ("recursion", "WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM b), b AS (SELECT * FROM a)"
     " SELECT * FROM a"),
    ("recursion", "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 1 FROM (SELECT * FROM a) x)"
     " SELECT 1 FROM a"),
    ("product", "SELECT count(*) FROM contracts CROSS JOIN contracts b CROSS JOIN contracts c"),
    ("product", "SELECT 1 FROM contracts a JOIN contracts b ON true JOIN providers ON 1 = 1"),
    ("product", "SELECT count(*) FROM (SELECT 1 FROM contracts a, contracts b) x,"
     " (SELECT 1 FROM contracts c, contracts d) y"),
    ("product", "WITH x AS (SELECT a.id FROM contracts a, contracts b) SELECT 1 FROM x, x y"),
    ("product", "SELECT 1 FROM contracts a, contracts b, contracts c WHERE a.id = a.id"),
    ("syntax", "SELECT 1 FROM contracts\0"),
    ("syntax", "SELECT '\ud800'"),
    ("syntax", "DROP"),
    ("depth", "SELECT " + "NOT " * 3000 + "true"),
    ("depth", "SELECT 1" + " + 1" * 3000),
    ("depth", "SELECT " + "(SELECT " * 30 + "1" + ")" * 30),
    ("size", "SELECT '" + "x" * 20_000 + "'"),
    ("size", "SELECT " + ",".join("1" * 6000)),
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED)
def test_allows_ordinary_queries(sql: str) -> None:
    assert judge(sql) is None


@pytest.mark.parametrize(("kind", "sql"), REFUSED)
def test_refuses_with_the_right_reason(kind: str, sql: str) -> None:
    refusal = judge(sql)
    assert refusal is not None
    assert refusal.kind == kind
    assert refusal.reason


@pytest.mark.parametrize(
    ("sql", "passes"),
    [
        ("SELECT string_agg(a.name, '') FROM contracts a, contracts b", False),
        ("SELECT 1 + length(string_agg(x.n, '')) FROM (SELECT a.name AS n FROM contracts a, "
         "contracts b) x", False),
        ("SELECT string_agg(a.name, '') OVER () FROM contracts a, contracts b", False),
        ("SELECT string_agg(a.name, '') FROM contracts a, contracts b WHERE a.id = b.id", True),
        ("SELECT string_agg(name, '') FROM contracts", True),
        ("SELECT count(*) FROM contracts a, contracts b", True),
    ],
)  # fmt: skip
def test_a_product_is_not_put_into_one_value(sql: str, passes: bool) -> None:
    refusal = check(sql, TABLES, [*FUNCTIONS, "string_agg", "length"])
    assert (refusal is None) == passes
    assert passes or (refusal is not None and refusal.kind == "product")


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("SELECT 1", "SELECT 1"),
        (" SELECT 'ü;' ; -- done", " SELECT 'ü;' "),
        ("/* ü */ SELECT 1;;", "SELECT 1"),  # a comment before is not part of it
        ("SELECT 1 -- no end", "SELECT 1 -- no end"),
    ],
)
def test_one_statement_is_taken_out(sql: str, statement: str) -> None:
    assert single_statement(sql).strip() == statement.strip()


def test_half_a_surrogate_pair_gets_a_verdict() -> None:
    refusal = judge("SELECT 1 FROM contracts WHERE name = '\ud800'")
    assert refusal is not None
    assert refusal.kind == "syntax"


def test_lists_are_what_is_allowed() -> None:
    assert check("SELECT version()", [], ["version"]) is None
    assert check("SELECT public.f(1)", [], ["public.f"]) is None
    assert check("SELECT f(1)", [], ["public.f"]) is not None
    assert check("SELECT * FROM t", ["t"], []) is None
    assert (
        check("SELECT * FROM information_schema.tables", ["information_schema.tables"], []) is None
    )
    assert check("SELECT * FROM pg_class", ["pg_catalog.pg_class"], []) is None
    assert check("SELECT * FROM pg_class", ["public.pg_class"], []) is not None
    assert check("SELECT CURRENT_DATE", [], []) is not None
    assert check("SELECT coalesce(1, 2)", [], []) is not None


def test_limits_are_settable() -> None:
    product = "SELECT 1 FROM contracts a, contracts b, contracts c"
    assert check(product, TABLES, [], Limits(max_unjoined=3)) is None
    assert check("SELECT 1 + 1", [], [], Limits(max_nodes=3)) is not None
    assert check("SELECT 1 + 1", [], [], Limits(max_bytes=5)) is not None
    assert check("SELECT ((SELECT 1))", [], [], Limits(max_depth=3)) is not None


def test_canonical_forgets_spelling_only() -> None:
    assert canonical("select  COUNT(*) from Contracts -- x") == canonical(
        "SELECT count(*) FROM contracts"
    )
    assert canonical("SELECT 1") != canonical("SELECT 2")
    assert canonical("SELEC 1") is None
    assert canonical("SELECT '\ud800'") is None


# Statements nobody wrote: an expression in nested contexts. With a forbidden one inside, the whole
# is refused wherever it stands; with an allowed one, the same contexts pass.
FORBIDDEN_EXPRESSIONS = [
    "pg_sleep(1)",
    'pg_catalog."pg_sleep"(1)',
    'U&"pg\\005fsleep"(1)',
    "'secrets'::regclass",
    "CAST('x' AS oid)",
    "(SELECT password FROM secrets LIMIT 1)",
    "(TABLE secrets)",
    "(SELECT 1 FROM pg_catalog.pg_authid LIMIT 1)",
    "lo_import('/x')",
    "nextval('s')",
    "set_config('transaction_read_only', 'off', true)",
    "query_to_xml('SELECT 1', true, false, '')",
    "current_user",
    "(contracts).evil",
    "contracts.pg_restore_relation_stats",
    "contracts.to_jsonb",
    "xmlelement(name a)",
    "json_object('a': 1)",
    "(1 OPERATOR(public.+) 1)",
    "(WITH w AS (DELETE FROM contracts RETURNING 1) SELECT 1 FROM w)",
    "(SELECT 1 FROM contracts FOR UPDATE)",
    "(WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT n FROM r LIMIT 1)",
]  # fmt: skip
ALLOWED_EXPRESSIONS = ["1", "contracts.id", "$1", "upper('x')", "'a'::text", "(SELECT 1)", "NULL"]
WRAPPERS = [
    "{0}",
    "(SELECT {0})",
    "CASE WHEN {0} IS NULL THEN 1 ELSE 2 END",
    "CASE {0} WHEN 1 THEN 2 END",
    "coalesce({0}, {0})",
    "ROW({0}, 1)",
    "ARRAY[{0}]",
    "({0} IN (SELECT {0} FROM providers))",
    "({0} IS DISTINCT FROM 1)",
    "({0} BETWEEN {0} AND 2)",
    "greatest(1, {0})",
    "(NOT {0} IS NULL)",
    "count({0})",
    "max({0}) FILTER (WHERE {0} IS NULL)",
    "string_agg('x', 'y' ORDER BY {0})",
    "rank() OVER (PARTITION BY {0} ORDER BY {0})",
    "('x' LIKE {0} ESCAPE {0})",
    "(ARRAY[1])[{0}]",
]
QUERIES = [
    "SELECT {0} FROM contracts",
    "SELECT DISTINCT ON ({0}) 1 FROM contracts",
    "SELECT 1 FROM contracts WHERE {0} IS NULL",
    "SELECT 1 FROM contracts GROUP BY {0}",
    "SELECT 1 FROM contracts GROUP BY ROLLUP ({0})",
    "SELECT 1 FROM contracts HAVING {0} IS NULL",
    "SELECT 1 FROM contracts ORDER BY {0} NULLS LAST",
    "SELECT 1 FROM contracts LIMIT (SELECT {0})",
    "SELECT 1 FROM contracts OFFSET {0}",
    "SELECT 1 FROM contracts WINDOW w AS (ORDER BY {0})",
    "SELECT 1 FROM contracts JOIN providers p ON {0} IS NULL",
    "SELECT 1 FROM contracts, LATERAL (SELECT {0}) x",
    "SELECT 1 FROM contracts, LATERAL (VALUES ({0})) x",
    "SELECT 1 FROM contracts, LATERAL upper({0}) x",
    "WITH q AS (SELECT {0} AS x FROM contracts) SELECT x FROM q",
    "WITH q AS (SELECT {0} AS x FROM contracts) SELECT 1",
    "SELECT 1 FROM contracts UNION SELECT {0} FROM contracts",
    "SELECT 1 FROM contracts INTERSECT (SELECT 1 EXCEPT ALL SELECT {0} FROM contracts)",
    "SELECT 1 FROM contracts WHERE EXISTS (SELECT {0})",
    "SELECT 1 FROM contracts WHERE 1 = ALL (SELECT {0})",
]  # fmt: skip


def statements(expressions: list[str]) -> st.SearchStrategy[str]:
    def build(expression: str, wrappers: list[str], query: str) -> str:
        for wrapper in wrappers:
            expression = wrapper.format(expression)
        return query.format(expression)

    wrappers = st.lists(st.sampled_from(WRAPPERS), max_size=3)
    return st.builds(build, st.sampled_from(expressions), wrappers, st.sampled_from(QUERIES))


@settings(max_examples=600, deadline=None)
@given(statements(FORBIDDEN_EXPRESSIONS))
def test_a_forbidden_expression_is_refused_wherever_it_stands(sql: str) -> None:
    refusal = judge(sql)
    assert refusal is not None
    assert refusal.kind != "syntax", refusal.reason  # else the test would prove nothing


@settings(max_examples=300, deadline=None)
@given(statements(ALLOWED_EXPRESSIONS))
def test_the_same_contexts_pass_with_an_allowed_expression(sql: str) -> None:
    assert judge(sql) is None


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("expression", FORBIDDEN_EXPRESSIONS)
def test_every_forbidden_expression_in_every_query(query: str, expression: str) -> None:
    assert judge(query.format(expression)) is not None


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of ours with a few characters removed, doubled or replaced."""
    sql = draw(st.sampled_from(ALLOWED + [sql for _, sql in REFUSED if len(sql) < 500]))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(sql)))
        piece = draw(st.sampled_from([*"();'\"$,.:*/-[]\\\0\n", "--", "/*", "é", "\ud800", " "]))
        cut = draw(st.integers(0, 3))
        sql = sql[:at] + piece + sql[at + cut :]
    return sql


@settings(max_examples=600, deadline=None)
@given(st.one_of(mutated(), st.text(max_size=200)))
def test_any_text_gets_a_verdict(sql: str) -> None:
    refusal = judge(sql)
    assert refusal is None or refusal.reason
