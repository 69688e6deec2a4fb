"""Records, levels and runs for tests: whole and well by default, any field can be changed.

Every record belongs to episode 0 of user 0 at point "u1" unless a change says otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.episode import Workload
from bench.fit.law import Coefficient, Law
from bench.fit.level import Level
from bench.proof import ProofLevel, SelfTest
from bench.record import (
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointKind,
    PointRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.run import Endpoint, Run, RunFacts, ToolAddresses
from bench.scenario import Engine, Load, Scenario, Slo, StepTime, Tools
from bench.scenario import Workload as WorkloadPart
from bench.simulator.steptime import step_ms

MS = 1_000_000  # nanoseconds
S = 1_000_000_000
PUBLISHED = Path(__file__).parents[2] / "shared" / "reference" / "published.json"
H100_TP2 = StepTime(a=12.05, floor=15.87, b=0.06847, c=2.678, d=0.034, e=0.0292)
H100_TP4 = StepTime(a=9.51, floor=6.23, b=0.04537, c=1.26, d=0.0357, e=0.0149)


def make_call(**changes: Any) -> LLMRecord:
    """A model call that ended well: sent when scheduled, its last delta at its end."""
    facts: dict[str, Any] = {
        "point": "u1",
        "user": 0,
        "episode": 0,
        "turn": 0,
        "scheduled_ns": changes.get("sent_ns") or 0,
        "last_delta_ns": changes.get("done_ns"),
        "outcome": LLMOutcome.ok,
    }
    return LLMRecord(**(facts | changes))


def make_tool(**changes: Any) -> ToolRecord:
    """An execution of sql_query that ended well."""
    facts: dict[str, Any] = {
        "point": "u1",
        "user": 0,
        "episode": 0,
        "turn": 0,
        "call": 0,
        "tool": "sql_query",
        "name": changes.get("tool", "sql_query"),
        "arguments": "{}",
        "sent_ns": 0,
        "outcome": ToolOutcome.ok,
    }
    return ToolRecord(**(facts | changes))


def make_episode(**changes: Any) -> EpisodeRecord:
    """An answered episode of react_1, started when scheduled."""
    facts: dict[str, Any] = {
        "point": "u1",
        "user": 0,
        "episode": 0,
        "task": "t",
        "workload": Workload.react_1,
        "control": "live",
        "tools": "live",
        "scheduled_ns": 0,
        "started_ns": changes.get("scheduled_ns", 0),
        "outcome": EpisodeOutcome.answered,
    }
    return EpisodeRecord(**(facts | changes))


def make_point(**changes: Any) -> PointRecord:
    """A load point of one user that has just begun."""
    facts: dict[str, Any] = {"point": "u1", "kind": PointKind.load, "users": 1, "started_ns": 0}
    return PointRecord(**(facts | changes))


def make_level(
    episodes: list[EpisodeRecord],
    llm: list[LLMRecord] | None = None,
    tools: list[ToolRecord] | None = None,
    **changes: Any,
) -> Level:
    """A settled, complete level of these records, without warm-up or tail."""
    facts: dict[str, Any] = {
        "engine": "e",
        "run": "r",
        "point": make_point(),
        "simulated": True,
        "control": "live",
        "start_ns": 0,
        "end_ns": 1,
        "settled": True,
        "complete": True,
        "episodes": episodes,
        "llm": llm or [],
        "tools": tools or [],
        "engine_samples": [],
        "tasks": {},
        "scheduled": len(episodes),
        "warmup": 0,
        "tail": 0,
        "warmup_s": 0.0,
    }
    return Level(**(facts | changes))


def make_scenario(engine: Engine | None = None, **changes: Any) -> Scenario:
    """Four users who ask react_1 alone of a simulated engine "tp4"."""
    facts: dict[str, Any] = {
        "engine": engine or Engine(name="tp4", kv_tokens=100_000),
        "workload": WorkloadPart(mix={"react_1": 1.0}),
        "load": Load(users=[4]),
        "slo": Slo(),
        "tools": Tools(),
    }
    return Scenario(**(facts | changes))


def make_facts(scenario: Scenario | None = None, **changes: Any) -> RunFacts:
    """What run.json says of a run "r" on a simulated endpoint."""
    facts: dict[str, Any] = {
        "id": "r",
        "created": "2026-12-01T00:00:00+00:00",
        "scenario": scenario or make_scenario(),
        "endpoint": Endpoint(base_url="http://x/v1", model="m", simulated=True, label="sim"),
        "tools": ToolAddresses(),
        "machine": {},
        "versions": {},
    }
    return RunFacts(**(facts | changes))


def make_run(facts: RunFacts, points: list[PointRecord], **changes: Any) -> Run:
    """A run of these points that was not sealed, without any record."""
    parts: dict[str, Any] = {
        "directory": Path(facts.id),
        "facts": facts,
        "manifest": None,
        "tasks": {},
        "points": {point.point: point for point in points},
        "scheduled": [],
        "episodes": [],
        "llm": [],
        "tools": [],
        "engine": [],
    }
    return Run(**(parts | changes))


def make_proof_level(streams: int, added_ms_p99: float = 1.0, **changes: Any) -> ProofLevel:
    """A staggered level of short prompts, 20 events/s a stream, without failures."""
    facts: dict[str, Any] = {
        "prompt_tokens": 500,
        "streams": streams,
        "requests": 10 * streams,
        "events_per_s": 20.0 * streams,
        "ttft_added_ms_p50": 0.3,
        "ttft_added_ms_p99": added_ms_p99,
        "token_lag_ms_p99": 1.0,
        "client_cpu": 0.2,
        "server_cpu": 0.1,
    }
    return ProofLevel(**(facts | changes))


def make_selftest(*levels: ProofLevel, **changes: Any) -> SelfTest:
    """A self-test of these levels."""
    facts: dict[str, Any] = {
        "created": "2026-12-01T00:00:00+00:00",
        "quick": True,
        "ttft_s": 0.1,
        "itl_s": 0.05,
        "answer_tokens": 40,
        "machine": {"cpu": "c"},
        "versions": {"react-bench": "0.1.0", "scipy": "1"},
        "levels": list(levels),
    }
    return SelfTest(**(facts | changes))


def make_law(name: str, engine: str, values: dict[str, float]) -> Law:
    """A law of these coefficients, in milliseconds and without bounds."""
    return Law(
        name=name,
        engine=engine,
        family="step-time",
        coefficients=[
            Coefficient(name=key, value=value, low=None, high=None, unit="ms")
            for key, value in values.items()
        ],
        range={},
        n=1,
    )


def make_step_laws(engine: str, step: StepTime) -> list[Law]:
    """TTFT and TPOT laws of a perfect fit; the host's share of a step is in `a` and in `c0`."""
    ttft = {"a": step.a + step.host, "b": step.b, "c": step.c, "host": step.request}
    tpot = {"c0": step_ms(step, (), 0, 0), "d": step.d, "e": step.e}
    return [make_law("ttft", engine, ttft), make_law("tpot", engine, tpot)]


def read_published() -> dict[str, Any]:
    """../shared/reference/published.json; the test is skipped where it is absent."""
    if not PUBLISHED.exists():
        pytest.skip("../shared/reference/published.json is not present")
    found: dict[str, Any] = json.loads(PUBLISHED.read_text())
    return found
