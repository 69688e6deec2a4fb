"""Step-time coefficients from measured laws, for an engine that states none.

The TTFT law of the idle grid gives a, b, c and the cost of a request; the TPOT law under load gives
what a decode step costs (c0), each decoding sequence (d) and its KV tokens (e). The weights' floor
is the one that makes an empty decode step last c0: softmax(floor, a) = c0 (methods.md sections 4
and 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.fit.law import Law
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import SOFTMAX_WIDTH_MS


def measured_step(engine: Engine, laws: Sequence[Law]) -> StepTime | None:
    """The coefficients of `engine` (milliseconds) by its fitted laws; None without both laws."""
    ttft = _law(laws, engine.name, "ttft")
    tpot = _law(laws, engine.name, "tpot")
    if ttft is None or tpot is None:
        return None
    fixed_ms, request_ms = ttft.value("a"), ttft.value("host")
    decode_ms = tpot.value("c0")
    if fixed_ms > decode_ms:
        # No step is shorter than its fixed part: what is more belongs to the request (prompts of
        # one chunk do not tell the two apart). With a and floor alike, the sum stays right.
        alike_ms = max(0.0, decode_ms - SOFTMAX_WIDTH_MS * math.log(2))
        fixed_ms, request_ms = alike_ms, request_ms + fixed_ms - alike_ms
    return StepTime(
        a=fixed_ms,
        floor=_floor_ms(decode_ms, fixed_ms),
        b=ttft.value("b"),
        c=ttft.value("c"),
        d=tpot.value("d"),
        e=tpot.value("e"),
        request=request_ms,
    )


def _law(laws: Sequence[Law], engine: str, name: str) -> Law | None:
    found = (law for law in laws if law.engine == engine and law.name == name)
    return next((law for law in found if law.accepted), None)


def _floor_ms(decode_ms: float, fixed_ms: float) -> float:
    """x with softmax(x, fixed) = decode; 0 when the fixed part alone takes that long."""
    if decode_ms <= fixed_ms:
        return 0.0
    share = -math.expm1((fixed_ms - decode_ms) / SOFTMAX_WIDTH_MS)
    return max(0.0, decode_ms + SOFTMAX_WIDTH_MS * math.log(share))
