"""Step-time coefficients from measured laws, for an engine that states none.

Two facts bind them (milliseconds; sm is the soft maximum of methods.md section 7):

    a decode step without prefill lasts c0 (TPOT law)         sm(floor, a)    = c0
    a long cold prompt has the TTFT law's intercept           request + a     = A + H

A, H and F are the TTFT law's `a`, `host` and `floor`. Prefill cannot tell A from H (both are there
once a prompt), so A is no step's length: often it holds the whole request. What of A + H belongs to
a step is the part that c0 allows:

    a = min(A or, with F, A + c0 - sm(F, A);  A + H;  c0)
    floor: sm(floor, a) = c0,  request = A + H - a

d, e are the TPOT law's, b, c the TTFT law's (methods.md sections 4 and 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.fit.law import Law
from bench.scenario import Engine, StepTime
from bench.simulator.steptime import SOFTMAX_WIDTH_MS, softmax_ms


def measured_step(engine: Engine, laws: Sequence[Law]) -> StepTime | None:
    """The coefficients of `engine` (milliseconds) by its fitted laws; None without both laws."""
    ttft = _law(laws, engine.name, "ttft")
    tpot = _law(laws, engine.name, "tpot")
    if ttft is None or tpot is None:
        return None
    decode_ms = tpot.value("c0")
    intercept_ms = ttft.value("a") + ttft.value("host")
    fixed_ms = min(_of_a_step(ttft, decode_ms), intercept_ms, _other_ms(decode_ms, 0.0))
    return StepTime(
        a=fixed_ms,
        floor=_other_ms(decode_ms, fixed_ms),
        b=ttft.value("b"),
        c=ttft.value("c"),
        d=tpot.value("d"),
        e=tpot.value("e"),
        request=intercept_ms - fixed_ms,
    )


def _of_a_step(ttft: Law, decode_ms: float) -> float:
    """What the TTFT law says of `a`: less what its own floor adds to an empty step."""
    fixed_ms, floor = ttft.value("a"), ttft.coefficient("floor")
    if floor is None:
        return fixed_ms
    return max(0.0, decode_ms - (softmax_ms(floor.value, fixed_ms) - fixed_ms))


def _law(laws: Sequence[Law], engine: str, name: str) -> Law | None:
    found = (law for law in laws if law.engine == engine and law.name == name)
    return next((law for law in found if law.accepted), None)


def _other_ms(decode_ms: float, one_ms: float) -> float:
    """x with softmax(x, one) = decode; 0 when the one alone takes that long."""
    if decode_ms <= one_ms:
        return 0.0
    share = -math.expm1((one_ms - decode_ms) / SOFTMAX_WIDTH_MS)
    return max(0.0, decode_ms + SOFTMAX_WIDTH_MS * math.log(share))
