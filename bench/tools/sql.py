"""sql_query: one guarded SELECT on PostgreSQL, parameters bound, read only, limited in all ways."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
import uuid
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import asyncpg
import msgspec

from bench.episode import Observation, ObservationOutcome
from bench.errors import ToolError
from bench.scenario import Sql
from bench.sql import check, single_statement
from bench.tools.observation import failed, text_argument

CLIENT_MARGIN_S = 1.0  # beyond statement_timeout, before the client gives up by itself
CONNECT_TIMEOUT_S = 10.0
INT8_DIGITS = 18  # of the largest int8, after its first
NUMERIC_DIGITS, NUMERIC_DECIMALS = 131_072, 16_383  # of PostgreSQL's numeric


RELEASE_LIMIT_S = 1.0  # for a connection to come back to the pool in good order
ROW_FACTOR = 4  # a row may have so many times max_bytes as PostgreSQL writes it: JSON is shorter
TOO_WIDE = "a row of the answer has too many bytes"
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, OSError)


class SqlTool:
    """`{"query": "SELECT ... $1", "params": [...]}` -> `{"columns": [...], "rows": [[...]]}`.

    Rows beyond `max_rows` or `max_bytes` are left out and `"truncated": true` says so. The limit
    `timeout_s` begins when a connection of the pool is free; the wait for it is told apart.
    """

    name = "sql_query"

    def __init__(self, pool: asyncpg.Pool, settings: Sql) -> None:
        self._pool = pool
        self._settings = settings
        self._encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)

    async def call(self, arguments: dict[str, Any]) -> Observation:
        """Judge, bind and run one statement."""
        query = text_argument(arguments)
        params = arguments.get("params") or []
        if query is None or not isinstance(params, list):
            return self._failed(
                ObservationOutcome.error, "query must be SQL text and params a list of values"
            )
        refusal = check(query, self._settings.tables, self._settings.functions)
        if refusal is not None:
            return self._failed(ObservationOutcome.refused, refusal.reason)
        started_s = time.monotonic()
        try:
            connection = await self._pool.acquire(timeout=self._settings.timeout_s)
        except TimeoutError:
            return self._failed(
                ObservationOutcome.error,
                f"none of the tools.sql.pool_size={self._settings.pool_size} connections was free "
                f"within {self._settings.timeout_s:g} s",
            )
        except FAILURES as error:
            return self._failed(ObservationOutcome.error, str(error) or type(error).__name__)
        wait_s = time.monotonic() - started_s
        try:
            observation = await self._ask(connection, query, params)
        finally:
            await self._release(connection)
        return msgspec.structs.replace(observation, wait_s=wait_s)

    async def close(self) -> None:
        """Close the pool; calls that still run are cut off."""
        self._pool.terminate()

    async def _ask(self, connection: Any, query: str, params: Sequence[Any]) -> Observation:
        """Run the statement on a connection, which is cut off when the server leaves us waiting.

        The server ends a slow statement itself; one that is stuck cannot even be asked to cancel.
        """
        running = asyncio.ensure_future(self._run(connection, query, params))
        running.add_done_callback(_retrieve)
        try:
            await asyncio.wait({running}, timeout=self._settings.timeout_s + CLIENT_MARGIN_S)
        finally:
            stuck = not running.done()
            if stuck:
                connection.terminate()
                running.cancel()
                await asyncio.wait({running}, timeout=RELEASE_LIMIT_S)
        error = None if stuck else running.exception()
        if stuck or isinstance(error, asyncpg.QueryCanceledError):
            return self._failed(
                ObservationOutcome.timeout,
                f"the query took longer than {self._settings.timeout_s:g} s",
            )
        if isinstance(error, asyncpg.InvalidTextRepresentationError) and TOO_WIDE in str(error):
            return self._failed(
                ObservationOutcome.refused, f"{TOO_WIDE}; select fewer or shorter values"
            )
        if isinstance(error, FAILURES):
            return self._failed(ObservationOutcome.error, str(error) or type(error).__name__)
        return self._observation(*running.result())

    async def _release(self, connection: Any) -> None:
        """Give the connection back; one that does not answer is dropped."""
        try:
            await self._pool.release(connection, timeout=RELEASE_LIMIT_S)
        except FAILURES:
            connection.terminate()

    async def _run(
        self, connection: Any, query: str, params: Sequence[Any]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and at most max_rows + 1 rows."""
        timeout_ms = int(self._settings.timeout_s * 1000)
        async with connection.transaction(readonly=True):
            await connection.execute(f"SET LOCAL statement_timeout = {timeout_ms}")
            statement = await connection.prepare(bounded(query, self._settings))
            types = statement.get_parameters()
            if len(types) != len(params):
                raise ValueError(f"the query has {len(types)} parameters, got {len(params)}")
            values = [
                coerce(value, kind.name, f"${number}")
                for number, (value, kind) in enumerate(zip(params, types, strict=True), start=1)
            ]
            cursor = await statement.cursor(*values)
            rows = await cursor.fetch(self._settings.max_rows + 1)
            columns = [attribute.name for attribute in statement.get_attributes()]
        return columns, [tuple(row.values()) for row in rows]

    def _observation(self, columns: list[str], rows: list[tuple[Any, ...]]) -> Observation:
        lines: list[bytes] = []
        size = 0
        for row in rows[: self._settings.max_rows]:
            line = self._encoder.encode([_plain(value) for value in row])
            size += len(line) + 1
            if size > self._settings.max_bytes:
                break
            lines.append(line)
        head = self._encoder.encode(columns).decode()
        more = ',"truncated":true' if len(lines) < len(rows) else ""
        body = b",".join(lines).decode()
        content = f'{{"columns":{head},"rows":[{body}]{more}}}'
        return Observation(content=content, rows=len(lines))

    def _failed(self, outcome: ObservationOutcome, error: str) -> Observation:
        return failed(self.name, outcome, error)


def _retrieve(running: asyncio.Future[Any]) -> None:
    """Look at an error that nobody may ask for, or asyncio complains."""
    if not running.cancelled():
        running.exception()


def bounded(query: str, settings: Sql) -> str:
    """The checked statement inside one that ends with an error at a row of too many bytes.

    One cell can hold 1 GB (text doubled in WITH queries, string_agg), and asyncpg reads a row
    whole: so the server must not send it. The LIMIT inside keeps the test off the rows that are
    not asked for; the cast fails, with the text it is given, for the row that is too wide.
    """
    text = single_statement(query)
    limit_bytes = ROW_FACTOR * settings.max_bytes
    return (
        f"SELECT * FROM (SELECT * FROM (\n{text}\n) AS bench_query LIMIT {settings.max_rows + 1}) "
        f"AS bench_row WHERE CASE WHEN octet_length((bench_row.*)::text) <= {limit_bytes} "
        f"THEN true ELSE ('{TOO_WIDE}' || octet_length((bench_row.*)::text))::boolean END"
    )


async def open_sql(settings: Sql, dsn: str) -> SqlTool:
    """Connect and check that every allowed table can be read.

    The password comes from PGPASSWORD. Raises ToolError.
    """
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=min(2, settings.pool_size),
            max_size=settings.pool_size,
            timeout=CONNECT_TIMEOUT_S,
            max_inactive_connection_lifetime=0,
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise ToolError(
            f"tools.sql.dsn={dsn}",
            f"PostgreSQL cannot be reached ({error})",
            "check that it runs, the DSN, and PGPASSWORD",
        ) from error
    try:
        await _check_tables(pool, settings.tables)
    except BaseException:
        pool.terminate()
        raise
    return SqlTool(pool, settings)


async def _check_tables(pool: asyncpg.Pool, tables: Sequence[str]) -> None:
    for table in tables:
        qualified = table if "." in table else f"public.{table}"
        schema, name = qualified.split(".", 1)
        readable = await pool.fetchval(
            "SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            schema,
            name,
            timeout=CONNECT_TIMEOUT_S,
        )
        if not readable:
            why = "is not in the database" if readable is None else "may not be read by this role"
            raise ToolError(
                f"tools.sql.tables={table}", why, "correct tools.sql.tables, or GRANT SELECT"
            )


def coerce(value: Any, kind: str, name: str) -> Any:
    """A JSON value as the Python value that asyncpg binds to a parameter of type `kind`.

    A string becomes a date, a number a Decimal, and so on; types that are not known here are
    passed on as they are. Raises ValueError with a sentence when the value does not fit.
    """
    if value is None:
        return None
    if kind.endswith("[]"):
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, got {value!r}")
        return [coerce(item, kind[:-2], name) for item in value]
    try:
        return _coerce_one(value, kind)
    except (ValueError, TypeError, InvalidOperation, OverflowError, RecursionError):
        raise ValueError(f"{name} must be a value of type {kind}, got {value!r}") from None


def _coerce_one(value: Any, kind: str) -> Any:
    match kind:
        case "bool":
            return _boolean(value)
        case "int2" | "int4" | "int8":
            return _integer(value)
        case "float4" | "float8":
            return float(_not_boolean(value))
        case "numeric":
            return _numeric(value)
        case "text" | "varchar" | "bpchar" | "name" | "char":
            return _text(value)
        case "date":
            return dt.date.fromisoformat(value[:10]) if _is_midnight(value) else _reject()
        case "timestamp":
            return dt.datetime.fromisoformat(value).replace(tzinfo=None)
        case "timestamptz":
            stamp = dt.datetime.fromisoformat(value)
            return stamp if stamp.tzinfo else stamp.replace(tzinfo=dt.UTC)
        case "time" | "timetz":
            return dt.time.fromisoformat(value)
        case "uuid":
            return uuid.UUID(value) if isinstance(value, str) else _reject()
        case "json" | "jsonb":
            return msgspec.json.encode(value).decode()
        case _:
            return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError


def _integer(value: Any) -> int:
    number = Decimal(str(_not_boolean(value)))
    if number.adjusted() > INT8_DIGITS or number != number.to_integral_value():
        raise ValueError  # int() of 1e1000000 would hold up the loop for half a minute
    return int(number)


def _numeric(value: Any) -> Decimal:
    """A Decimal that PostgreSQL's numeric can hold; asyncpg writes out every digit of others."""
    number = Decimal(str(_not_boolean(value)))
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and (
        number.adjusted() >= NUMERIC_DIGITS or exponent < -NUMERIC_DECIMALS
    ):
        raise ValueError
    return number


def _not_boolean(value: Any) -> Any:
    return _reject() if isinstance(value, bool) else value


def _text(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        raise ValueError
    return str(value)


def _is_midnight(value: str) -> bool:
    """True for a date, or a timestamp without a time of day."""
    stamp = dt.datetime.fromisoformat(value)
    return stamp.time() == dt.time(0)


def _reject() -> Any:
    raise ValueError


def _plain(value: Any) -> Any:
    """What JSON can say: not-a-number and infinity become null."""
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if isinstance(value, asyncpg.Record):
        return [_plain(item) for item in value.values()]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
