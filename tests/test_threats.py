"""Threats: what a campaign's runs do not have in common, and what they have too little of."""

from __future__ import annotations

import dataclasses

from bench.run import Run
from bench.scenario import Engine, Load, Slo
from bench.threats import threats_of
from makers import make_facts, make_run, make_scenario


def launches(**counts: int) -> list[Run]:
    return [
        make_run(
            make_facts(make_scenario(Engine(name=name, kv_tokens=100_000)), id=f"{name}-{number}"),
            [],
        )
        for name, count in counts.items()
        for number in range(count)
    ]


def has(runs: list[Run], words: str) -> bool:
    return any(words in threat for threat in threats_of(runs))


def test_every_engine_needs_three_launches() -> None:
    few = "Fewer than three launches per engine"
    assert has(launches(a=1, b=1), few)
    assert has(launches(a=5, b=1), few)  # three each on average is not three each
    assert not has(launches(a=3, b=3), few)
    assert not has(launches(a=1), few)


def test_runs_that_state_other_objectives_are_named() -> None:
    runs = launches(a=2, b=1)
    assert not has(runs, "stated by")
    runs[1].facts.scenario.slo = Slo(gate_error_rate=0.5)
    runs[2].facts.scenario.load = Load(users=[4], think_time_s=3.0)
    assert has(runs, "objectives or limits (slo) than a-0 are stated by a-1;")
    assert has(runs, "think times (load.think_time_s) than a-0 are stated by b-0;")
    # Other users are other levels, no other question.
    runs[2].facts.scenario.load = dataclasses.replace(runs[0].facts.scenario.load, users=[8])
    assert not has(runs, "think times")


def test_records_that_were_changed_are_named() -> None:
    (run,) = launches(a=1)
    assert not has([run], "changed after")
    run.altered = "its records differ from the manifest: llm-0.jsonl"
    assert has([run], "changed after the run was sealed (a-0)")
