"""Stated times instead of the step-time law: the seed's own table, given back exactly.

Offsets are seconds after the arrival of the request. TTFT is the first delta that the client can
see: a call is withheld until its name is complete, so the invisible tokens come together with it.
The seed states a synthesis as one time, its TTFT included (methods.md section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.episode import Workload
from bench.scenario import Engine
from bench.simulator.steptime import MS_PER_S


def is_preset(engine: Engine) -> bool:
    """True when the engine follows stated times."""
    return bool(engine.preset_ttft_ms)


def token_offsets_s(
    engine: Engine,
    turn: int,
    visible: Sequence[bool],
    final: bool,
    workload: Workload | None,
) -> list[float]:
    """When each token leaves, seconds after arrival.

    turn: assistant turns before this one. visible: whether a token gives the client a delta.
    A final answer of a workload with a stated synthesis ends exactly then.
    """
    ttft_ms = engine.preset_ttft_ms[min(turn, len(engine.preset_ttft_ms) - 1)]
    first = next((number for number, seen in enumerate(visible) if seen), 0)
    later = len(visible) - 1 - first
    gap_ms = engine.preset_tpot_ms
    total_ms = engine.preset_synthesis_ms.get(workload.value) if workload is not None else None
    if final and total_ms is not None:
        ttft_ms = min(ttft_ms, total_ms)
        if later > 0:
            gap_ms = (total_ms - ttft_ms) / later
        else:
            ttft_ms = total_ms
    return [
        (ttft_ms + gap_ms * max(0, number - first)) / MS_PER_S for number in range(len(visible))
    ]
