"""The simulated engine: `bench.simulator.server` in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from bench.engine.health import check_port, check_process, never_healthy, wait_until_healthy
from bench.engine.running import RunningEngine
from bench.errors import EngineError
from bench.process import Process, free_port
from bench.run import Endpoint, write_atomically
from bench.scenario import Engine
from bench.simulator.profile import VERSION, Profile, profile_hash


def start_simulated(
    engine: Engine, material_dir: Path, directory: Path, seed: int
) -> RunningEngine:
    """Write engine-profile.json, start the server, wait until it answers. Raises EngineError."""
    if engine.replicas != 1:
        raise EngineError(
            f"engine.replicas={engine.replicas}",
            "the simulated server is one replica",
            "set engine.replicas=1; several replicas are compared in the sizing plan",
        )
    if engine.port:
        check_port(engine.host, engine.port)
    port = engine.port or free_port(engine.host)
    profile = Profile(
        engine=engine, material=str(material_dir), seed=seed, host=engine.host, port=port
    )
    path = directory / "engine-profile.json"
    write_atomically(path, msgspec.json.format(msgspec.json.encode(profile), indent=1))
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    process = Process(
        "engine",
        [sys.executable, "-m", "bench.simulator.server", str(path)],
        directory / "logs" / "engine.log",
    )
    endpoint = Endpoint(
        base_url=f"http://{engine.host}:{port}/v1",
        metrics_url=f"http://{engine.host}:{port}/metrics",
        model=engine.model or engine.name,
        simulated=True,
        label=f"{engine.name} (simulated)",
        profile_hash=profile_hash(engine),
        version=VERSION,
    )
    try:
        wait_until_healthy(
            endpoint.base_url,
            engine.start_timeout_s,
            {},
            lambda: check_process(process, engine.name),
            lambda: never_healthy(engine.name, engine.start_timeout_s, process.last_words()),
        )
    except BaseException:
        process.stop()
        raise
    return RunningEngine(endpoint, engine.name, process)
