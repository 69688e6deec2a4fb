"""The whole path once: null server, Locust, socket, host, client, records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.proof import ProofLevel, SelfTest
from bench.run import SELFTEST
from bench.selftest import cached, climb, copy_into, store
from bench.selftest.ladder import Ladder, Rung
from bench.selftest.table import as_json, conclusion, line, tables
from makers import make_proof_level, make_selftest

LADDER = Ladder(
    rungs=(
        Rung(prompt_tokens=500, streams=(2, 3)),
        Rung(prompt_tokens=500, streams=(2,), burst=True),
    ),
    measured_s=1.0,
    quick=True,
    answer_tokens=5,
    ttft_s=0.05,
    itl_s=0.02,
)


def test_climb(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[ProofLevel] = []
    test = climb(LADDER, {"cpu": "c"}, {"python": "3"}, seen.append)
    assert [level.streams for level in test.levels] == [2, 3]
    assert [level.burst for level in seen] == [False, False, True]
    assert [level.streams for level in test.bursts] == [2]
    for level in seen:
        assert level.requests > 0 and level.failed == 0 and level.error == ""
        assert level.ttft_added_ms_p50 is not None and level.ttft_added_ms_p50 > 0
        assert level.token_lag_ms_p50 is not None and level.token_lag_ms_p50 > 0
        assert level.events_per_s > 0
    assert test.quick and test.machine == {"cpu": "c"}


def test_one_result_per_machine_and_version(tmp_path: Path) -> None:
    test = make_selftest(make_proof_level(10))
    store(tmp_path, test)
    assert cached(tmp_path, test.machine, test.versions) == test
    assert cached(tmp_path, test.machine, {**test.versions, "scipy": "2"}) == test
    assert cached(tmp_path, test.machine, {**test.versions, "react-bench": "0.2.0"}) is None
    assert cached(tmp_path, {"cpu": "d"}, test.versions) is None
    run, other = tmp_path / "run", tmp_path / "other"
    copy_into(run, tmp_path, test.machine, test.versions)
    assert msgspec.json.decode((run / SELFTEST).read_bytes(), type=SelfTest) == test
    copy_into(other, tmp_path, {"cpu": "d"}, test.versions)
    assert not other.exists()


def test_a_damaged_result_is_none(tmp_path: Path) -> None:
    test = make_selftest()
    store(tmp_path, test).write_text("{")
    assert cached(tmp_path, test.machine, test.versions) is None


def test_what_is_shown() -> None:
    test = make_selftest(
        make_proof_level(100),
        make_proof_level(500, 9.0, client_cpu=0.95),
        make_proof_level(20, ttft_added_ms_p99=None, client_cpu=None, prompt_tokens=16_000),
        bursts=[make_proof_level(50, burst=True)],
    )
    staggered, burst = tables(test)
    assert (staggered.row_count, burst.row_count) == (3, 1)
    said = conclusion(test).splitlines()
    assert said[0].endswith("100 streams, 2,000 events/s; above it the client was the limit.")
    assert "16,000 tokens: none below 5 ms" in said[1]
    assert "burst" in line(test.bursts[0])
    shown = msgspec.json.decode(as_json(test))
    assert shown["schema"] == "react-bench/selftest/1"
    wanted = {
        "streams", "events_per_s", "ttft_added_ms_p50", "ttft_added_ms_p99",
        "token_lag_ms_p99", "client_cpu",
    }  # fmt: skip
    assert all(wanted <= set(level) for level in shown["levels"])
    assert [level["streams"] for level in shown["largest"]] == [100]
