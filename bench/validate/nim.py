"""NVIDIA NIM 1.8.0, Llama 3.3 70B FP8 on 2 x H100: 5,000 tokens in, 500 out, 1 to 250 users.

The engine is TensorRT-LLM: its coefficients, KV capacity from the memory formula. Two overheads
are calibrated on the row with one user (as `bench calibrate` does on an idle grid): per step and
per request. The other seven rows are predictions.

Two things are not public and decide the rows that are not gated.

* TTFT at 5 to 50 users: whether requests come in groups. Equal lengths and a gap between an answer
  and the next request gather users in groups that prefill together, and each waits for the others;
  lengths that vary dissolve the groups. `bracket` gives both ends.
* TTFT at 100 users: how many requests fit. There 84 to 89 run and the others wait, and each place
  is worth half a second.
"""

from __future__ import annotations

import dataclasses
import math

from bench.scenario import Engine, StepTime
from bench.simulator.memory import kv_bytes_per_token, kv_capacity_tokens
from bench.simulator.steptime import step_ms
from bench.validate.closed import Measured, closed_loop
from bench.validate.published import (
    BYTES,
    HEAD_SIZE,
    KV_HEADS,
    LAYERS,
    OVERHEAD_GIB,
    USABLE_GIB,
    UTILISATION,
    WEIGHTS_GIB,
    kv_tokens,
    law_of,
    read_published,
)
from bench.validate.rows import Row, counted

TABLE = "nim_1_8_0"
PROFILE = "h100-70b-fp8-tp2-trtllm"
INPUT, OUTPUT = 5000, 500
DURATION_S = 3000.0
FULL_USERS = 100  # from here on the KV cache is full
THROUGHPUT_GATE, ITL_GATE, TTFT_GATE = 0.03, 0.05, 0.15
GROUPED = "not gated: depends on how the publisher's requests were grouped; see the bracket"
PLACES = "not gated: each request more that fits is worth half a second; see the bracket"


def calibrated(law: StepTime, idle: Measured) -> StepTime:
    """The law with the two overheads that give back an idle engine's TTFT and ITL (not negative).

    Only those two numbers of the table are used.
    """
    context = INPUT + OUTPUT / 2
    host_ms = max(0.0, idle.itl_ms - step_ms(law, (), 1, round(context)))
    prefill_ms = step_ms(law, [(INPUT, 0)], 0, 0) + host_ms
    return dataclasses.replace(law, host=host_ms, request=max(0.0, idle.ttft_ms - prefill_ms))


def engine(step: StepTime) -> Engine:
    """NIM with KV capacity by the memory formula."""
    return Engine(
        name="nim-70b-fp8-tp2", tensor_parallel=2, kv_tokens=kv_tokens(2, "fp8"), step=step
    )


def no_evict(step: StepTime) -> Engine:
    """As TensorRT-LLM's documentation has it: 0.9 of the memory that is free after loading is KV
    cache, and a request is admitted when its longest output fits too (GUARANTEED_NO_EVICT)."""
    free_gib = USABLE_GIB - WEIGHTS_GIB[2] - OVERHEAD_GIB
    size = kv_bytes_per_token(LAYERS, KV_HEADS, HEAD_SIZE, BYTES["fp8"])
    tokens = kv_capacity_tokens(free_gib, UTILISATION, 0.0, 0.0, size, 2)
    places = tokens // (16 * math.ceil((INPUT + OUTPUT) / 16))
    return dataclasses.replace(engine(step), kv_tokens=2 * tokens, max_num_seqs=places)


def rows(duration_s: float = DURATION_S) -> list[Row]:
    """Throughput, ITL and TTFT of every row, the law without overheads, and the brackets."""
    table = read_published()[TABLE]["rows"]
    plain = law_of(PROFILE)
    step = calibrated(plain, Measured(table[0][1], table[0][2], table[0][3]))
    found: list[Row] = []
    for users, ttft_ms, itl_ms, tokens_per_s in table:
        published = Measured(ttft_ms, itl_ms, tokens_per_s)
        predicted = closed_loop(engine(step), users, INPUT, OUTPUT, duration_s)
        found += _compared(users, published, predicted)
        alone = closed_loop(engine(plain), users, INPUT, OUTPUT, duration_s)
        found += _plain(users, published, alone)
        found += _bracket(users, published, step, duration_s)
    return found


def _compared(users: int, published: Measured, predicted: Measured) -> list[Row]:
    fitted = "calibrated on this row" if users == 1 else ""
    if users == 1 or users > FULL_USERS:
        ttft_gate, ttft_note = TTFT_GATE, fitted
    else:
        ttft_gate, ttft_note = None, PLACES if users == FULL_USERS else GROUPED
    return [
        _row("", users, "output throughput", published.tokens_per_s, predicted.tokens_per_s,
             THROUGHPUT_GATE, fitted),
        _row("", users, "ITL", published.itl_ms, predicted.itl_ms, ITL_GATE, fitted),
        _row("", users, "TTFT", published.ttft_ms, predicted.ttft_ms, ttft_gate, ttft_note),
    ]  # fmt: skip


def _plain(users: int, published: Measured, predicted: Measured) -> list[Row]:
    note = "not gated: coefficients as published, no overhead of the host"
    gate, ttft_note = (TTFT_GATE, "") if users == 1 else (None, note)
    what = " without overheads"
    return [
        _row(what, users, "output throughput", published.tokens_per_s, predicted.tokens_per_s,
             None, note),
        _row(what, users, "ITL", published.itl_ms, predicted.itl_ms, None, note),
        _row(what, users, "TTFT", published.ttft_ms, predicted.ttft_ms, gate, ttft_note),
    ]  # fmt: skip


def _bracket(users: int, published: Measured, step: StepTime, duration_s: float) -> list[Row]:
    """What the missing facts could make of TTFT: both ends."""
    if users == 1 or users > FULL_USERS:
        return []
    if users == FULL_USERS:
        ends = {
            "fewest places (vLLM's rule)": closed_loop(
                engine(step), users, INPUT, OUTPUT, duration_s
            ),
            "most places (TensorRT-LLM's rule)": closed_loop(
                no_evict(step), users, INPUT, OUTPUT, duration_s
            ),
        }
    else:
        ends = {
            "apart (lengths +-10 %)": closed_loop(
                engine(step), users, INPUT, OUTPUT, duration_s, spread=0.1
            ),
            "together (equal lengths, one burst)": closed_loop(
                engine(step), users, INPUT, OUTPUT, duration_s, spread=0.0, stagger_s=0.0
            ),
        }
    return [
        _row(" bracket", users, f"TTFT, {name}", published.ttft_ms, end.ttft_ms, None,
             "not gated: one end of what is possible")
        for name, end in ends.items()
    ]  # fmt: skip


def _row(
    part: str,
    users: int,
    quantity: str,
    published: float,
    predicted: float,
    gate: float | None,
    note: str,
) -> Row:
    return Row(
        table=f"{TABLE}{part}",
        row=counted(users),
        quantity=quantity,
        unit="tokens/s" if quantity == "output throughput" else "ms",
        kind="measured",
        published=published,
        predicted=predicted,
        gate=gate,
        note=note,
    )
