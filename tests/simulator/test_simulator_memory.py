"""The closed KV capacity formula against the published capacities."""

import pytest

from bench.simulator.memory import kv_bytes_per_token, kv_capacity_tokens
from makers import read_published


@pytest.mark.parametrize(
    ("key", "weights_gib", "element_bytes", "tensor_parallel"),
    [
        ("tp2_fp8_kv", 33.8, 1, 2),
        ("tp2_bf16_kv", 33.8, 2, 2),
        ("tp4_fp8_kv", 16.9, 1, 4),
        ("tp4_bf16_kv", 16.9, 2, 4),
    ],
)
def test_capacity(key: str, weights_gib: float, element_bytes: int, tensor_parallel: int) -> None:
    stated = read_published()["kv_capacity"]
    size = kv_bytes_per_token(80, 8, 128, element_bytes)
    assert size == stated["bytes_per_token"]["fp8" if element_bytes == 1 else "bf16"]
    tokens = kv_capacity_tokens(79.1, 0.9, weights_gib, 3.5, size, tensor_parallel)
    assert tokens == pytest.approx(
        stated["tokens_at_0_90_utilisation_80GB_fp8_weights"][key], rel=0.02
    )


def test_no_room_is_no_tokens() -> None:
    assert kv_capacity_tokens(79.1, 0.9, 141.0, 3.5, 163840, 1) == 0
