"""The other published tables: step times, KV capacity, load tests with unstated settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.scenario import Engine, StepTime
from bench.simulator.memory import kv_bytes_per_token
from bench.simulator.steptime import step_ms
from bench.validate.closed import closed_loop
from bench.validate.published import (
    BYTES,
    HEAD_SIZE,
    KV_HEADS,
    LAYERS,
    kv_tokens,
    law_of,
    read_published,
)
from bench.validate.rows import Row, counted

DECODE_GATE = 0.06
CAPACITY_GATE = 0.02
BF16_WEIGHTS_GIB = 131.5  # 70.6e9 parameters of two bytes, all GPUs
BF16_KV_E = {2: 0.0526, 4: 0.0266}  # published.json, step_time_profiles.bf16_kv
LLM_D_UTILISATION = 0.95
BURST = 1024


def rows() -> list[Row]:
    """Every table but NIM's."""
    return [*_decode(), *_prefill(), *_capacity(), *_tensorrt(), *_kv_dtype(), *_llm_d()]


def _decode() -> list[Row]:
    name = "aiconfigurator_0_12_decode_ms_4k"
    return [
        Row(
            table=name, row=f"batch {batch}, TP={size}", quantity="decode step", unit="ms",
            kind="predicted", published=value, gate=DECODE_GATE,
            predicted=step_ms(law_of(f"h100-70b-fp8-tp{size}-vllm"), (), batch, 4096 * batch),
            note="the law was fitted to this table",
        )
        for batch, *values in read_published()[name]["rows"]
        for size, value in zip((2, 4), values, strict=True)
    ]  # fmt: skip


def _prefill() -> list[Row]:
    name = "aiconfigurator_0_12_prefill_ms"
    found = []
    for tokens, *values in read_published()[name]["rows"]:
        for place, value in enumerate(values):
            size, cached = (2, 4)[place // 2], tokens * 3 // 4 * (place % 2)
            law = law_of(f"h100-70b-fp8-tp{size}-vllm")
            row = Row(
                table=name, row=f"{tokens} tokens, {cached} cached, TP={size}",
                quantity="prefill step", unit="ms", kind="predicted", published=value,
                predicted=step_ms(law, [(tokens - cached, cached)], 0, 0),
                note="the law was fitted to this table; gated in the mean (7 %)",
            )  # fmt: skip
            found.append(row)
    return found


def _capacity() -> list[Row]:
    stated = read_published()["kv_capacity"]
    found = [
        Row(
            table="kv_capacity", row=f"{dtype} KV", quantity="KV bytes per token", unit="bytes",
            kind="predicted", published=size, gate=0.0,
            predicted=kv_bytes_per_token(LAYERS, KV_HEADS, HEAD_SIZE, BYTES[dtype]),
        )
        for dtype, size in stated["bytes_per_token"].items()
    ]  # fmt: skip
    for key, tokens in stated["tokens_at_0_90_utilisation_80GB_fp8_weights"].items():
        size, dtype = int(key[2]), key.split("_")[1]
        row = Row(
            table="kv_capacity", row=f"TP={size}, {dtype} KV, FP8 weights",
            quantity="KV capacity", unit="tokens", kind="predicted", published=tokens,
            predicted=kv_tokens(size, dtype), gate=CAPACITY_GATE,
        )  # fmt: skip
        found.append(row)
    measured = Row(
        table="kv_capacity", row="TP=4, bf16 KV, BF16 weights", quantity="KV capacity",
        unit="tokens", kind="measured", published=484_000,
        predicted=kv_tokens(4, "bf16", BF16_WEIGHTS_GIB / 4),
        note="not gated: the publisher's memory utilisation is not stated; 0.9 assumed",
    )  # fmt: skip
    found.append(measured)
    return found


def _tensorrt() -> list[Row]:
    name = "tensorrt_llm_0_17_max_output_tokens_per_s"
    found = []
    for given, output, *values in read_published()[name]["rows"]:
        for size, value in zip((2, 4), values, strict=True):
            capacity = kv_tokens(size, "fp8")
            places = min(2048, capacity // (16 * math.ceil((given + output) / 16)))
            engine = Engine(
                name=f"trtllm-tp{size}", tensor_parallel=size, kv_tokens=2 * capacity,
                max_model_len=32768, max_num_seqs=places,
                step=law_of(f"h100-70b-fp8-tp{size}-trtllm"),
            )  # fmt: skip
            row = Row(
                table=name, row=f"{given} in, {output} out, TP={size}, {places} at once",
                quantity="output throughput", unit="tokens/s", kind="measured", published=value,
                predicted=_full(engine, given, output),
                note="not gated: assumes as many requests at once as the KV cache holds (0.9 of "
                "the memory, at most 2,048), 8,192 tokens a step, no host overhead; the "
                "publisher's batch is not stated",
            )  # fmt: skip
            found.append(row)
    return found


def _full(engine: Engine, given: int, output: int) -> float:
    """Output tokens per second with as many users as fit, over some ten rounds."""
    users = engine.max_num_seqs
    decode_ms = step_ms(engine.step, (), users, users * (given + output // 2))
    prefill_ms = users * (step_ms(engine.step, [(given, 0)], 0, 0) - engine.step.floor)
    round_s = (output * decode_ms + max(0.0, prefill_ms)) / 1e3
    return closed_loop(
        engine, users, given, output, 10 * round_s, spread=0.1, stagger_s=round_s
    ).tokens_per_s


def _bf16(size: int, kv_dtype: str) -> StepTime:
    """BF16 weights, by assumption: twice the bytes to read, half the arithmetic rate."""
    law = law_of(f"h100-70b-fp8-tp{size}-vllm")
    e = BF16_KV_E[size] if kv_dtype == "bf16" else law.e
    return dataclasses.replace(law, floor=2 * law.floor, b=2 * law.b, e=e, host=2.0, request=30.0)


def _kv_dtype() -> list[Row]:
    name = "vllm_kv_dtype"
    table = read_published()[name]
    found = []
    for key, value in table["burst_output_tokens_per_s"].items():
        dtype = key.split("_")[0]
        capacity = kv_tokens(4, dtype, BF16_WEIGHTS_GIB / 4)
        engine = Engine(
            name=f"vllm-{dtype}", tensor_parallel=4, kv_tokens=capacity, max_num_seqs=BURST,
            step=_bf16(4, dtype),
        )  # fmt: skip
        given, output = table["input_tokens"], table["output_tokens"]
        row = Row(
            table=name, row=f"{dtype} KV", quantity="output throughput", unit="tokens/s",
            kind="measured", published=value,
            predicted=closed_loop(engine, BURST, given, output, 600.0, spread=0.1).tokens_per_s,
            note=f"not gated: read off a figure; assumes {BURST} users, {capacity} KV tokens, and "
            "BF16 weights at twice the bytes and half the rate of FP8",
        )  # fmt: skip
        found.append(row)
    return found


def _llm_d() -> list[Row]:
    name = "llm_d_bf16"
    table = read_published()[name]
    given, output = table["input_tokens"], table["output_tokens"]
    found: list[Row] = []
    for size, users, ttft_s, per_gpu in table["rows"]:
        capacity = kv_tokens(size, "bf16", BF16_WEIGHTS_GIB / size, LLM_D_UTILISATION)
        engine = Engine(
            name=f"llm-d-tp{size}", tensor_parallel=size, kv_tokens=capacity,
            step=_bf16(size, "bf16"),
        )  # fmt: skip
        got = closed_loop(engine, users, given, output, max(3000.0, 60.0 * users))
        note = (
            f"not gated: assumes memory utilisation {LLM_D_UTILISATION} ({capacity} KV tokens) and "
            "BF16 weights at twice the bytes and half the rate of FP8; neither is public"
        )
        found += _pair(name, f"TP={size}, {counted(users)}", note, (
            ("mean TTFT", "s", ttft_s, got.ttft_ms / 1e3),
            ("output throughput per GPU", "tokens/s", per_gpu, got.tokens_per_s / size),
        ))  # fmt: skip
    return found


def _pair(
    table: str, row: str, note: str, quantities: Sequence[tuple[str, str, float, float]]
) -> list[Row]:
    return [
        Row(
            table=table, row=row, quantity=quantity, unit=unit, kind="measured",
            published=published, predicted=predicted, note=note,
        )
        for quantity, unit, published, predicted in quantities
    ]  # fmt: skip
