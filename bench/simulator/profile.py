"""Profile: what the simulated server is told, as one JSON file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from bench.errors import EngineError
from bench.scenario import Engine

VERSION = "simulated-0.1"
COEFFICIENTS = (
    "tensor_parallel",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_tokens",
    "block_size",
    "prefix_caching",
    "step",
    "preset_ttft_ms",
    "preset_tpot_ms",
    "preset_synthesis_ms",
)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """engine-profile.json: the engine, the material directory (empty: none) and the address."""

    engine: Engine
    material: str = ""
    seed: int = 0
    host: str = "127.0.0.1"
    port: int


def profile_hash(engine: Engine) -> str:
    """12 hex digits of the SHA-256 of everything that shapes the simulated times."""
    same = msgspec.convert(msgspec.to_builtins(engine), Engine)  # 2 and 2.0 are one number
    fields = {name: getattr(same, name) for name in COEFFICIENTS}
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()[:12]


def read_profile(path: Path) -> Profile:
    """Read a profile. Raises EngineError when it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except (OSError, msgspec.MsgspecError) as error:
        raise EngineError(
            f"profile={path}", f"cannot be read ({error})", "let bench.engine.launch write it"
        ) from error
