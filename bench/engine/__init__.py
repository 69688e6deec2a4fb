"""What is under test, and is it alive?

In goes the engine's configuration; out comes an `Endpoint` that answers, for as long as the `with`
block lasts: the simulated engine (a process of ours), a running URL, or a vLLM launched here.
`counters` reads an engine's /metrics, `machine` says what it ran on. No equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.engine.attached import attach
from bench.engine.running import RunningEngine
from bench.engine.simulated import start_simulated
from bench.engine.vllm import start_vllm
from bench.scenario import Engine, EngineKind

__all__ = ["RunningEngine", "launch"]


@contextmanager
def launch(
    engine: Engine, material_dir: Path, directory: Path, seed: int, with_tools: bool = True
) -> Iterator[RunningEngine]:
    """Start or reach the engine, wait until it is healthy, and end it with the block.

    material_dir: the tasks that the simulated model knows. directory: the run's, for log and
    profile. with_tools: the agents will offer tools, so a server that we do not simulate must take
    them. Raises EngineError when it never becomes healthy or gives no completion.
    """
    match engine.kind:
        case EngineKind.simulated:
            running = start_simulated(engine, material_dir, directory, seed)
        case EngineKind.attached:
            running = attach(engine, with_tools)
        case EngineKind.vllm:
            running = start_vllm(engine, directory, with_tools)
    try:
        yield running
    finally:
        running.stop()
