"""Closed-form bounds of a replica, before any simulation (methods.md section 8).

    N_run   = KV tokens / context of a running request      hard: beyond it requests queue
    N_cache = KV tokens / context of a user                 soft: beyond it prefixes are evicted
    fits    = KV tokens hold at least one full context

KV tokens come with the engine (`engine.kv_tokens`; `bench.simulator.memory` has the formula). A
user's context counts whether the user waits for a tool or for the engine.
"""

from __future__ import annotations

import math

import msgspec

from bench.scenario import Engine


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Of one replica. None: the engine's KV capacity is not known."""

    fits: bool | None
    full_contexts: int | None  # sequences of max_model_len that the KV cache holds
    running: int  # hard: requests that run at once, min(N_run, max_num_seqs)
    running_by: str  # which of the two it is: "KV cache" or "max_num_seqs"
    cached_users: int | None  # soft: N_cache


def bounds(engine: Engine, context_tokens: float) -> Bounds:
    """Bounds of one replica of `engine` whose requests hold `context_tokens` on average."""
    seqs = engine.max_num_seqs
    if engine.kv_tokens <= 0:
        return Bounds(
            fits=None,
            full_contexts=None,
            running=seqs,
            running_by="max_num_seqs",
            cached_users=None,
        )
    held_tokens = _whole_blocks(context_tokens, engine.block_size)
    by_memory = engine.kv_tokens // held_tokens
    return Bounds(
        fits=engine.kv_tokens >= engine.max_model_len,
        full_contexts=engine.kv_tokens // engine.max_model_len,
        running=min(by_memory, seqs),
        running_by="KV cache" if by_memory < seqs else "max_num_seqs",
        cached_users=by_memory,
    )


def _whole_blocks(tokens: float, block_size: int) -> int:
    return max(1, math.ceil(tokens / block_size)) * block_size
