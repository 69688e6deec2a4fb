"""The sampler's thread: what it writes, what it sends, and who hears of its end."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.engine.sampler import Sampler
from bench.errors import EngineError, RecordError
from bench.record import EngineSample
from bench.run import Endpoint

LIMIT_S = 20.0


class Metrics(http.server.ThreadingHTTPServer):
    """Answers /metrics with `status`; `keys` holds the Authorization headers."""

    def __init__(self) -> None:
        self.status = 200
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Answer)

    def endpoint(self, **changes: Any) -> Endpoint:
        root = f"http://127.0.0.1:{self.server_port}"
        facts: dict[str, Any] = {
            "base_url": f"{root}/v1",
            "metrics_url": f"{root}/metrics",
            "model": "m",
        }
        return Endpoint(**(facts | {"simulated": False, "label": "e"} | changes))


class Answer(http.server.BaseHTTPRequestHandler):
    server: Metrics

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        content = b"vllm:num_requests_running 3\n"
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metrics]:
    for name in ("HTTP_PROXY", "http_proxy"):  # a proxy that is not there
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Metrics() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(LIMIT_S)


def until(holds: Callable[[], object]) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit_s, "waited too long"
        time.sleep(0.01)


def test_samples_go_past_a_proxy_with_the_key(
    metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_TEST_KEY", "sesame")
    path = tmp_path / "engine.jsonl"
    with Sampler(metrics.endpoint(key_env="BENCH_TEST_KEY"), path) as sampler:
        sampler.point = "u1"
        until(lambda: path.exists() and path.read_bytes().count(b"\n"))
    assert sampler.failed == 0
    first = msgspec.json.decode(path.read_bytes().splitlines()[0], type=EngineSample)
    assert (first.point, first.running, first.waiting) == ("u1", 3.0, None)
    assert set(metrics.keys) == {"Bearer sesame"}


def test_a_failed_scrape_is_counted_and_writes_nothing(metrics: Metrics, tmp_path: Path) -> None:
    metrics.status = 401
    with Sampler(metrics.endpoint(), tmp_path / "engine.jsonl") as sampler:
        sampler.point = "u1"
        until(lambda: sampler.failed)
    assert (tmp_path / "engine.jsonl").read_bytes() == b""


def test_what_ends_the_thread_is_raised_by_check_and_by_the_end(metrics: Metrics) -> None:
    sampler = Sampler(metrics.endpoint(), Path("/dev/full"))
    with pytest.raises(RecordError, match="No space left"), sampler:
        sampler.point = "u1"
        with pytest.raises(RecordError, match="No space left"):
            until(sampler.check)


def test_any_other_exception_ends_it_as_loudly(
    metrics: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("bench.engine.sampler.sample", broken)
    with (
        pytest.raises(TypeError, match="a defect"),
        Sampler(metrics.endpoint(), tmp_path / "engine.jsonl") as sampler,
    ):
        sampler.point = "u1"
        until(sampler.check)


def test_a_missing_key_is_told_before_the_start(metrics: Metrics, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="BENCH_TEST_NONE"):
        Sampler(metrics.endpoint(key_env="BENCH_TEST_NONE"), tmp_path / "engine.jsonl")
