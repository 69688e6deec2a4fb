"""Runs against servers of somebody else that are not what they seem."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import EngineError, ToolError
from bench.process import free_port
from gateway import Gateway, serving

LIMIT_S = 100
NO_KEY = '{"error": {"message": "no such key"}}'
WORDS = [
    "scenario=single", "engine=attached", "engine.gpu=H100", "engine.tensor_parallel=1",
    "workload=react_2", "workload.mix.selection=0", "workload.material=seed_reference",
    "tools=seed_delays", "load.users=[2]", "load.duration_s=2", "load.hold_s=3",
    "load.grid_repeats=0", "load.think_time_s=0.1",
]  # fmt: skip


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving() as server:
        yield server


def run(gateway: Gateway, results: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "run", *WORDS, f"engine.url={gateway.url}"]
    return subprocess.run(
        [*command, f"results={results}", *words], capture_output=True, text=True, timeout=LIMIT_S
    )


def test_a_run_without_one_answer_is_reported_but_is_no_success(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.status, gateway.answer, gateway.good = 401, NO_KEY, 1  # it answers the probe only
    done = run(gateway, tmp_path)
    assert done.returncode == EngineError.exit_code, done.stderr
    (directory,) = (tmp_path / "single").iterdir()
    assert json.loads((directory / "manifest.json").read_bytes())["status"] == "complete"
    assert done.stdout.strip() == f"report: {directory}/analysis/report.html"
    last = done.stderr.strip().splitlines()[-1]
    calls = len(gateway.asked) - 1
    assert last.startswith(f"EngineError: run={directory.name}: none of its {calls} model calls")
    assert "transport_error: HTTP 401: no such key" in last


def test_an_engine_that_refuses_chats_is_found_before_the_load(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.status, gateway.answer = 401, NO_KEY
    done = run(gateway, tmp_path)
    assert done.returncode == EngineError.exit_code
    assert "gives no chat completion of 'm' (HTTP 401: no such key" in done.stderr
    assert len(gateway.asked) == 1


def test_attached_tools_are_tried_before_the_engine(gateway: Gateway, tmp_path: Path) -> None:
    port = free_port()
    done = run(
        gateway,
        tmp_path,
        "tools=attached",
        f"tools.sql.dsn=postgresql://nobody@127.0.0.1:{port}/none",
        f"tools.vector.url=http://127.0.0.1:{port}",
        f"tools.web.url=http://127.0.0.1:{port}",
        "tools.sql.tables=[public.t]",
    )
    assert done.returncode == ToolError.exit_code, done.stderr
    assert f"ToolError: tools.sql.dsn=postgresql://nobody@127.0.0.1:{port}/none" in done.stderr
    assert not gateway.asked
    assert not (tmp_path / "single").exists()
