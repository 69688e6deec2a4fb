"""Synthetic Contents: a rich one (two engines x three levels), an empty one, a hostile one."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bench.fit.facts import LevelFacts
from bench.fit.latency import LatencyRow, PathRow, TurnGrowth
from bench.fit.law import Coefficient, Law
from bench.fit.seed import AccountingRow
from bench.quality.selection import AnswerRow, SelectionRow
from bench.report.content import Content, GridCell, RunSummary
from bench.report.figures import Figure, all_figures
from bench.report.page import page
from bench.run import Endpoint, RunFacts, ToolAddresses
from bench.scenario import Engine, Load, Scenario, Slo, Tools, Workload
from bench.sizing.plan import PlanRow, SizingPlan
from bench.slo import LevelVerdict, ObjectiveVerdict
from bench.stats.interval import Interval
from makers import make_proof_level, make_selftest

HOSTILE = "<script>alert('x')</script> $\\frac{1}{ | `rm` \"quoted\" & \x07"
ENGINES = {"h100-70b-fp8-tp2": 1.6, "h100-70b-fp8-tp4": 1.0}
USERS = (4, 8, 16)
WORKLOADS = {"naive_rag": 1, "react_1": 2, "react_2": 3, "react_3": 4, "parallel": 2, "web": 2}
TOOLS = {"sql_query": (0.012, 0.5), "vector_search": (0.006, 0.3), "web_search": (0.61, 0.35)}
PARTS = ("client_wait", "ttft", "call_decode", "tools", "answer_decode")


def around(value: float, n: int, spread: float = 0.06) -> Interval:
    return Interval(value=value, low=value * (1 - spread), high=value * (1 + 2 * spread), n=n)


def _run(engine: str) -> RunSummary:
    scenario = Scenario(
        name="demo",
        engine=Engine(
            name=engine, kv_tokens=444_000, tensor_parallel=2, provenance="published.json, rows 1-4"
        ),
        workload=Workload(mix=dict.fromkeys(WORKLOADS, 1.0)),
        load=Load(users=list(USERS)),
        tools=Tools(),
        slo=Slo(),
    )
    facts = RunFacts(
        id=f"20261201T101500Z-{engine[-3:]}",
        created="2026-12-01T10:15:00+00:00",
        scenario=scenario,
        endpoint=Endpoint(
            base_url="http://127.0.0.1:8000/v1",
            model="Llama-3.1-70B",
            simulated=True,
            label=f"{engine} (simulated)",
            profile_hash="9f2c1a77",
            version="simulator 1",
        ),
        tools=ToolAddresses(
            sql_dsn="postgresql://agent:secret@127.0.0.1:5433/bench",
            vector_url="http://127.0.0.1:6333",
            web_url="http://127.0.0.1:8080",
            embedded=True,
            versions={"postgresql": "18.6", "qdrant": "edge 0.9"},
        ),
        machine={"cpu": "EPYC 7B13", "cores": 2, "memory_gib": 15.6, "gpus": []},
        versions={"bench": "0.1.0", "python": "3.11.2", "locust": "2.47.0"},
    )
    last = engine.endswith("tp4")
    return RunSummary(
        facts=facts,
        complete=not last,
        reason="412 episodes were scheduled and 409 recorded" if last else "",
        scheduled=412,
        recorded=409 if last else 412,
        torn=1 if last else 0,
        selftest=make_selftest(make_proof_level(50), make_proof_level(500, 7.5, client_cpu=None)),
    )


def _level(engine: str, run: str, users: int, slow: float) -> LevelFacts:
    attempted = 40 + 12 * users
    return LevelFacts(
        engine=engine,
        run=run,
        users=users,
        simulated=True,
        control="live",
        window_s=22.4,
        warmup_s=2.6,
        settled=users < 16 or slow < 1.5,
        scheduled=attempted + 3,
        attempted=attempted,
        answered=attempted - 2,
        failed=2,
        tail=users,
        running_mean=users * 0.81 if users < 16 else None,
        output_tokens_per_s=52.0 * users**0.8 / slow,
        episodes_per_s=0.6 * users**0.85 / slow,
        lag_s_p99=0.0021,
        client_cpu=0.18,
        error_rate=2 / attempted,
        prefix_hit_rate=0.61,
        server_gap=None if users == 4 else 0.012,
    )


def _objective(
    name: str, metric: str, engine: str, run: str, users: int, verdict: str, observed: float | None
) -> ObjectiveVerdict:
    rate = metric == "tsa"
    return ObjectiveVerdict(
        name=name,
        metric=metric,
        quantile=None if rate else 0.95,
        bound={"ttft_s": 0.45, "latency_s": 3.0, "tsa": 0.85}[metric],
        direction="above" if rate else "below",
        workload="",
        engine=engine,
        run=run,
        users=users,
        observed=observed,
        low=None if observed is None else observed * 0.93,
        high=None if observed is None or users == 16 else observed * 1.1,
        n=0 if observed is None else 88,
        needed=210 if verdict == "undecided" and rate else None,
        verdict=verdict,
        valid=users != 16,
        infeasible=verdict == "failed" and metric == "latency_s",
        reasons=[] if verdict == "passed" else ["n_too_small: 88 of 299 episodes"],
    )


def _verdict(engine: str, run: str, users: int, slow: float) -> LevelVerdict:
    late = "failed" if slow > 1.5 else "undecided"
    return LevelVerdict(
        engine=engine,
        run=run,
        users=users,
        verdict="undecided" if late == "undecided" else "failed",
        valid=users != 16,
        objectives=[
            _objective("TTFT p95", "ttft_s", engine, run, users, "passed", 0.21 * slow),
            _objective("Episode p95", "latency_s", engine, run, users, late, 2.4 * slow),
            _objective("TSA", "tsa", engine, run, users, "undecided", None if users == 4 else 0.87),
        ],
        gates={
            "client_cpu": "ok",
            "lag": "ok",
            "server_gap": "ok" if users > 4 else "not_checked: 120 of 200 requests",
            "steady_state": "ok" if users < 16 else "not_settled: 61 % would be cut",
        },
    )


def _latency(engine: str, run: str, users: int, slow: float) -> list[LatencyRow]:
    base = {
        "ttft_s.call": 0.16,
        "ttft_s.answer": 0.12,
        "tpot_s": 0.0112,
        "latency_s": 1.3,
        "ttfat_s": 0.9,
        "tool_s.sql_query": 0.012,
        "tool_s.web_search": 0.61,
    }
    rows = []
    for workload, share in (("all", 1.0), ("react_1", 0.8), ("react_3", 1.7)):
        for metric, value in base.items():
            p50 = value * slow * (1 + users / 40) * (share if metric == "latency_s" else 1)
            rows.append(
                LatencyRow(
                    engine=engine,
                    run=run,
                    users=users,
                    workload=workload,
                    metric=metric,
                    n=90,
                    missing=2,
                    p50=around(p50, 90),
                    p95=Interval(value=p50 * 1.9, low=p50 * 1.7, high=None, n=90),
                    p99=Interval(value=None, low=None, high=None, n=90),
                )
            )
    return rows


def _path(engine: str, run: str, users: int, workload: str, slow: float) -> PathRow:
    turns = []
    for turn in range(WORKLOADS[workload]):
        last = turn == WORKLOADS[workload] - 1
        turns.append(
            {
                "client_wait": 0.002,
                "ttft": (0.15 + 0.03 * turn) * slow,
                "call_decode": 0.0 if last else 0.31 * slow,
                "tools": 0.0 if last else (0.62 if workload == "web" else 0.02),
                "answer_decode": 0.62 * slow if last else 0.0,
            }
        )
    parts = {name: sum(turn[name] for turn in turns) for name in PARTS}
    total = sum(parts.values())
    return PathRow(
        engine=engine,
        run=run,
        users=users,
        workload=workload,
        n=18,
        total_s=total,
        parts_s=parts,
        shares={name: value / total for name, value in parts.items()},
        turns=turns,
    )


def _selection(engine: str, run: str, users: int) -> SelectionRow:
    names = [*TOOLS, "none"]
    confusion = {
        expected: {chosen: 38 if chosen == expected else (3 if chosen != "none" else 1)
                   for chosen in names}
        for expected in names
    }  # fmt: skip
    tsa = Interval(value=0.9 - users / 400, low=0.84 - users / 400, high=0.94, n=120)
    return SelectionRow(
        engine=engine,
        run=run,
        users=users,
        descriptions="strong",
        items=126,
        tsa=tsa,
        tsa_attempts=Interval(value=0.86, low=0.79, high=0.91, n=126),
        tsa_strict=Interval(value=None, low=None, high=None, n=0),
        abstention=Interval(value=0.75, low=0.41, high=0.93, n=8),
        outcomes={"correct": 104, "wrong_tool": 12, "missed_call": 4, "transport_error": 1},
        confusion=confusion,
        by_stratum={"plain": around(0.93, 80), "adversarial": around(0.7, 40)},
    )


def _answers(engine: str, run: str, users: int) -> list[AnswerRow]:
    return [
        AnswerRow(
            engine=engine,
            run=run,
            users=users,
            workload=workload,
            correct=Interval(value=0.83, low=0.74, high=0.9, n=90),
            completed=Interval(value=0.98, low=0.92, high=0.99, n=90),
        )
        for workload in ("all", "react_2")
    ]


def _laws() -> list[Law]:
    laws = [
        Law(
            name=f"tool.{tool}",
            engine=engine,
            family="lognormal",
            coefficients=[
                Coefficient(name="median", value=p50, low=p50 * 0.95, high=p50 * 1.06, unit="s"),
                Coefficient(name="sigma", value=sigma, low=None, high=None, unit=""),
            ],
            range={"latency_s": [p50 / 3, p50 * 3]},
            n=240,
            censored=2,
            failures=1,
            quantile_error=0.07,
            note="empirical law used" if tool == "web_search" else "",
            accepted=tool != "web_search",
        )
        for engine in ENGINES
        for tool, (p50, sigma) in TOOLS.items()
    ]
    for engine in ENGINES:
        laws.append(
            Law(
                name="ttft",
                engine=engine,
                family="step-time",
                coefficients=[
                    Coefficient(name=name, value=value, low=value * 0.9, high=high, unit=unit)
                    for name, value, high, unit in (
                        ("a", 20.0 * ENGINES[engine], None, "ms per chunk"),
                        ("b", 0.045 * ENGINES[engine], 0.049 * ENGINES[engine], "ms per token"),
                        ("c", 0.1, 0.3, "ms per 1e6 pairs"),
                        ("token_budget", 8192.0, 8192.0, "tokens per step (given)"),
                    )
                ],
                range={"uncached_tokens": [51.0, 8192.0], "cached_tokens": [0.0, 7372.0]},
                n=27,
                mape=0.024,
            )
        )
    return laws


def _plan() -> SizingPlan:
    rows = [
        PlanRow(
            layout=layout,
            gpus_per_replica_group=gpus,
            users_per_group=users,
            measured_users=16,
            limiting="prefill: the token budget of a step is full",
            tpot_s_p50=0.0171 if users else None,
            latency_s_p50=1.82 if users else None,
            groups=None if users is None else 4,
            gpus=None if users is None else 4 * gpus,
            nodes=None if users is None else gpus // 2,
            gpus_n_plus_1=None if users is None else 5 * gpus,
            nodes_n_plus_1=None if users is None else gpus // 2 + 1,
            source="predicted, shipped coefficients",
        )
        for layout, gpus, users in (("TP=2", 2, None), ("TP=4", 4, 26), ("2 x TP=2", 4, 21))
    ]
    return SizingPlan(
        target_users=100,
        gpus_per_node=8,
        assumptions={"hit rate": "0.61 (measured)", "think time": "0 s"},
        rows=rows,
        notes=["Every figure of this plan is predicted by the step-time law."],
    )


@pytest.fixture(scope="session")
def rich() -> Content:
    rng = np.random.default_rng(7)
    runs = [_run(engine) for engine in ENGINES]
    ids = {engine: item.facts.id for engine, item in zip(ENGINES, runs, strict=True)}
    points = [(e, ids[e], users, slow) for e, slow in ENGINES.items() for users in USERS]
    return Content(
        title="ReAct Bench: demo",
        generated="2026-12-01 10:30:00",
        simulated=True,
        confidence=0.95,
        runs=runs,
        levels=[_level(*point) for point in points],
        verdicts=[_verdict(*point) for point in points],
        plan=_plan(),
        latency=[item for point in points for item in _latency(*point)],
        paths=[_path(e, r, users, w, slow) for e, r, users, slow in points for w in WORKLOADS],
        growth=[
            TurnGrowth(
                engine=e,
                users=users,
                turn=turn,
                n=60 - 10 * turn,
                prompt_tokens_p50=1400 + 420 * turn,
                uncached_tokens_p50=420.0,
                ttft_s_p50=around((0.14 + 0.02 * turn) * slow * (1 + users / 50), 60),
            )
            for e, _, users, slow in points
            for turn in range(4)
        ],
        grid=[
            GridCell(
                engine=e,
                prompt_tokens=prompt,
                cached_tokens=prompt * share,
                ttft_s=list(slow * (0.02 + 4.5e-5 * prompt * (1 - share)) * rng.normal(1, 0.02, 3)),
            )
            for e, slow in ENGINES.items()
            for prompt in (512.0, 2048.0, 8192.0)
            for share in (0.0, 0.5, 0.9)
        ],
        laws=_laws(),
        tool_samples={
            tool: list(rng.lognormal(np.log(p50), sigma, 240))
            for tool, (p50, sigma) in TOOLS.items()
        },
        accounting=[
            AccountingRow(
                row=name,
                engine=engine,
                users=4,
                n=18,
                stated_ms=stated,
                seed_accounting_ms=(stated or 900.0) * 1.01,
                measured_ms=(stated or 900.0) * 1.6,
                omitted_ms=(stated or 900.0) * 0.59,
            )
            for engine in ENGINES
            for name, stated in (("react_1", 500.0), ("react_2", 800.0), ("mixed", None))
        ],
        seed_reference=False,
        selection=[_selection(e, r, users) for e, r, users, _ in points],
        answers=[item for e, r, users, _ in points for item in _answers(e, r, users)],
        errors=[{"what": "tool timeout", "count": 3, "example": "timeout after 5 s"}],
        threats=["One launch per engine: differences between engines are descriptive."],
    )


@pytest.fixture(scope="session")
def empty() -> Content:
    return Content(
        title="ReAct Bench: nothing yet",
        generated="2026-12-01 10:30:00",
        simulated=False,
        confidence=0.95,
        runs=[],
        levels=[],
        verdicts=[],
        plan=SizingPlan(target_users=100, gpus_per_node=8, assumptions={}, rows=[], notes=[]),
        latency=[],
        paths=[],
        growth=[],
        grid=[],
        laws=[],
        tool_samples={},
        accounting=[],
        seed_reference=False,
        selection=[],
        answers=[],
        errors=[],
        threats=[],
    )


@pytest.fixture(scope="session")
def hostile(rich: Content) -> Content:
    """The rich content with markup, mathematics and control characters in every free text."""
    nan = Interval(value=float("nan"), low=float("-inf"), high=float("inf"), n=3)
    return msgspec.structs.replace(
        rich,
        title=HOSTILE,
        errors=[{"what": HOSTILE, "count": None, "example": HOSTILE * 40}],
        threats=[HOSTILE],
        tool_samples={HOSTILE: [0.1, float("nan"), 0.2], "_hidden": [0.0, 0.1], "検索": [0.3]},
        levels=[msgspec.structs.replace(item, engine=HOSTILE) for item in rich.levels],
        latency=[
            msgspec.structs.replace(item, engine=HOSTILE, p50=nan, workload="all")
            for item in rich.latency[:7]
        ],
        growth=[msgspec.structs.replace(item, engine=HOSTILE) for item in rich.growth],
        paths=[
            msgspec.structs.replace(item, workload=HOSTILE, total_s=float("inf"))
            for item in rich.paths
        ],
        selection=[
            msgspec.structs.replace(item, confusion={HOSTILE: {HOSTILE: 1}})
            for item in rich.selection
        ],
    )


@pytest.fixture(scope="session")
def small(rich: Content) -> Content:
    """One level of one engine: enough for every file, quick to draw."""
    engine = next(iter(ENGINES))
    return msgspec.structs.replace(
        rich,
        levels=rich.levels[:1],
        latency=rich.latency[:2],
        paths=rich.paths[:1],
        growth=[],
        grid=[],
        tool_samples={},
        selection=[item for item in rich.selection if item.engine == engine],
        answers=[],
    )


# Drawing takes most of the time, so the tests share what they only read.


@pytest.fixture(scope="session")
def figures(rich: Content) -> dict[str, Figure]:
    return all_figures(rich)


@pytest.fixture(scope="session")
def rich_page(rich: Content) -> str:
    return page(rich)


@pytest.fixture(scope="session")
def hostile_page(hostile: Content) -> str:
    return page(hostile)
