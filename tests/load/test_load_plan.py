"""The points of a load: their names, order, repeats, lengths."""

from pathlib import Path

import pytest

from bench.errors import ConfigError
from bench.load.plan import planned_points
from bench.scenario import Load, LoadKind, RepeatOrder, Stage


def names(load: Load) -> list[str]:
    return [point.name for point in planned_points(load)]


def test_names_of_users_and_rates() -> None:
    assert names(Load(users=[4, 8])) == ["u4", "u8"]
    assert names(Load(kind=LoadKind.open, rates=[0.25, 2.5, 10.0])) == ["r0.25", "r2.5", "r10"]


def test_repeats_interleaved_or_in_sequence() -> None:
    load = Load(users=[4, 8], repeats=2)
    assert names(load) == ["u4-r0", "u8-r0", "u4-r1", "u8-r1"]
    load.order = RepeatOrder.sequence
    assert names(load) == ["u4-r0", "u4-r1", "u8-r0", "u8-r1"]
    assert {point.users for point in planned_points(load) if "u8" in point.name} == {8}


def test_a_trace_is_a_point_that_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text('{"at_s": 1}\n{"at_s": 5}\n{"at_s": 9}\n')
    load = Load(kind=LoadKind.trace, traces=[str(path)], speed=2.0, duration_s=100.0)
    (point,) = planned_points(load)
    assert (point.name, point.users, point.trace) == ("trace-day", 0, str(path))
    assert point.duration_s == pytest.approx(4.501)
    assert point.rate_per_s == pytest.approx(3 / 4.501)
    load.duration_s = 0.4
    with pytest.raises(ConfigError, match="ends before the first arrival"):
        planned_points(load)


def test_two_traces_of_one_name(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b" / "a.jsonl"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"at_s": 1}\n')
    with pytest.raises(ConfigError, match="two files have the same name"):
        planned_points(Load(kind=LoadKind.trace, traces=[str(path) for path in paths]))


def test_steps_are_one_point() -> None:
    stages = [Stage(users=4, duration_s=10.0), Stage(users=16, duration_s=20.0, ramp_s=10.0)]
    (point,) = planned_points(Load(kind=LoadKind.steps, stages=stages))
    assert (point.name, point.users, point.rate_per_s) == ("steps", 16, None)
    assert point.duration_s == 30.0
    rates = [Stage(rate=1.0, duration_s=10.0), Stage(rate=4.0, duration_s=20.0, ramp_s=20.0)]
    (point,) = planned_points(Load(kind=LoadKind.steps, stages=rates))
    assert point.users == 0
    assert point.rate_per_s == pytest.approx(2.0)
