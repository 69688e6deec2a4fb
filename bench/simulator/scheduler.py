"""Continuous batching, as vLLM does it: one token budget a step, shared by all sequences.

Each step takes the running sequences first (a decoding one costs one token, a prefilling one a
chunk), then admits waiting requests in order of arrival, up to `max_num_seqs`, when the blocks of
the whole prompt are there. A decoding sequence takes its next block when it needs it; when there
is none, the last admitted sequence is preempted: it gives up its blocks, goes back to the head of
the queue, and computes its prompt and its output so far again. No livelock: the first admitted
sequence is preempted last, and alone it fits, because `refusal` keeps out what could never fit.

The step lasts what the law says; its tokens appear at its end. Steps in which nothing is admitted,
finished or preempted are one Stretch, so cost follows events, not tokens. Pure: no clock, no I/O;
the caller says what time it is. The real-time server and the virtual clock drive this same code.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import msgspec

from bench.scenario import Engine
from bench.simulator.blocks import Allocation, Blocks, Hashes
from bench.simulator.decoding import Decoding
from bench.simulator.steptime import MS_PER_S, Jitter, Stretch, step_ms


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One completion to serve.

    output_tokens: what will be generated; max_tokens: what the caller allows. hashes: chained
    hashes of the full blocks of prompt and output (see bench.simulator.blocks).
    """

    id: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    hashes: Hashes = ()


class Tokens(NamedTuple):
    """`new_tokens` of one request, the last of them at at_s.

    cached_tokens of its prompt came from the cache; it first left the queue at admitted_s.
    """

    id: int
    new_tokens: int
    at_s: float
    finished: bool
    cached_tokens: int
    admitted_s: float


class _Sequence:
    """A request on its way. `target`: tokens to compute before its next token can be sampled."""

    __slots__ = (
        "admitted_s", "allocation", "cached_tokens", "computed", "context", "decoding", "ends",
        "joined", "place", "produced", "ready_s", "reported", "request", "target",
    )  # fmt: skip

    def __init__(self, request: Request, ready_s: float) -> None:
        self.request = request
        self.ready_s = ready_s
        self.allocation: Allocation | None = None
        self.admitted_s = math.nan
        self.cached_tokens = 0
        self.target = request.prompt_tokens
        self.computed = 0  # of the target; the cached ones included
        self.produced = 0  # before it began to decode
        self.reported = 0
        self.decoding = False
        self.place = self.context = self.joined = self.ends = 0


class Scheduler:
    """One engine replica. `add`, `cancel` and `advance` take a time that never goes back.

    each_token: report every token, as a server must, or only each request's first one and its end.
    """

    def __init__(self, engine: Engine, seed: int, each_token: bool = True) -> None:
        self.blocks = Blocks(engine.kv_tokens, engine.block_size, engine.prefix_caching)
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self.steps = 0  # forward passes that have ended
        self._law = engine.step
        self._jitter = Jitter(engine.step.jitter_cv, seed)
        self._each_token = each_token
        self._request_s = engine.step.request / MS_PER_S
        self._budget = engine.max_num_batched_tokens
        self._max_seqs = min(engine.max_num_seqs, self._budget)  # vLLM refuses a smaller budget
        self._max_model_len = engine.max_model_len
        self._waiting: deque[_Sequence] = deque()
        self._running: dict[int, _Sequence] = {}  # in order of admission
        self._prefilling: list[_Sequence] = []  # in the same order; all came after the decoding
        self._decoding: Decoding[_Sequence] = Decoding(engine.block_size)
        self._chunks: list[tuple[_Sequence, int]] = []  # of the step under way
        self._stretch: Stretch | None = None  # under way
        self._ended = 0  # steps of it that have ended
        self._places = 0
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
        ready_s = now_s + self._request_s
        if self._stretch is None:
            self._now_s = max(self._now_s, now_s)
        elif not self._waiting and len(self._running) < self._max_seqs:
            self._stretch.cut(ready_s)
            self._stretch.steps = max(self._stretch.steps, self._ended + 1)
        self._waiting.append(_Sequence(request, ready_s))

    def cancel(self, id: int) -> bool:
        """Drop a request and free its blocks; False when it is not here (any more)."""
        sequence = self._running.get(id)
        if sequence is None:
            sequence = next((one for one in self._waiting if one.request.id == id), None)
            if sequence is None:
                return False
            self._waiting.remove(sequence)
        else:
            self._chunks = [one for one in self._chunks if one[0] is not sequence]
            self._leave(sequence)
        if self._stretch is not None:  # what is left may admit the next one
            self._stretch.steps = min(self._stretch.steps, self._ended + 1)
        return True

    def next_s(self) -> float | None:
        """When `advance` will next have something to tell; None when there is nothing left."""
        if self._stretch is not None:
            return self._stretch.end_s(self._ended + 1 if self._each_token else self._stretch.steps)
        if self._running:
            return self._now_s
        return max(self._now_s, self._waiting[0].ready_s) if self._waiting else None

    def advance(self, until_s: float) -> list[Tokens]:
        """Run every step that ends by until_s and start the one after; their tokens in order."""
        events: list[Tokens] = []
        while True:
            if self._stretch is None:
                start_s = self.next_s()
                if start_s is None or start_s > until_s:
                    break
                self._start(start_s)
            if not self._run(until_s, events):
                break
        self._now_s = max(self._now_s, until_s)
        return events

    def _start(self, now_s: float) -> None:
        """Compose the step that begins now, and all that follow it unchanged."""
        preempted = self._make_room()
        decoding = self._decoding
        budget = self._budget - decoding.count
        chunks = self._chunks = []
        for sequence in self._prefilling:
            budget -= self._chunk(sequence, budget)
        while not preempted and budget > 0 and self._waiting and self._admit(now_s):
            budget -= self._chunk(self._prefilling[-1], budget)
        pairs = [(tokens, sequence.computed) for sequence, tokens in chunks]
        count = decoding.count
        first_ms = step_ms(self._law, pairs, count, decoding.kv_tokens)
        steps = 1
        if not chunks:
            steps = decoding.until_first_end()
            steps = 1 + decoding.most_steps(self.blocks.room, steps - 1)
        growth_ms = self._law.e * count / 1e3
        self._stretch = Stretch(self._jitter, self.steps, now_s, first_ms, growth_ms, steps)
        self._ended = 0
        if steps > 1 and self._waiting and len(self._running) < self._max_seqs:
            ready_s = self._waiting[0].ready_s
            if ready_s > now_s:  # one that is ready waits for blocks, and nothing frees any
                self._stretch.cut(ready_s)

    def _make_room(self) -> bool:
        """Give each decoding sequence the block it needs now; True when one was preempted."""
        decoding, blocks = self._decoding, self.blocks
        preempted = False
        while (needed := decoding.blocks(1)) > blocks.room:
            last = self._running[next(reversed(self._running))]
            self._preempt(last)
            preempted = True
        blocks.take(needed)
        decoding.started += 1
        return preempted

    def _chunk(self, sequence: _Sequence, budget: int) -> int:
        """Give a prefilling sequence its tokens of this step; how many."""
        tokens = min(sequence.target - sequence.computed, budget)
        if tokens > 0:
            self._chunks.append((sequence, tokens))
        return tokens

    def _admit(self, now_s: float) -> bool:
        """Admit the head of the queue if it is ready and there is room for all it must compute."""
        sequence = self._waiting[0]
        if sequence.ready_s > now_s or len(self._running) >= self._max_seqs:
            return False
        request = sequence.request
        allocation = self.blocks.reserve(request.hashes, sequence.target, sequence.target)
        if allocation is None:
            return False
        self._waiting.popleft()
        sequence.allocation = allocation
        sequence.computed = allocation.cached_blocks * self.blocks.block_size
        if math.isnan(sequence.admitted_s):  # not when it comes back from preemption
            sequence.admitted_s = now_s
            sequence.cached_tokens = sequence.computed
            self.prefix_queries += request.prompt_tokens
            self.prefix_hits += sequence.cached_tokens
        self._places += 1
        sequence.place = self._places
        self._running[request.id] = sequence
        self._prefilling.append(sequence)
        return True

    def _run(self, until_s: float, events: list[Tokens]) -> bool:
        """Let the steps under way end, as far as they do by until_s; True when all have."""
        stretch, decoding = self._stretch, self._decoding
        assert stretch is not None
        ended = stretch.ended_by(until_s)
        last = ended == stretch.steps
        new = ended - self._ended
        if self._each_token:
            for step in range(self._ended + 1, ended + (not last)):
                self._report_all(stretch.end_s(step), events)
        if new > 0:
            self.steps += new
            self._ended = ended
            decoding.ended += new
            following = new - last  # steps that have started since
            if following > 0:
                self.blocks.take(decoding.blocks(following))
                decoding.started += following
        if last:
            self._stretch = None
            self._now_s = stretch.end_s(ended)
            self._close(self._now_s, events)
        return last

    def _close(self, now_s: float, events: list[Tokens]) -> None:
        """After the last step of a stretch: who has ended leaves, who has its prompt decodes."""
        leaving = self._decoding.pop_ended()
        if self._each_token:
            self._report_all(now_s, events)
        else:
            for sequence in leaving:
                self._report(sequence, sequence.request.output_tokens, now_s, events)
        for sequence in leaving:
            self._leave(sequence)
        for sequence, tokens in self._chunks:
            sequence.computed += tokens
            assert sequence.allocation is not None
            self.blocks.publish(sequence.allocation, sequence.request.hashes, sequence.computed)
            if sequence.computed == sequence.target:
                self._prefilled(sequence, now_s, events)
        self._chunks = []

    def _prefilled(self, sequence: _Sequence, now_s: float, events: list[Tokens]) -> None:
        """Its prompt is computed: that gave a token, and if it was not the last it decodes."""
        sequence.produced += 1
        left = sequence.request.output_tokens - sequence.produced
        if self._each_token or sequence.reported == 0 or left == 0:
            self._report(sequence, sequence.produced, now_s, events)
        if left == 0:
            self._leave(sequence)
            return
        self._prefilling.remove(sequence)
        sequence.decoding = True
        self._decoding.join(sequence, sequence.target, left)

    def _report_all(self, at_s: float, events: list[Tokens]) -> None:
        """One more token of each decoding sequence, in order of admission."""
        for sequence in self._running.values():
            if sequence.decoding:
                self._report(sequence, sequence.reported + 1, at_s, events)

    def _report(
        self, sequence: _Sequence, produced: int, at_s: float, events: list[Tokens]
    ) -> None:
        request = sequence.request
        new_tokens = produced - sequence.reported
        sequence.reported = produced
        finished = produced == request.output_tokens
        events.append(
            Tokens(
                request.id, new_tokens, at_s, finished, sequence.cached_tokens, sequence.admitted_s
            )
        )

    def _preempt(self, sequence: _Sequence) -> None:
        """Back to the head of the queue; what is still cached when it returns is not redone."""
        self._leave(sequence)
        sequence.target = sequence.request.prompt_tokens + sequence.produced
        self.preemptions += 1
        self._waiting.appendleft(sequence)

    def _leave(self, sequence: _Sequence) -> None:
        """Leave the batch; the blocks computed so far stay in the cache."""
        allocation, decoding = sequence.allocation, self._decoding
        assert allocation is not None
        del self._running[sequence.request.id]
        if sequence.decoding:
            sequence.decoding = False
            sequence.produced += decoding.ended - sequence.joined
            sequence.computed = decoding.computed(sequence)
            taken = self.blocks.blocks_of(decoding.slots(sequence))
            allocation.private += taken - self.blocks.blocks_of(sequence.target)
            decoding.leave(sequence)
        else:
            self._prefilling.remove(sequence)
        self.blocks.publish(allocation, sequence.request.hashes, sequence.computed)
        self.blocks.release(allocation)
