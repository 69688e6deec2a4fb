"""The comparison: what it computes, what it reads, and the plain reason when a peer is absent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bench.selftest.bare import Seen, run_bare
from bench.selftest.bed import start_null_server
from bench.selftest.compare import TOKENS, Compared, compare, judge, table
from bench.selftest.endurance import hold, repeat
from bench.selftest.null_server import Entry
from bench.selftest.peers import PEERS, Peer, Unavailable, Work, run_peer
from makers import MS

WORK = Work(url="http://127.0.0.1:1/v1", streams=2, requests=4, tokens=TOKENS)


def test_errors_are_against_what_the_server_did() -> None:
    entries = [Entry(n, 0, 5, 0, 100 * MS, 0, 300 * MS, 0) for n in range(4)]
    made = judge("ours", 2, Seen([103.0] * 4, [50.5] * 4), entries, 1.5)
    assert made.ttft_error_ms == pytest.approx((3.0, 3.0))
    assert made.tpot_error_ms == pytest.approx((0.5, 0.5))
    assert made.events_per_s == pytest.approx(4 * 5 / 0.2) and made.requests == 4
    assert judge("ours", 2, Seen([], []), entries, 1.5).reason


def test_a_peer_that_cannot_be_installed_is_skipped_with_its_reason(tmp_path: Path) -> None:
    peer = PEERS[0]
    with pytest.raises(Unavailable, match="guidellm"):
        (tmp_path / "hub/hub/models--bench--null/snapshots" / ("0" * 40)).mkdir(parents=True)
        (tmp_path / "hub/hub/models--bench--null/snapshots" / ("0" * 40) / "tokenizer.json").touch()
        run_peer(peer, tmp_path, tmp_path, WORK)
    shown = table([Compared(client=peer.name, streams=2, reason="no such package")])
    assert shown.row_count == 1


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.package)
def test_each_command_names_server_streams_and_requests(peer: Peer, tmp_path: Path) -> None:
    words = " ".join(peer.command(WORK, tmp_path, tmp_path))
    assert "http://127.0.0.1:1" in words and ("streams=2" in words or " 2 " in words)
    assert "4" in words and str(TOKENS) in words


def test_what_the_peers_write_is_read(tmp_path: Path) -> None:
    row = {"time_to_first_token_ms": 101.0, "inter_token_latency_ms": 49.0}
    guidellm = {"benchmarks": [{"requests": {"successful": [row]}}]}
    (tmp_path / "guidellm.json").write_text(json.dumps(guidellm))
    metrics = {"time_to_first_token": {"value": 102.0}, "inter_token_latency": {"value": 50.0}}
    lines = [{"metrics": metrics}, {"metrics": {}}]
    (tmp_path / "profile_export.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "vllm.json").write_text(json.dumps({"ttfts": [0.103], "itls": [[0.05, 0.052], []]}))
    read = [peer.read(tmp_path) for peer in PEERS]
    assert [seen.ttft_ms for seen in read] == [[101.0], [102.0], [pytest.approx(103.0)]]
    assert read[2].tpot_ms == [pytest.approx(51.0)]


def test_the_bare_protocol_and_endurance_against_the_null_server(tmp_path: Path) -> None:
    with start_null_server(tmp_path, 0.3, 0.002) as server:
        seen = asyncio.run(asyncio.wait_for(run_bare(server.url, 3, 7, 4), 30.0))
        assert len(seen.ttft_ms) == len(seen.tpot_ms) == 7 and min(seen.ttft_ms) >= 300
        assert asyncio.run(asyncio.wait_for(hold(server.url, 5), 30.0)) == 5
    with start_null_server(tmp_path, 0.001, 0.0) as server:
        failed, _, early, late = asyncio.run(asyncio.wait_for(repeat(server.url, 300), 30.0))
        assert failed == 0 and early > 0 and late > 0


def test_compare_without_peers_still_compares(tmp_path: Path) -> None:
    bare, ours = compare([2], ["none"], tmp_path, lambda text: None)
    assert (bare.client, ours.client) == ("bare protocol", "react-bench")
    assert (bare.reason, ours.reason) == ("", "")
    assert bare.requests == 6 and ours.requests >= 6
    assert ours.reported_ttft_ms is not None and ours.reported_ttft_ms[0] >= 100
