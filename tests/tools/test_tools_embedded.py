"""The three services started together, and each tool on them, past the guard too."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import psutil
import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_client.http.models import Distance, PointStruct, VectorParams

from bench.episode import Observation, ObservationOutcome
from bench.errors import ToolError
from bench.material import Material
from bench.scenario import Sql, Tools, Vector, Web
from bench.tools import open_toolbox
from bench.tools.embed import load_embedder
from bench.tools.embedded import Services, service, start_services
from bench.tools.embedded.place import service_directory
from bench.tools.sql import open_sql
from bench.tools.vector import VectorTool

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "sql_guard_cases.json"
CONTRACTS = 60
QUERY = "SELECT count(*) FROM contracts"
SLOW = "SELECT count(*) FROM contracts a JOIN contracts b ON a.id >= b.id OR b.id >= a.id" + (
    "".join(f" JOIN contracts c{n} ON c{n}.id >= a.id OR a.id >= c{n}.id" for n in range(6))
)
DDL = """
CREATE TABLE public.providers (id int PRIMARY KEY, name text, region text);
CREATE TABLE public.contracts (
  id serial PRIMARY KEY, provider_id int REFERENCES public.providers (id), name text,
  amount numeric(12,2), year int, provider_region text, signed date, renewable boolean, comment int
);
CREATE TABLE public.secrets (id int, password text);
CREATE FUNCTION public.evil(public.contracts) RETURNS text LANGUAGE sql
  AS 'SELECT password FROM public.secrets LIMIT 1';
CREATE FUNCTION public.leak() RETURNS text LANGUAGE sql SECURITY DEFINER
  AS 'SELECT password FROM public.secrets LIMIT 1';
"""


def make_material(directory: Path) -> Material:
    """60 contracts of 3 providers; one document and one page for each of a few of them."""
    (directory / "tables").mkdir(parents=True)
    (directory / "tables.sql").write_text(DDL)
    rows = ["id,provider_id,name,amount,year,provider_region,signed,renewable,comment"]
    for n in range(CONTRACTS):
        rows.append(
            f"{n},{n % 3},Contract {n},{n}.50,{2020 + n % 6},EU,2025-01-{1 + n % 28:02d},t,1"
        )
    (directory / "tables" / "contracts.csv").write_text("\n".join(rows) + "\n")
    providers = "id,name,region\n0,Acme,EU\n1,Bolt,US\n2,Core,EU\n"
    (directory / "tables" / "providers.csv").write_text(providers)
    (directory / "tables" / "secrets.csv").write_text("id,password\n1,hunter2\n")
    topics = ["late delivery penalty", "data protection audit", "early termination notice"]
    with (directory / "documents.jsonl").open("w") as file:
        for n in range(30):
            text = f"Clause {n}: {topics[n % 3]} of the agreement."
            file.write(json.dumps({"id": n, "text": text, "payload": {"contract_id": n}}) + "\n")
    with (directory / "pages.jsonl").open("w") as file:
        for n, topic in enumerate(["steel prices", "interest rates", "harbour strike"]):
            page = {"url": f"https://example.org/{n}", "title": topic, "content": f"On {topic}."}
            file.write(json.dumps(page) + "\n")
    return Material(directory=directory, tasks=[], selection=[], tools=[], selection_source="own")


def make_tools() -> Tools:
    return Tools(
        start_timeout_s=60,
        sql=Sql(
            tables=["public.contracts", "public.providers"],
            functions=["count", "sum", "length", "string_agg", "array_agg"],
            timeout_s=0.5,
            max_rows=5,
            max_bytes=400,
            pool_size=4,
        ),
        vector=Vector(top_k=3),
        web=Web(top_k=2, delay_s_p50=0.01, delay_s_min=0.005, delay_s_max=0.02),
    )


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    place = tmp_path_factory.mktemp("run")
    with start_services(make_tools(), make_material(place / "material"), place) as running:
        yield running


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system temporary directory of our own: other runs use the real one at the same time."""
    place = Path(tempfile.mkdtemp(prefix="bench-test-"))
    place.chmod(0o711)  # PostgreSQL's user must pass through
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    shutil.rmtree(place)


def call(services: Services, tool: str, *calls: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """(outcome, content, error) of calls made at once on freshly opened tools."""

    async def run() -> list[tuple[str, str, str]]:
        toolbox = await open_toolbox(make_tools(), services.addresses, 1)
        try:
            found = await asyncio.gather(
                *(toolbox[tool].call(dict(arguments)) for arguments in calls)
            )
        finally:
            for opened in toolbox.values():
                await opened.close()
        return [(o.outcome.value, o.content, o.error) for o in found]

    return asyncio.run(run())


def test_addresses_and_versions(services: Services) -> None:
    services.check()
    assert services.addresses.embedded
    assert set(services.addresses.versions) == {"postgresql", "qdrant_edge", "tantivy"}
    assert set(services.pids) == {"postgres", "qdrant", "web"}
    assert services.addresses.sql_dsn.startswith("postgresql://agent@127.0.0.1:")


def test_sql_answers_with_bound_parameters(services: Services) -> None:
    query = (
        "SELECT count(*) AS n, sum(amount) AS total FROM contracts"
        " WHERE signed <= $1 AND amount > $2 AND year = $3 AND renewable = $4"
    )
    ok, wrong = call(
        services,
        "sql_query",
        {"query": query, "params": ["2025-01-20", "3", 2021.0, "true"]},
        {"query": query, "params": ["soon", 3, 2021, True]},
    )
    expected = [n for n in range(CONTRACTS) if 1 + n % 28 <= 20 and n + 0.5 > 3 and n % 6 == 1]
    assert ok[0] == "ok"
    assert json.loads(ok[1]) == {
        "columns": ["n", "total"],
        "rows": [[len(expected), sum(n + 0.5 for n in expected)]],
    }
    assert wrong[0] == "error"
    assert json.loads(wrong[1])["tool"] == "sql_query"
    assert "$1 must be a value of type date" in wrong[2]


def test_sql_caps_rows_and_bytes(services: Services) -> None:
    many, wide = call(
        services,
        "sql_query",
        {"query": "SELECT id, signed FROM contracts ORDER BY id"},
        {"query": "SELECT c.*, c.*, c.*, c.* FROM contracts c"},
    )
    rows = json.loads(many[1])
    assert rows["rows"] == [[n, f"2025-01-{n + 1:02d}"] for n in range(5)]
    assert rows["truncated"] is True
    assert json.loads(wide[1])["truncated"] is True
    assert len(json.loads(wide[1])["rows"]) < 5


def test_sql_failures_are_observations(services: Services) -> None:
    refused, timeout, unknown, count, syntax, kind = call(
        services,
        "sql_query",
        {"query": "SELECT * FROM secrets"},
        {"query": SLOW},
        {"query": "SELECT nothing FROM contracts"},
        {"query": "SELECT 1 FROM contracts WHERE id = $1", "params": []},
        {"query": "SELEC 1"},
        {"query": 5},
    )
    assert refused[0] == "refused"
    assert "secrets is not allowed" in refused[2]
    assert timeout[0] == "timeout"
    assert unknown[0] == count[0] == kind[0] == "error"
    assert "1 parameters, got 0" in count[2]
    assert syntax[0] == "refused"


def test_sql_keeps_a_huge_cell_on_the_server(services: Services) -> None:
    """A cell made by doubling could have 1 GB, and asyncpg would read it whole."""
    doubled = "WITH t0 AS (SELECT string_agg(name, ',') AS v FROM contracts)" + "".join(
        f", t{n} AS (SELECT v || v AS v FROM t{n - 1})" for n in range(1, 9)
    )
    huge, listed, narrow, ended, semicolon = call(
        services,
        "sql_query",
        {"query": f"{doubled} SELECT v FROM t8"},
        {"query": "SELECT array_agg(name || name || name || name || name) FROM contracts"},
        {"query": f"{doubled} SELECT length(v) AS n FROM t8"},
        {"query": "SELECT 1 AS bench_row, 2 AS bench_row -- no more"},
        {"query": "SELECT name FROM contracts WHERE id = $1; -- the end", "params": [7]},
    )
    for outcome, content, error in (huge, listed):
        assert outcome == "refused"
        assert "a row of the answer has too many bytes; select fewer" in error
        assert len(content) < 400
    size = len(",".join(f"Contract {n}" for n in range(CONTRACTS))) << 8
    assert json.loads(narrow[1]) == {"columns": ["n"], "rows": [[size]]}
    assert json.loads(ended[1]) == {"columns": ["bench_row", "bench_row"], "rows": [[1, 2]]}
    assert json.loads(semicolon[1])["rows"] == [["Contract 7"]]


def test_a_stuck_server_is_a_timeout_and_the_tool_lives_on(services: Services) -> None:
    """SIGSTOP: it takes connections and answers nothing, so it cannot be asked to cancel."""
    leader = psutil.Process(services.pids["postgres"])
    settings = make_tools()
    settings.sql.timeout_s, settings.sql.pool_size = 0.3, 1

    async def run() -> list[tuple[str, str]]:
        tool = await open_sql(settings.sql, services.addresses.sql_dsn)
        seen = []
        stopped = [leader, *leader.children(recursive=True)]
        try:
            for process in stopped:
                process.suspend()
            for _ in range(2):  # on a connection that was open, then without one
                observation = await asyncio.wait_for(tool.call({"query": QUERY}), 20.0)
                seen.append((observation.outcome.value, observation.error))
            running = asyncio.create_task(tool.call({"query": QUERY}))
            await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.wait({running}, timeout=20.0)
            assert running.cancelled()
        finally:
            for process in stopped:
                if process.is_running():
                    process.resume()
        limit_s = time.monotonic() + 20.0
        while time.monotonic() < limit_s:  # the server may need longer than the call's limit
            observation = await tool.call({"query": QUERY})
            if observation.outcome is ObservationOutcome.ok:
                break
        seen.append((observation.outcome.value, observation.error))
        await tool.close()
        return seen

    first, second, after = asyncio.run(run())
    assert first == ("timeout", "the query took longer than 0.3 s")
    assert second[0] == "error"
    assert after == ("ok", "")


def test_the_wait_for_a_free_connection_is_told_apart(services: Services) -> None:
    settings = make_tools()
    settings.sql.timeout_s, settings.sql.pool_size = 0.5, 1

    async def run() -> list[Observation]:
        tool = await open_sql(settings.sql, services.addresses.sql_dsn)
        queries = [{"query": SLOW}, {"query": SLOW}, {"query": QUERY}]
        found = await asyncio.wait_for(asyncio.gather(*map(tool.call, queries)), 30.0)
        await tool.close()
        return found

    slow, second, waited = asyncio.run(run())
    assert slow.outcome is ObservationOutcome.timeout
    assert slow.wait_s is not None
    assert slow.wait_s < 0.5
    for late in (second, waited):  # the first to run has used up their limit, or all but
        if late.outcome is ObservationOutcome.error:
            assert "none of the tools.sql.pool_size=1 connections was free" in late.error
        else:
            assert late.wait_s is not None
            assert late.wait_s > 0.2


def test_sql_answers_are_never_mixed_up(services: Services) -> None:
    query = "SELECT name FROM contracts WHERE id = $1"
    found = call(services, "sql_query", *({"query": query, "params": [n]} for n in range(40)))
    assert [json.loads(content)["rows"] for _, content, _ in found] == [
        [[f"Contract {n}"]] for n in range(40)
    ]


def as_agent(services: Services, *statements: str, readonly: bool = False) -> list[str]:
    """What the database says to the agent's role when no guard stands before it."""

    async def run() -> list[str]:
        connection = await asyncpg.connect(services.addresses.sql_dsn)
        await connection.execute("SET default_transaction_read_only = off")  # it may try
        said = []
        for statement in statements:
            transaction = connection.transaction(readonly=readonly)
            await transaction.start()
            try:
                prepared = await connection.prepare(statement)
                said.append(f"OK {len(await prepared.fetch())}")
            except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                said.append(f"ERR {error}")
            await transaction.rollback()
        await connection.close()
        return said

    return asyncio.run(run())


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM secrets",
        "SELECT (contracts).evil FROM contracts",
        "SELECT public.leak()",
        "INSERT INTO contracts (id) VALUES (99)",
        "UPDATE contracts SET amount = 0",
        "DELETE FROM contracts",
        "TRUNCATE contracts",
        "SELECT * FROM contracts FOR UPDATE",
        "CREATE TABLE t (a int)",
        "CREATE TEMP TABLE t (a int)",
        "CREATE SCHEMA s",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DO $$ BEGIN END $$",
        "COPY contracts TO '/tmp/x'",
        "COPY contracts TO PROGRAM 'true'",
        "SELECT pg_sleep(1)",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_creat(-1)",
        "SELECT query_to_xml('SELECT 1', true, false, '')",
        "SELECT pg_advisory_lock(1)",
        "SELECT nextval('contracts_id_seq')",
        "SELECT rolpassword FROM pg_authid",
        "ALTER ROLE agent SUPERUSER",
        "SET ROLE postgres",
        "ALTER SYSTEM SET fsync = off",
        "CREATE EXTENSION dblink",
    ],
)
def test_the_role_alone_stops_it(services: Services, statement: str) -> None:
    assert as_agent(services, statement)[0].startswith("ERR")


def test_the_role_may_read_what_is_allowed(services: Services) -> None:
    assert as_agent(services, "SELECT * FROM contracts", "SELECT * FROM providers") == [
        f"OK {CONTRACTS}",
        "OK 3",
    ]


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/data is not beside this clone")
def test_the_role_stops_what_the_corpus_says_it_stops(services: Services) -> None:
    cases = [
        case
        for case in json.loads(CORPUS.read_text(encoding="utf-8"))["cases"]
        if case["postgres_15"]["agent/extended"].startswith("ERR") and "\0" not in case["sql"]
    ]
    said = as_agent(services, *(case["sql"] for case in cases), readonly=True)
    passed = [case["id"] for case, words in zip(cases, said, strict=True) if words[:3] != "ERR"]
    assert passed == []
    assert len(cases) > 50


def test_the_owner_is_not_reachable_over_tcp(services: Services) -> None:
    dsn = services.addresses.sql_dsn.replace("agent@", "postgres@")

    async def run() -> None:
        await asyncpg.connect(dsn)

    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        asyncio.run(run())


def test_vector_search_finds_the_nearest_texts(services: Services) -> None:
    ok, bad, blank = call(
        services,
        "vector_search",
        {"query": "penalty for late delivery", "top_k": "4"},
        {"query": "x", "top_k": 0},
        {"query": " "},
    )
    found = json.loads(ok[1])
    assert len(found) == 4
    assert all("late delivery penalty" in item["text"] for item in found)
    assert all(item["contract_id"] == item["id"] for item in found)
    assert [item["score"] for item in found] == sorted((i["score"] for i in found), reverse=True)
    assert bad[0] == blank[0] == "error"


def test_the_vector_service_speaks_qdrants_api(services: Services) -> None:
    async def run() -> None:
        client = AsyncQdrantClient(url=services.addresses.vector_url, check_compatibility=False)
        assert not await client.collection_exists("own")
        await client.create_collection("own", VectorParams(size=2, distance=Distance.COSINE))
        with pytest.raises(UnexpectedResponse):
            await client.create_collection("own", VectorParams(size=2, distance=Distance.COSINE))
        points = [PointStruct(id=n, vector=[1.0, n], payload={"n": n}) for n in range(3)]
        await client.upsert("own", points)
        assert (await client.get_collection("own")).points_count == 3
        nearest = await client.query_points("own", query=[1.0, 2.0], limit=1)
        assert [point.payload for point in nearest.points] == [{"n": 2}]
        for name, vector in (("own", [1.0]), ("absent", [1.0, 2.0])):
            with pytest.raises(UnexpectedResponse):
                await client.query_points(name, query=vector)
        with pytest.raises(UnexpectedResponse, match="only plain queries"):
            await client.query_points("own", query=[1.0, 2.0], score_threshold=0.5)
        await client.close()

    asyncio.run(run())


def test_web_search_answers(services: Services) -> None:
    ok, none = call(
        services, "web_search", {"query": "What are the steel prices?"}, {"query": "zzz"}
    )
    assert json.loads(ok[1])[0] == {
        "title": "steel prices",
        "url": "https://example.org/0",
        "content": "On steel prices.",
    }
    assert none == ("ok", "[]", "")


def test_opening_names_what_is_missing(services: Services) -> None:
    def opening(tools: Tools) -> str:
        with pytest.raises(ToolError) as caught:
            asyncio.run(open_toolbox(tools, services.addresses, 1))
        return str(caught.value)

    tools = make_tools()
    tools.sql.tables = ["public.absent"]
    assert "absent: is not in the database" in opening(tools)
    tools.sql.tables = ["public.secrets"]
    assert "may not be read by this role" in opening(tools)
    tools = make_tools()
    tools.vector.collection = "absent"
    assert "tools.vector.collection=absent: is not at" in opening(tools)


def test_a_dead_service_is_told_and_nothing_remains(tmp_path: Path, temporary: Path) -> None:
    with start_services(make_tools(), make_material(tmp_path / "m"), tmp_path) as running:
        pids = list(running.pids.values())
        family = {child.pid for pid in pids for child in psutil.Process(pid).children(True)}
        os.kill(running.pids["qdrant"], signal.SIGKILL)
        with pytest.raises(ToolError, match="service=qdrant"):
            _until_dead(running)
        (found,) = call_one_failing(running)
        assert found.value == "error"
    assert not {pid for pid in {*pids, *family} if _lives(pid)}
    assert list(temporary.iterdir()) == []
    assert {path.name for path in (tmp_path / "logs").iterdir()} >= {"postgres.log", "web.log"}


def _lives(pid: int) -> bool:
    """True for a process that runs; one that its new parent has not yet reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until_dead(running: Services) -> None:
    limit_s = time.monotonic() + 10
    while time.monotonic() < limit_s:
        running.check()
        time.sleep(0.01)


def call_one_failing(running: Services) -> list[ObservationOutcome]:
    """The outcome of a vector search after its service has died: nothing is raised."""

    async def run() -> list[ObservationOutcome]:
        client = AsyncQdrantClient(url=running.addresses.vector_url, check_compatibility=False)
        tool = VectorTool(client, load_embedder(), make_tools().vector)
        found = await tool.call({"query": "x"})
        await tool.close()
        return [found.outcome]

    return asyncio.run(run())


OWNER = """
import sys, time
from pathlib import Path
from bench.tools.embedded import start_services
sys.path.insert(0, sys.argv[1])
from test_tools_embedded import make_material, make_tools
place = Path(sys.argv[2])
with start_services(make_tools(), make_material(place / "m"), place) as running:
    print(*running.pids.values(), flush=True)
    time.sleep(60)
"""


def test_a_killed_owner_takes_the_services_along(tmp_path: Path, temporary: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(Path(__file__).parent), str(tmp_path)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        pids = {int(word) for word in owner.stdout.readline().split()}
        pids |= {child.pid for pid in pids for child in psutil.Process(pid).children(True)}
        owner.kill()
    assert len(pids) > 3
    limit_s = time.monotonic() + 20
    while any(_lives(pid) for pid in pids) and time.monotonic() < limit_s:
        time.sleep(0.02)
    assert not {pid for pid in pids if _lives(pid)}
    with service_directory() as place:
        assert list(temporary.iterdir()) == [place]  # what it left was removed


def test_a_taken_port_is_one_sentence(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = taken.getsockname()[1]
        monkeypatch.setattr(service, "free_port", lambda host: port)
        with (
            pytest.raises(ToolError, match=r"service=\w+ at .*address already in use.*free the"),
            start_services(make_tools(), make_material(tmp_path / "m"), tmp_path),
        ):
            pytest.fail("it started")
    assert list(temporary.iterdir()) == []


def test_an_unknown_table_is_one_sentence(tmp_path: Path) -> None:
    tools = make_tools()
    tools.sql.tables.append("public.absent")
    with (
        pytest.raises(ToolError, match="absent"),
        start_services(tools, make_material(tmp_path / "m"), tmp_path),
    ):
        pytest.fail("it started")


def test_missing_corpus_is_one_sentence(tmp_path: Path) -> None:
    material = make_material(tmp_path / "m")
    material.pages.unlink()
    with (
        pytest.raises(ToolError, match=r"has no pages\.jsonl"),
        start_services(make_tools(), material, tmp_path),
    ):
        pytest.fail("it started")
