"""Closed-form bounds against hand computations."""

from __future__ import annotations

from bench.scenario import Engine, EngineKind
from bench.sizing.bounds import bounds


def engine(kv_tokens: int = 444_000, seqs: int = 256) -> Engine:
    return Engine(name="x", kv_tokens=kv_tokens, max_num_seqs=seqs, max_model_len=16384)


def test_kv_cache_binds_before_max_num_seqs() -> None:
    found = bounds(engine(), 5500)  # whole blocks of 16: 5,504 tokens
    assert (found.running, found.running_by) == (80, "KV cache")
    assert found.cached_users == 80
    assert (found.fits, found.full_contexts) == (True, 27)


def test_max_num_seqs_binds_for_short_contexts() -> None:
    found = bounds(engine(seqs=64), 512)
    assert (found.running, found.running_by) == (64, "max_num_seqs")
    assert found.cached_users == 867


def test_unknown_capacity_stays_unknown() -> None:
    attached = Engine(
        name="x", kind=EngineKind.attached, url="http://x/v1", gpu="x", max_num_seqs=64
    )
    found = bounds(attached, 512)
    assert (found.fits, found.full_contexts, found.cached_users) == (None, None, None)
    assert found.running == 64


def test_a_cache_below_one_context_does_not_fit() -> None:
    small = engine()
    small.kv_tokens = 10_000
    assert bounds(small, 512).fits is False
