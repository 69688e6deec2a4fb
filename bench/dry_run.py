"""What a launch would do and how long it would take, told without starting anything."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from bench.engine.vllm import launcher, serve_command
from bench.load.plan import PlannedPoint, planned_points
from bench.material import material_of
from bench.scenario import EngineKind, Scenario

LAUNCH_OVERHEAD_S = 8.0  # start and seal
POINT_OVERHEAD_S = 4.0
GRID_REQUEST_S = 0.3


def planned_s(scenario: Scenario) -> float:
    """About how long one launch takes, seconds: for display and `dry_run`, never for a result."""
    load = scenario.load
    cells = len(load.grid_prompt_tokens) * len(load.grid_hit_rates) * load.grid_repeats
    points_s = sum(point.duration_s + POINT_OVERHEAD_S for point in planned_points(load))
    return LAUNCH_OVERHEAD_S + 2 * cells * GRID_REQUEST_S + points_s


def describe(scenario: Scenario) -> str:
    """What a launch would do, in a few lines (`dry_run=true`); it leaves no file.

    Raises ScenarioError for material that the launch would refuse.
    """
    engine, load = scenario.engine, scenario.load
    with tempfile.TemporaryDirectory(prefix="bench-dry-run-") as cache:
        material = material_of(scenario, Path(cache))
    mix = ", ".join(
        f"{name} {weight:g}" for name, weight in scenario.workload.mix.items() if weight
    )
    lines = [
        f"engine   {engine.name} ({engine.kind.value}, TP={engine.tensor_parallel}, {engine.gpu})",
        f"workload {scenario.workload.material}: {mix} (control={scenario.workload.control.value})",
        f"         {len(material.tasks)} tasks, {len(material.selection)} selection items "
        f"from {material.selection_source}",
        f"tools    {scenario.tools.source.value}",
        f"load     {load.kind.value}: {', '.join(_point(one) for one in planned_points(load))}",
        f"time     about {planned_s(scenario) / 60:.1f} minutes",
    ]
    if engine.kind is EngineKind.vllm:
        lines.insert(1, f"command  {shlex.join(serve_command(engine, engine.port, launcher()))}")
    return "\n".join(lines)


def _point(point: PlannedPoint) -> str:
    many = f"{point.users} users"
    if point.rate_per_s is not None:
        many = f"{point.rate_per_s:.4g} episodes/s"
    return f"{point.name} ({many}, {point.duration_s:.4g} s)"
