"""Locust's own faces: its web page beside a point, and a plain `locust -f`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from bench.errors import LoadError
from bench.load.drive import HostProcess, drive_point
from bench.load.spec import HostSpec, point_spec, write_spec
from bench.load.status import HostStatus
from bench.process import free_port
from bench.record import EpisodeRecord, ScheduledRecord

LOCUSTFILE = Path(__file__).parents[2] / "scenarios" / "contracts" / "locustfile.py"


def lines(spec: HostSpec, name: str) -> list[bytes]:
    return (spec.run_dir / name).read_bytes().splitlines()


def test_the_page_shows_episodes_and_ttft(host: HostProcess) -> None:
    spec = host.spec
    port = free_port()
    load_spec = msgspec.structs.replace(point_spec(spec, "u3", 3), web=True, web_port=port)
    shown: set[tuple[str, str]] = set()

    def watch(status: HostStatus) -> None:
        if status.done > 3 and not shown:
            page = httpx.get(f"http://127.0.0.1:{port}/stats/requests", timeout=5.0).json()
            shown.update((row["method"], row["name"]) for row in page["stats"])

    drive_point(host, load_spec, spec.scenario.load, spec.run_dir / "locust.log", watch)
    assert shown >= {("episode", "react_1"), ("ttft", "react_1")}


@pytest.mark.parametrize(
    ("button", "data"), [("stop", {}), ("swarm", {"user_count": "7", "spawn_rate": "7"})]
)
def test_a_pressed_button_is_told(host: HostProcess, button: str, data: dict[str, str]) -> None:
    spec = host.spec
    port = free_port()
    load_spec = msgspec.structs.replace(point_spec(spec, "u3", 3), web=True, web_port=port)
    load = replace(spec.scenario.load, duration_s=30.0)
    pressed: list[int] = []

    def watch(status: HostStatus) -> None:
        if status.done > 3 and not pressed:
            url = f"http://127.0.0.1:{port}/{button}"
            with httpx.Client(trust_env=False, timeout=10.0) as page:
                pressed.append(page.post(url, data=data).status_code)

    with pytest.raises(LoadError, match=r"point=u3: was stopped or changed in Locust's page"):
        drive_point(host, load_spec, load, spec.run_dir / "locust.log", watch)
    assert pressed == [200]


def test_a_taken_port_is_told(host: HostProcess) -> None:
    spec = host.spec
    with pytest.raises(LoadError, match=r"load\.web_port=.*set load\.web_port"):
        taken = int(spec.endpoint.base_url.split(":")[-1].split("/")[0])
        load_spec = msgspec.structs.replace(point_spec(spec, "u3", 3), web=True, web_port=taken)
        log = spec.run_dir / "locust.log"
        drive_point(host, load_spec, spec.scenario.load, log, lambda status: None)


def test_plain_locust_on_a_running_host(host: HostProcess) -> None:
    spec = host.spec
    path = spec.run_dir / "load.json"
    write_spec(path, point_spec(spec, "plain", 2))
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "-u", "2"]
    environment = {**os.environ, "REACT_BENCH_LOAD": str(path)}
    log = (spec.run_dir / "plain.log").open("wb")
    with log, subprocess.Popen(command, env=environment, stderr=log, stdout=log) as locust:
        limit = time.monotonic() + 60.0
        while host.status().done < 3 and time.monotonic() < limit and locust.poll() is None:
            time.sleep(0.05)
        locust.terminate()
        assert locust.wait(20.0) == 0, (spec.run_dir / "plain.log").read_text()
    host.cut()
    episodes = [msgspec.json.decode(x, type=EpisodeRecord) for x in lines(spec, "episodes-0.jsonl")]
    scheduled = [
        msgspec.json.decode(x, type=ScheduledRecord) for x in lines(spec, "scheduled-0.jsonl")
    ]
    assert len(episodes) > 2
    assert {(e.point, e.user) for e in episodes} <= {("plain", 0), ("plain", 1)}
    assert sorted((e.user, e.episode) for e in episodes) == sorted(
        (s.user, s.episode) for s in scheduled
    )
