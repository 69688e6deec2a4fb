"""The published tables: published.json beside this file, with the publisher of each."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from bench.scenario import StepTime
from bench.simulator.memory import kv_bytes_per_token, kv_capacity_tokens

USABLE_GIB = 79.1  # of an H100 with 80 GB
UTILISATION = 0.9
WEIGHTS_GIB = {2: 33.8, 4: 16.9}  # of one GPU, FP8
OVERHEAD_GIB = 3.5  # activations and graphs
BYTES = {"fp8": 1, "bf16": 2}
LAYERS, KV_HEADS, HEAD_SIZE = 80, 8, 128  # Llama 3.1 and 3.3, 70B


def read_published() -> dict[str, Any]:
    """Every table by name."""
    text = resources.files("bench.validate").joinpath("published.json").read_text("utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables


def law_of(profile: str) -> StepTime:
    """The step-time coefficients of a published profile, e.g. h100-70b-fp8-tp2-trtllm."""
    table = read_published()["step_time_profiles"]
    values = next(row[1:] for row in table["rows"] if row[0] == profile)
    return StepTime(**dict(zip(table["columns"][1:], values, strict=True)))


def kv_tokens(
    tensor_parallel: int,
    kv_dtype: str,
    weights_gib: float | None = None,
    utilisation: float = UTILISATION,
) -> int:
    """KV capacity of one replica by the memory formula, tokens. weights_gib: FP8 unless given."""
    if weights_gib is None:
        weights_gib = WEIGHTS_GIB[tensor_parallel]
    size = kv_bytes_per_token(LAYERS, KV_HEADS, HEAD_SIZE, BYTES[kv_dtype])
    return kv_capacity_tokens(
        USABLE_GIB, utilisation, weights_gib, OVERHEAD_GIB, size, tensor_parallel
    )
