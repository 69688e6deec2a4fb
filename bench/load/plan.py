"""Plan: the points of a load, in the order of running."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.errors import ConfigError
from bench.load.arrivals import profile_of
from bench.load.trace import played, read_trace
from bench.scenario import Load, LoadKind, RepeatOrder


class PlannedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point before it has run: its name, its planned users or mean rate, its length."""

    name: str
    duration_s: float
    users: int = 0  # 0: nobody waits for an answer before the next episode
    rate_per_s: float | None = None
    trace: str = ""


def planned_points(load: Load) -> list[PlannedPoint]:
    """Every point of a load, repeats included (`u8-r0`, `u8-r1`), in the order of running.

    Raises ScenarioError for a trace that cannot be read.
    """
    once = _once(load)
    if load.repeats == 1:
        return once
    repeats = range(load.repeats)
    if load.order is RepeatOrder.interleaved:
        order = [(point, repeat) for repeat in repeats for point in once]
    else:
        order = [(point, repeat) for point in once for repeat in repeats]
    return [
        msgspec.structs.replace(point, name=f"{point.name}-r{repeat}") for point, repeat in order
    ]


def _once(load: Load) -> list[PlannedPoint]:
    match load.kind:
        case LoadKind.closed:
            return [
                PlannedPoint(name=f"u{users}", users=users, duration_s=load.duration_s)
                for users in load.users
            ]
        case LoadKind.open:
            return [
                PlannedPoint(name=f"r{rate:g}", rate_per_s=rate, duration_s=load.duration_s)
                for rate in load.rates
            ]
        case LoadKind.trace:
            return _traces(load)
        case LoadKind.steps:
            return [_steps(load)]


def _traces(load: Load) -> list[PlannedPoint]:
    points = [_trace(load, trace) for trace in load.traces]
    if len({point.name for point in points}) < len(points):
        raise ConfigError(
            f"load.traces=[{', '.join(load.traces)}]",
            "two files have the same name, and a point is named by it",
            "rename one of them",
        )
    return points


def _trace(load: Load, trace: str) -> PlannedPoint:
    path = Path(trace)
    arrivals = read_trace(path)
    # A trace that ends early ends the point: just after its last arrival, which is a member.
    length_s = arrivals[-1].at_s / load.speed + 1e-3
    duration_s = min(load.duration_s, length_s)
    members = played(arrivals, load.speed, duration_s)
    if not members:
        raise ConfigError(
            f"load.duration_s={load.duration_s:g}",
            f"ends before the first arrival of {trace} ({arrivals[0].at_s / load.speed:g} s)",
            "raise load.duration_s or load.speed",
        )
    return PlannedPoint(
        name=f"trace-{path.stem}",
        rate_per_s=len(members) / duration_s,
        duration_s=duration_s,
        trace=trace,
    )


def _steps(load: Load) -> PlannedPoint:
    profile = profile_of(load.stages)
    duration_s = sum(stage.duration_s for stage in load.stages)
    if load.in_users:
        return PlannedPoint(name="steps", users=round(profile.highest), duration_s=duration_s)
    return PlannedPoint(name="steps", rate_per_s=profile.mean(duration_s), duration_s=duration_s)
