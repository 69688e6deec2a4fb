"""Continuous batching, as vLLM does it: one token budget a step, shared by all sequences.

Each step takes the running sequences first (a decoding one costs one token, a prefilling one a
chunk), then admits waiting requests in order of arrival, up to `max_num_seqs`. The step lasts what
the law says; its tokens appear at its end. Pure: no clock, no I/O; the caller says what time it
is. The real-time server and the replay on a virtual clock drive this same code.

Two seams for the full core (methods.md section 7): `_admit` reserves the blocks of prompt and
longest answer at once, so nothing is ever preempted; `advance` runs step by step, where steps that
admit and finish nothing could be advanced together (a `Tokens` event already carries a span).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bench.scenario import Engine
from bench.simulator.blocks import Allocation, Blocks
from bench.simulator.steptime import MS_PER_S, StepClock


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One completion to serve.

    output_tokens: what will be generated; max_tokens: what the caller allows (room is reserved
    for it). hashes: chained hashes of the full blocks of prompt and output.
    """

    id: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    hashes: Sequence[int] = ()


class Tokens(NamedTuple):
    """`new_tokens` of one request, spread evenly from first_s to last_s.

    cached_tokens of its prompt came from the cache; it left the queue at admitted_s.
    """

    id: int
    new_tokens: int
    first_s: float
    last_s: float
    finished: bool
    cached_tokens: int
    admitted_s: float


class _Sequence(msgspec.Struct, eq=False):
    request: Request
    ready_s: float
    allocation: Allocation | None = None
    admitted_s: float = math.nan
    cached_tokens: int = 0
    computed: int = 0  # tokens whose KV is there, the cached ones included
    produced: int = 0
    chunk: int = 0  # tokens of the step under way


class Scheduler:
    """One engine replica. `add`, `cancel` and `advance` take a time that never goes back."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.blocks = Blocks(engine.kv_tokens, engine.block_size, engine.prefix_caching)
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self._clock = StepClock(engine.step, seed)
        self._request_s = engine.step.request / MS_PER_S
        self._budget = engine.max_num_batched_tokens
        self._max_seqs = engine.max_num_seqs
        self._max_model_len = engine.max_model_len
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._step: list[_Sequence] = []  # the members of the step under way
        self._step_end_s: float | None = None
        self._now_s = -math.inf

    @property
    def running(self) -> int:
        """Admitted requests."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that are not admitted yet."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks that running requests hold, 0 to 1."""
        return self.blocks.used / self.blocks.capacity if self.blocks.capacity else 0.0

    def refusal(self, prompt_tokens: int, max_tokens: int) -> str:
        """Why such a request can never be served; empty when it can."""
        if prompt_tokens < 1 or max_tokens < 1:
            return "a request needs at least one prompt token and one output token"
        if prompt_tokens + max_tokens > self._max_model_len:
            return (
                f"This model's maximum context length is {self._max_model_len} tokens. However, "
                f"you requested {max_tokens} output tokens and your prompt contains "
                f"{prompt_tokens} input tokens. Please reduce the length of the input prompt or "
                "the number of requested output tokens."
            )
        if self.blocks.blocks_of(prompt_tokens + max_tokens) > self.blocks.capacity:
            return f"the KV cache holds only {self.blocks.capacity} blocks"
        return ""

    def add(self, request: Request, now_s: float) -> None:
        """Queue a request. Raises ValueError when `refusal` has a reason."""
        reason = self.refusal(request.prompt_tokens, request.max_tokens)
        if reason or not 1 <= request.output_tokens <= request.max_tokens:
            raise ValueError(reason or "output_tokens must lie between 1 and max_tokens")
        if self._step_end_s is None:
            self._now_s = max(self._now_s, now_s)
        self._waiting.append(_Sequence(request, now_s + self._request_s))

    def cancel(self, id: int) -> bool:
        """Drop a request and free its blocks; False when it is not here (any more)."""
        for sequence in self._waiting:
            if sequence.request.id == id:
                self._waiting.remove(sequence)
                return True
        for sequence in self._running:
            if sequence.request.id == id:
                self._finish(sequence)
                if sequence in self._step:
                    self._step.remove(sequence)
                return True
        return False

    def next_s(self) -> float | None:
        """When `advance` will next have something to do; None when there is nothing left."""
        if self._step_end_s is not None:
            return self._step_end_s
        if self._running:
            return self._now_s
        return max(self._now_s, self._waiting[0].ready_s) if self._waiting else None

    def advance(self, until_s: float) -> list[Tokens]:
        """Run every step that ends by until_s and start the one after; their tokens in order."""
        events: list[Tokens] = []
        while True:
            if self._step_end_s is None:
                start_s = self.next_s()
                if start_s is None or start_s > until_s or not self._start(start_s):
                    break
            assert self._step_end_s is not None
            if self._step_end_s > until_s:
                break
            self._now_s = self._step_end_s
            events += self._end(self._step_end_s)
        self._now_s = max(self._now_s, until_s)
        return events

    def _start(self, now_s: float) -> bool:
        """Compose the step that begins now; False when nothing can run."""
        budget = self._budget
        self._step = []
        for sequence in self._running:
            budget -= self._schedule(sequence, budget)
        while budget > 0 and len(self._running) < self._max_seqs and self._waiting:
            admitted = self._admit(self._waiting[0], now_s)
            if not admitted:
                break
            budget -= self._schedule(self._running[-1], budget)
        if not self._step:
            return False
        chunks: list[tuple[int, int]] = []
        decoding = kv_tokens = 0
        for sequence in self._step:
            if sequence.computed < sequence.request.prompt_tokens:
                chunks.append((sequence.chunk, sequence.computed))
            else:
                decoding += 1
                kv_tokens += sequence.computed
        self._step_end_s = now_s + self._clock.step_s(chunks, decoding, kv_tokens)
        return True

    def _schedule(self, sequence: _Sequence, budget: int) -> int:
        """Give a sequence its tokens of this step; how many of the budget it took."""
        left = sequence.request.prompt_tokens - sequence.computed
        sequence.chunk = min(left, budget) if left > 0 else min(1, budget)
        if sequence.chunk > 0:
            self._step.append(sequence)
        return sequence.chunk

    def _admit(self, sequence: _Sequence, now_s: float) -> bool:
        """Admit the head of the queue if it is ready and its blocks are there.

        Seam: with preemption by recompute only the prompt's blocks are taken here, and a decoding
        sequence that finds no block preempts the last admitted one.
        """
        if sequence.ready_s > now_s:
            return False
        request = sequence.request
        allocation = self.blocks.reserve(
            request.hashes, request.prompt_tokens, request.prompt_tokens + request.max_tokens
        )
        if allocation is None:
            return False
        self._waiting.popleft()
        sequence.allocation = allocation
        sequence.admitted_s = now_s
        sequence.cached_tokens = allocation.cached_blocks * self.blocks.block_size
        sequence.computed = sequence.cached_tokens
        self.prefix_queries += request.prompt_tokens
        self.prefix_hits += sequence.cached_tokens
        self._running.append(sequence)
        return True

    def _end(self, now_s: float) -> list[Tokens]:
        """Close the step under way: KV is there, prefilled and decoding sequences got a token."""
        events: list[Tokens] = []
        for sequence in self._step:
            request = sequence.request
            prefilling = sequence.computed < request.prompt_tokens
            sequence.computed += sequence.chunk
            if prefilling:
                assert sequence.allocation is not None
                self.blocks.publish(sequence.allocation, request.hashes, sequence.computed)
                if sequence.computed < request.prompt_tokens:
                    continue
            sequence.produced += 1
            finished = sequence.produced == request.output_tokens
            events.append(
                Tokens(
                    id=request.id,
                    new_tokens=1,
                    first_s=now_s,
                    last_s=now_s,
                    finished=finished,
                    cached_tokens=sequence.cached_tokens,
                    admitted_s=sequence.admitted_s,
                )
            )
            if finished:
                self._finish(sequence)
        self._step = []
        self._step_end_s = None
        return events

    def _finish(self, sequence: _Sequence) -> None:
        """Leave the batch; the blocks computed so far stay in the cache."""
        self._running.remove(sequence)
        assert sequence.allocation is not None
        self.blocks.publish(sequence.allocation, sequence.request.hashes, sequence.computed)
        self.blocks.release(sequence.allocation)
