"""Statements as PostgreSQL's own syntax trees: what the guard checks and the grader compares.

The guard's rule is default deny. A statement passes when it is one SELECT whose every syntax node,
table, function, type and operator is allowed; everything else is refused with a reason that the
model can read. The guard is the first barrier; GRANT in the database is the second.

Policy, where PostgreSQL itself leaves a choice:

* `TABLE t` is a SELECT and passes; `VALUES` passes inside a query, not as the query.
* `EXPLAIN`, `SHOW` and everything that is not a SELECT is refused.
* A name has at most two parts; unqualified means `public` (or a WITH name in scope); names that
  begin with `pg_` belong to the catalogue.
* Syntax that stands for a function (`EXTRACT`, `COALESCE`, `GREATEST`, `NULLIF`, `AT TIME ZONE`,
  `TABLESAMPLE method`) needs that function on the list; `CURRENT_DATE` and its kin need `now`.
* `OPERATOR(pg_catalog.+)` passes; an operator of another schema does not.
* Functional notation, `(t).f`, is refused; `t.f` is refused when `f` is one of PostgreSQL's own
  functions that take any row and it is not on the list.
* A WITH RECURSIVE query that reads itself is refused: nothing bounds it.
* At most two relations may be multiplied without a predicate that joins them, and none where an
  aggregate puts all rows into one value (`string_agg`, `array_agg`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import postgast
from google.protobuf.message import DecodeError, Message
from postgast import pg_query_pb2 as pg

DEFAULT_SCHEMA = "public"
CATALOGUE = "pg_catalog"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a statement may be.

    `max_bytes` of UTF-8; `max_nodes` of the syntax tree; `max_depth` in tree nodes (the decoder of
    the tree stops at about 45 in any case); `max_unjoined` relations multiplied without a join.
    """

    max_bytes: int = 20_000
    max_nodes: int = 5_000
    max_depth: int = 40
    max_unjoined: int = 2


class Refusal(msgspec.Struct, frozen=True):
    """Why a statement may not run. `kind` is for counting, `reason` a sentence for the model."""

    kind: str  # syntax | size | depth | statement | clause | table | function | type | operator
    # | node | recursion | product
    reason: str


DEFAULT_LIMITS = Limits()


def check(
    sql: str,
    tables: Iterable[str],
    functions: Iterable[str],
    limits: Limits = DEFAULT_LIMITS,
) -> Refusal | None:
    """None when `sql` may run, else the refusal. Never raises for any text.

    `tables`: allowed tables, `schema.name` or `name` (then in `public`). `functions`: allowed
    functions, `name` (then PostgreSQL's own) or `schema.name`.
    """
    try:
        tree = _parse(sql, limits)
        guard = _Guard(_qualified(tables, DEFAULT_SCHEMA), _qualified(functions, CATALOGUE), limits)
        guard.statement(tree)
    except _Refused as refused:
        return refused.refusal
    return None


def single_statement(sql: str) -> str:
    """A text that `check` lets pass, without what follows its one statement (`;`, comments)."""
    [statement] = postgast.parse(sql).stmts
    start = statement.stmt_location
    end = start + statement.stmt_len if statement.stmt_len else None
    return sql.encode()[start:end].decode()


def canonical(sql: str) -> str | None:
    """One spelling for equal syntax trees (white space, case, comments gone); None if no SQL."""
    try:
        text: str = postgast.deparse(_parse(sql, DEFAULT_LIMITS))
    except (_Refused, postgast.PgQueryError):
        return None
    return text


class _Refused(Exception):
    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(kind, reason)


def _parse(sql: str, limits: Limits) -> pg.ParseResult:
    if "\0" in sql:
        raise _Refused("syntax", "the statement holds a NUL character, which ends it early")
    try:
        size = len(sql.encode())
        if size > limits.max_bytes:
            raise _Refused(
                "size", f"the statement has {size} bytes, more than {limits.max_bytes}; shorten it"
            )
        return postgast.parse(sql)
    except UnicodeError:
        raise _Refused("syntax", "the statement is not valid Unicode text") from None
    except postgast.PgQueryError as error:
        raise _Refused("syntax", f"PostgreSQL cannot parse it: {error.message}") from None
    except DecodeError:
        raise _Refused("depth", "the statement is nested too deeply; split it") from None


def _qualified(names: Iterable[str], schema: str) -> frozenset[str]:
    return frozenset(name if "." in name else f"{schema}.{name}" for name in names)


# Nodes of a query that carry no rule of their own beyond that of their children.
_PLAIN_NODES = frozenset(
    {
        "A_ArrayExpr",
        "A_Const",
        "A_Indices",
        "A_Star",
        "Alias",
        "BitString",
        "BoolExpr",
        "Boolean",
        "BooleanTest",
        "CaseExpr",
        "CaseWhen",
        "CollateClause",
        "Float",
        "GroupingFunc",
        "GroupingSet",
        "Integer",
        "List",
        "NamedArgExpr",
        "NullTest",
        "ParamRef",
        "RangeFunction",
        "ResTarget",
        "RowExpr",
        "String",
        "WindowDef",
    }
)

# fmt: off
_TYPES = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar",
    "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb",
    "bytea",
})
# fmt: on

# fmt: off
_OPERATORS = frozenset({
    "+", "-", "*", "/", "%", "^", "#", "&", "|", "~", "<<", ">>", "@", "|/", "||/", "=", "<>", "!=",
    "<", ">", "<=", ">=", "||", "~~", "!~~", "~~*", "!~~*", "~*", "!~", "!~*", "^@", "->", "->>",
    "#>", "#>>", "@>", "<@", "?", "?|", "?&", "&&",
})
# fmt: on

# Kinds of A_Expr whose `name` is an operator; the BETWEEN family has words there.
_OPERATOR_KINDS = frozenset(
    {
        pg.AEXPR_OP,
        pg.AEXPR_OP_ANY,
        pg.AEXPR_OP_ALL,
        pg.AEXPR_DISTINCT,
        pg.AEXPR_NOT_DISTINCT,
        pg.AEXPR_NULLIF,
        pg.AEXPR_IN,
        pg.AEXPR_LIKE,
        pg.AEXPR_ILIKE,
        pg.AEXPR_SIMILAR,
    }
)
_BETWEEN_KINDS = frozenset(
    {
        pg.AEXPR_BETWEEN,
        pg.AEXPR_NOT_BETWEEN,
        pg.AEXPR_BETWEEN_SYM,
        pg.AEXPR_NOT_BETWEEN_SYM,
    }
)

# LIKE ... ESCAPE and SIMILAR TO are operators whose pattern the grammar wraps in these.
_PATTERN_FUNCTIONS = frozenset({"pg_catalog.like_escape", "pg_catalog.similar_to_escape"})

_TIME_VALUES = frozenset(
    {
        pg.SVFOP_CURRENT_DATE,
        pg.SVFOP_CURRENT_TIME,
        pg.SVFOP_CURRENT_TIME_N,
        pg.SVFOP_CURRENT_TIMESTAMP,
        pg.SVFOP_CURRENT_TIMESTAMP_N,
        pg.SVFOP_LOCALTIME,
        pg.SVFOP_LOCALTIME_N,
        pg.SVFOP_LOCALTIMESTAMP,
        pg.SVFOP_LOCALTIMESTAMP_N,
    }
)

# PostgreSQL's functions that one argument of any row type satisfies: `t.to_json` means
# `to_json(t)`. From pg_proc of PostgreSQL 18 (one required argument of type any, anyelement,
# anynonarray, anycompatible or record). All that begin with pg_ count too; window functions and
# the harmless count, max, min, mode and concat, which are common column names, do not.
# fmt: off
_ROW_FUNCTIONS = frozenset({
    "any_out", "any_value", "anycompatible_out", "anycompatiblenonarray_out", "anyelement_out",
    "anynonarray_out", "array_agg", "hash_record", "json_agg", "json_agg_strict",
    "json_build_array", "json_build_object", "jsonb_agg", "jsonb_agg_strict", "jsonb_build_array",
    "jsonb_build_object", "num_nonnulls", "num_nulls", "quote_literal", "quote_nullable",
    "record_out", "record_send", "row_to_json", "to_json", "to_jsonb",
})
# fmt: on

# fmt: off
_AGGREGATES = frozenset({
    "count", "sum", "avg", "min", "max", "string_agg", "array_agg", "percentile_cont",
    "percentile_disc", "mode", "bool_and", "bool_or", "every", "stddev", "stddev_pop",
    "stddev_samp", "variance", "var_pop", "var_samp", "corr", "json_agg", "jsonb_agg",
})
# fmt: on


_COLLECTING = frozenset(
    {
        "string_agg",
        "array_agg",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
        "xmlagg",
    }
)


class _Cte(msgspec.Struct, eq=False):
    """A WITH query in scope. `width`: see `_Guard._select`; `reads`: WITH queries it reads."""

    name: str
    width: int = 1
    reads: list[_Cte] = []


Scope = Mapping[str, _Cte]


class _Relation(msgspec.Struct):
    """One item of a FROM list: the name by which columns refer to it, and its width."""

    name: str
    width: int


class _From(msgspec.Struct):
    """A FROM list taken apart: relations, predicates over them, pairs joined by USING."""

    relations: list[_Relation] = []
    predicates: list[Message] = []
    joined: list[tuple[str, str]] = []


class _Guard:
    """Walks one tree; raises _Refused at the first thing that is not allowed."""

    def __init__(self, tables: frozenset[str], functions: frozenset[str], limits: Limits) -> None:
        self._tables = tables
        self._functions = functions
        self._limits = limits
        self._nodes = 0
        self._depth = 0
        self._open: list[_Cte] = []  # WITH queries whose bodies are being walked

    def statement(self, tree: pg.ParseResult) -> None:
        """Exactly one statement, and that a SELECT."""
        if len(tree.stmts) != 1:
            count = len(tree.stmts) or "no"
            raise _Refused("statement", f"there are {count} statements; send exactly one SELECT")
        select = postgast.unwrap_node(tree.stmts[0].stmt)
        kind = _kind(select)
        if kind != "SelectStmt":
            words = kind.removesuffix("Stmt")
            raise _Refused("statement", f"{words} is not a SELECT; only one SELECT may run")
        if select.values_lists and not select.from_clause:
            raise _Refused("statement", "VALUES alone reads no table; send a SELECT")
        self._visit(select, {})

    def _visit(self, node: Message, scope: Scope) -> None:
        """Check one node and everything below it."""
        self._nodes += 1
        self._depth += 1
        if self._nodes > self._limits.max_nodes:
            raise _Refused(
                "size", f"the statement has more than {self._limits.max_nodes} parts; shorten it"
            )
        if self._depth > self._limits.max_depth:
            raise _Refused(
                "depth", f"the statement is nested deeper than {self._limits.max_depth}; split it"
            )
        self._rule(node, scope)
        self._depth -= 1

    def _rule(self, node: Message, scope: Scope) -> None:
        kind = _kind(node)
        if kind in _PLAIN_NODES:
            self._children(node, scope)
            return
        match kind:
            case "SelectStmt":
                self._select(node, scope)
            case "RangeVar":
                self._table(node, scope)
            case "RangeSubselect" | "JoinExpr":
                self._from_item(node, scope, _From())
            case "ColumnRef":
                self._column(node)
            case "A_Indirection":
                self._indirection(node, scope)
            case "A_Expr":
                self._expression(node, scope)
            case "SubLink" | "SortBy":
                name = node.oper_name if kind == "SubLink" else node.use_op
                self._operator(name)
                self._children(node, scope, "oper_name", "use_op")
            case "TypeCast":
                self._type(node.type_name)
                self._children(node, scope, "type_name")
            case "FuncCall":
                self._call(node, scope)
            case "RangeTableSample":
                self._function(_words(node.method), "TABLESAMPLE ")
                self._children(node, scope, "method")
            case "CoalesceExpr":
                self._function(["coalesce"])
                self._children(node, scope)
            case "MinMaxExpr":
                self._function(["greatest" if node.op == pg.IS_GREATEST else "least"])
                self._children(node, scope)
            case "SQLValueFunction":
                self._value_function(node)
            case "Node" if node.ByteSize() == 0:
                return  # an optional part that is not there, e.g. of ROWS FROM
            case _:
                raise _Refused("node", f"{kind} is not allowed in a query; use a plain SELECT")

    def _children(self, node: Message, scope: Scope, *skip: str) -> None:
        for field, value in node.ListFields():
            if field.message_type is None or field.name in skip:
                continue
            for child in [value] if isinstance(value, Message) else value:
                self._visit(postgast.unwrap_node(child), scope)

    # Queries: scope of WITH names, and how many relations they multiply.

    def _select(self, node: Message, scope: Scope) -> int:
        """Check a SELECT; give its width.

        The width is how many unjoined many-row relations its result is the product of: 0 when it
        has one row, 1 for a table, and so on.
        """
        if node.HasField("into_clause"):
            raise _Refused("clause", "SELECT INTO makes a table; leave INTO out")
        if node.locking_clause:
            raise _Refused("clause", "FOR UPDATE and FOR SHARE lock rows; leave them out")
        if node.HasField("with_clause"):
            scope = self._with(node.with_clause, scope)
        if node.op != pg.SETOP_NONE:
            width = max(self._nested(node.larg, scope), self._nested(node.rarg, scope))
            self._children(node, scope, "with_clause", "larg", "rarg")
        else:
            source = _From()
            for item in node.from_clause:
                self._from_item(postgast.unwrap_node(item), scope, source)
            if node.HasField("where_clause"):
                source.predicates.append(node.where_clause)
            width = self._product(source)
            if width > 1 and any(_collects(target) for target in node.target_list):
                raise _Refused(
                    "product",
                    f"{width} relations are multiplied and put into one value; add join conditions",
                )
            self._children(node, scope, "with_clause", "from_clause")
        return 0 if _one_row(node) else width

    def _nested(self, node: Message, scope: Scope) -> int:
        """Width of a SELECT below another one, counted against the limits as `_visit` does."""
        self._nodes += 1
        self._depth += 1
        if self._depth > self._limits.max_depth:
            raise _Refused("depth", "the statement is nested too deeply; split it")
        width = self._select(node, scope)
        self._depth -= 1
        return width

    def _with(self, clause: Message, scope: Scope) -> Scope:
        """The scope inside a query with this WITH clause; its queries are checked on the way."""
        expressions = [postgast.unwrap_node(item) for item in clause.ctes]
        queries = [_Cte(expression.ctename, reads=[]) for expression in expressions]
        inner = dict(scope)
        if clause.recursive:
            inner.update({query.name: query for query in queries})
        for expression, query in zip(expressions, queries, strict=True):
            body = postgast.unwrap_node(expression.ctequery)
            if _kind(body) != "SelectStmt":
                raise _Refused("statement", f"WITH {query.name} is not a SELECT and may write")
            if expression.HasField("search_clause") or expression.HasField("cycle_clause"):
                raise _Refused("recursion", "SEARCH and CYCLE belong to recursion; leave them out")
            self._open.append(query)
            query.width = self._nested(body, inner)
            self._open.pop()
            inner[query.name] = query
        for query in queries:
            if _reaches(query, query):
                raise _Refused(
                    "recursion", f"WITH RECURSIVE {query.name} reads itself, which nothing bounds"
                )
        return inner

    def _from_item(self, node: Message, scope: Scope, source: _From) -> list[str]:
        """Check one FROM item and add it to `source`; the names it brings."""
        match _kind(node):
            case "RangeVar":
                width = self._table(node, scope)
                name = node.alias.aliasname or node.relname
                source.relations.append(_Relation(name, width))
                return [name]
            case "RangeSubselect":
                select = postgast.unwrap_node(node.subquery)
                width = self._nested(select, scope)
                if node.lateral and select.HasField("where_clause"):
                    source.predicates.append(select.where_clause)
                source.relations.append(_Relation(node.alias.aliasname, width))
                return [node.alias.aliasname]
            case "JoinExpr":
                return self._join(node, scope, source)
            case _:  # functions, samples
                self._visit(node, scope)
                inner = getattr(node, "relation", None)  # of a sample
                name = node.alias.aliasname if inner is None else _relation_name(inner)
                source.relations.append(_Relation(name, 1))
                return [name]

    def _join(self, node: Message, scope: Scope, source: _From) -> list[str]:
        own = _From([], [], [])
        left = self._from_item(postgast.unwrap_node(node.larg), scope, own)
        right = self._from_item(postgast.unwrap_node(node.rarg), scope, own)
        if node.HasField("quals"):
            self._visit(postgast.unwrap_node(node.quals), scope)
            own.predicates.append(node.quals)
        if (node.is_natural or node.using_clause) and left and right:
            own.joined.append((left[0], right[0]))
        if node.alias.aliasname:  # (a JOIN b ...) AS j: outside, only j is a name
            source.relations.append(_Relation(node.alias.aliasname, self._product(own)))
            return [node.alias.aliasname]
        source.relations += own.relations
        source.predicates += own.predicates
        source.joined += own.joined
        return left + right

    def _product(self, source: _From) -> int:
        """Width of a FROM list: over groups joined by predicates, the sum of their widths."""
        names = {relation.name for relation in source.relations}
        parent = {name: name for name in names}
        spare = 0  # joins by unqualified columns, whose relations we cannot tell
        for left, right in source.joined:
            parent[_root(parent, left)] = _root(parent, right)
        for predicate in source.predicates:
            for expression in _comparisons(predicate):
                used = sorted({q for q in _qualifiers(expression) if q in names})
                for other in used[1:]:
                    parent[_root(parent, used[0])] = _root(parent, other)
                if len(used) < 2 and _compares_unqualified(expression):
                    spare += 1
        groups: dict[str, int] = {}
        for relation in source.relations:
            root = _root(parent, relation.name)
            groups[root] = max(groups.get(root, 0), relation.width)
        widths = sorted(groups.values(), reverse=True)
        kept = widths[: max(1, len(widths) - spare)]
        if sum(kept) > self._limits.max_unjoined:
            raise _Refused(
                "product",
                f"{sum(kept)} relations are multiplied without a predicate that joins them; "
                "add join conditions",
            )
        return sum(kept)

    # Names.

    def _table(self, node: Message, scope: Scope) -> int:
        """Check a relation's name; its width."""
        if node.catalogname:
            raise _Refused("table", "a table has at most two name parts; write schema.table")
        name = node.relname
        if not node.schemaname and name in scope:
            query = scope[name]
            for reader in self._open:
                reader.reads.append(query)
            return query.width
        schema = node.schemaname or (CATALOGUE if name.startswith("pg_") else DEFAULT_SCHEMA)
        if f"{schema}.{name}" not in self._tables:
            allowed = ", ".join(sorted(self._tables)) or "none"
            raise _Refused("table", f"table {schema}.{name} is not allowed; allowed: {allowed}")
        return 1

    def _column(self, node: Message) -> None:
        parts = [postgast.unwrap_node(field) for field in node.fields]
        last = parts[-1]
        if len(parts) < 2 or _kind(last) != "String":
            return
        name = last.sval
        callable_on_row = name in _ROW_FUNCTIONS or name.startswith("pg_")
        if callable_on_row and f"{CATALOGUE}.{name}" not in self._functions:
            raise _Refused("function", f"{name} may name a function, which is not allowed")

    def _indirection(self, node: Message, scope: Scope) -> None:
        for part in node.indirection:
            if _kind(postgast.unwrap_node(part)) == "String":
                raise _Refused(
                    "function", "(row).name may call a function; write table.column instead"
                )
        self._children(node, scope)

    def _expression(self, node: Message, scope: Scope) -> None:
        if node.kind in _OPERATOR_KINDS:
            self._operator(node.name)
        elif node.kind not in _BETWEEN_KINDS:
            raise _Refused("operator", "this kind of expression is not allowed")
        if node.kind == pg.AEXPR_NULLIF:
            self._function(["nullif"])
        skip = ["name"]
        right = postgast.unwrap_node(node.rexpr)
        if (
            node.kind in (pg.AEXPR_LIKE, pg.AEXPR_ILIKE, pg.AEXPR_SIMILAR)
            and _kind(right) == "FuncCall"
            and ".".join(_words(right.funcname)) in _PATTERN_FUNCTIONS
        ):
            skip.append("rexpr")
            self._children(right, scope, "funcname")
        self._children(node, scope, *skip)

    def _operator(self, parts: Sequence[Message]) -> None:
        words = _words(parts)
        if not words:
            return
        if len(words) > 2 or (len(words) == 2 and words[0] != CATALOGUE):
            raise _Refused("operator", f"operator {'.'.join(words)} is not PostgreSQL's own")
        if words[-1] not in _OPERATORS:
            raise _Refused("operator", f"operator {words[-1]} is not allowed")

    def _type(self, node: Message) -> None:
        words = _words(node.names)
        if node.setof or node.pct_type or not words or len(words) > 2:
            raise _Refused("type", "this form of type name is not allowed")
        if (len(words) == 2 and words[0] != CATALOGUE) or words[-1] not in _TYPES:
            raise _Refused("type", f"type {'.'.join(words)} is not allowed in a cast")
        for modifier in [*node.typmods, *node.array_bounds]:
            if _kind(postgast.unwrap_node(modifier)) not in ("A_Const", "Integer"):
                raise _Refused("type", f"the modifier of type {words[-1]} must be a number")

    def _call(self, node: Message, scope: Scope) -> None:
        self._function(_words(node.funcname))
        self._children(node, scope, "funcname")

    def _function(self, words: Sequence[str], before: str = "") -> None:
        name = ".".join(words)
        qualified = name if len(words) > 1 else f"{CATALOGUE}.{name}"
        if len(words) not in (1, 2) or qualified not in self._functions:
            raise _Refused("function", f"{before}function {name} is not allowed")

    def _value_function(self, node: Message) -> None:
        name = pg.SQLValueFunctionOp.Name(node.op).removeprefix("SVFOP_").removesuffix("_N").lower()
        if f"{CATALOGUE}.{name}" in self._functions:
            return
        if node.op not in _TIME_VALUES or f"{CATALOGUE}.now" not in self._functions:
            raise _Refused("function", f"{name.upper()} is not allowed")


def _kind(node: Message) -> str:
    kind: str = node.DESCRIPTOR.name
    return kind


def _words(parts: Iterable[Message]) -> list[str]:
    return [str(getattr(postgast.unwrap_node(part), "sval", "")) for part in parts]


def _relation_name(wrapped: Message) -> str:
    relation: Any = postgast.unwrap_node(wrapped)
    return str(relation.alias.aliasname or relation.relname)


def _below(node: Message) -> Iterator[Message]:
    """The node and everything below it, WITH queries and sub-selects included."""
    stack = [postgast.unwrap_node(node)]
    while stack:
        current = stack.pop()
        yield current
        for field, value in current.ListFields():
            if field.message_type is not None:
                children = [value] if isinstance(value, Message) else value
                stack.extend(postgast.unwrap_node(child) for child in children)


def _comparisons(predicate: Message) -> Iterator[Message]:
    return (node for node in _below(predicate) if _kind(node) == "A_Expr")


def _qualifiers(expression: Message) -> Iterator[str]:
    for node in _below(expression):
        if _kind(node) == "ColumnRef" and len(node.fields) > 1:
            yield _words(node.fields)[-2]


def _compares_unqualified(expression: Any) -> bool:
    """True for `x = y` where either side has a column that names no relation."""
    sides = [expression.lexpr, expression.rexpr]
    columns = [[n for n in _below(side) if _kind(n) == "ColumnRef"] for side in sides]
    return all(columns) and any(len(c.fields) == 1 for side in columns for c in side)


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        name = parent[name]
    return name


def _reaches(start: _Cte, goal: _Cte) -> bool:
    seen: set[int] = set()
    stack = list(start.reads)
    while stack:
        query = stack.pop()
        if query is goal:
            return True
        if id(query) not in seen:
            seen.add(id(query))
            stack.extend(query.reads)
    return False


def _one_row(node: Any) -> bool:
    """True when a SELECT gives one row (or a few written out) whatever its tables hold."""
    if node.op != pg.SETOP_NONE:
        return False
    if node.values_lists:
        return True
    limit = postgast.unwrap_node(node.limit_count)
    if _kind(limit) == "A_Const" and limit.HasField("ival") and limit.ival.ival <= 1:
        return True
    if node.group_clause or node.distinct_clause:
        return False
    return any(_is_aggregate(target) for target in node.target_list)


def _is_aggregate(target: Message) -> bool:
    return any(
        _kind(node) == "FuncCall"
        and not node.HasField("over")
        and _words(node.funcname)[-1] in _AGGREGATES
        for node in _below(target)
    )


def _collects(target: Message) -> bool:
    """True when a value grows with the number of rows behind it."""
    return any(
        _kind(node) == "FuncCall" and _words(node.funcname)[-1] in _COLLECTING
        for node in _below(target)
    )
