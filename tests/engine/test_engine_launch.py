"""Launching: the simulated server in its own process, attached URLs, and all that goes wrong."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import httpx
import msgspec
import pytest

from bench.engine import launch
from bench.errors import EngineError
from bench.scenario import Engine, EngineKind, StepTime
from bench.simulator.profile import Profile, profile_hash

LAW = StepTime(a=1, floor=1, b=0.001)


def engine(**options: object) -> Engine:
    values: dict[str, object] = {
        "name": "sim",
        "model": "m",
        "kv_tokens": 20000,
        "step": LAW,
        "start_timeout_s": 60.0,
    }
    return Engine(**{**values, **options})  # type: ignore[arg-type] # a mapping of mixed types


def attached(url: str, **options: object) -> Engine:
    values: dict[str, object] = {
        "kind": EngineKind.attached,
        "name": "att",
        "url": url,
        "gpu": "H100",
        "start_timeout_s": 0.3,
    }
    return Engine(**{**values, **options})  # type: ignore[arg-type] # a mapping of mixed types


def test_the_simulated_engine_answers_says_so_and_ends(tmp_path: Path) -> None:
    with launch(engine(), tmp_path, tmp_path, 1) as running:
        endpoint = running.endpoint
        running.check()
        assert endpoint.simulated
        assert "simulated" in endpoint.label
        request = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20}
        with httpx.Client(trust_env=False, timeout=30) as client:
            answer = client.post(f"{endpoint.base_url}/chat/completions", json=request)
            assert answer.json()["system_fingerprint"] == f"simulated-{endpoint.profile_hash}"
            assert client.get(endpoint.metrics_url).status_code == 200
        with launch(attached(endpoint.base_url), tmp_path, tmp_path, 1) as again:
            assert again.pid is None
            assert again.endpoint.model == "m"
            assert again.endpoint.simulated
            assert again.endpoint.metrics_url == endpoint.metrics_url
            assert again.endpoint.version == endpoint.version
        root = endpoint.base_url.removesuffix("/v1")
        with (
            pytest.raises(EngineError, match=f"not at /models.*set engine.url={root}/v1"),
            launch(attached(root), tmp_path, tmp_path, 1),
        ):
            pass
        assert httpx.get(f"{endpoint.base_url}/models", trust_env=False).is_success
        pid = running.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + 20
        with pytest.raises(EngineError, match="exit code -9"):
            while time.monotonic() < deadline_s:
                running.check()
                time.sleep(0.01)
    assert (tmp_path / "engine-profile.json").exists()


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(EngineError, match=f"engine.port={port}.*in use.*engine.port=0"),
            launch(engine(port=port), tmp_path, tmp_path, 1),
        ):
            pass


def test_an_engine_that_never_becomes_healthy_is_ended_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho loading weights; echo $$ > " + f"{tmp_path}/pid; sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    with (
        pytest.raises(EngineError, match=r"not healthy within 1\.5 s.*loading weights"),
        launch(engine(start_timeout_s=1.5), tmp_path, tmp_path, 1),
    ):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_damaged_material_is_told_by_the_servers_last_words(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{")
    with (
        pytest.raises(EngineError, match=r"exit code.*is not a task"),
        launch(engine(), tmp_path, tmp_path, 1),
    ):
        pass


def test_several_simulated_replicas_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match="replicas=2"),
        launch(engine(replicas=2), tmp_path, tmp_path, 1),
    ):
        pass


def test_a_url_where_nobody_answers(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match="no good answer"),
        launch(attached("http://127.0.0.1:9/v1"), tmp_path, tmp_path, 1),
    ):
        pass


def test_a_key_that_is_not_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_TEST_KEY", raising=False)
    with (
        pytest.raises(EngineError, match="BENCH_TEST_KEY"),
        launch(attached("http://127.0.0.1:9/v1", key_env="BENCH_TEST_KEY"), tmp_path, tmp_path, 1),
    ):
        pass


def test_the_profile_hash_is_of_what_shapes_the_times() -> None:
    one = engine()
    again = msgspec.json.decode(
        msgspec.json.encode(Profile(engine=one, port=1)), type=Profile
    ).engine
    assert profile_hash(one) == profile_hash(again) == profile_hash(engine(port=5))
    assert profile_hash(one) != profile_hash(engine(kv_tokens=20001))
    assert len(profile_hash(one)) == 12
