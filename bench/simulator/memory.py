"""Does the model fit, and how many tokens of KV cache are left? Closed form.

Source: ../shared/reference/published.json, kv_capacity (bytes per token = layers x KV heads x
head size x 2 x bytes per element; what remains per GPU is usable x utilisation - weights -
activations and graphs).
"""

from __future__ import annotations

GIB = 2**30


def kv_bytes_per_token(layers: int, kv_heads: int, head_size: int, element_bytes: int) -> int:
    """Bytes that one token holds in the KV cache of the whole replica (K and V)."""
    return layers * kv_heads * head_size * 2 * element_bytes


def kv_capacity_tokens(
    usable_gib: float,
    utilisation: float,
    weights_gib: float,
    overhead_gib: float,
    bytes_per_token: int,
    tensor_parallel: int,
) -> int:
    """Tokens of KV cache that one replica holds; 0 when the weights leave no room.

    usable_gib, weights_gib (of this GPU's shard) and overhead_gib (activations, graphs) are per
    GPU; each GPU holds 1/tensor_parallel of every token.
    """
    left_gib = usable_gib * utilisation - weights_gib - overhead_gib
    if left_gib <= 0:
        return 0
    return int(left_gib * GIB * tensor_parallel / bytes_per_token)
