"""Footing: which levels a plan may rest on, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence

from bench.fit.level import Level
from bench.slo import LevelVerdict, trips

UNSETTLED = {"steady_state"}  # a level that trips nothing else is whole, only short or unsteady


def footing(
    levels: Sequence[Level], verdicts: Sequence[LevelVerdict]
) -> tuple[list[Level], list[str]]:
    """The levels that may size hardware, and a note on each of the others.

    verdicts: of the same levels, in their order. An engine rests on its valid levels. One that has
    none rests on those that are merely not settled, and a note says so; what failed any other gate
    sizes nothing, whatever else there is.
    """
    tripped = [
        {gate for gate, reason in verdict.gates.items() if trips(reason)} for verdict in verdicts
    ]
    valid = {level.engine for level, gates in zip(levels, tripped, strict=True) if not gates}
    kept: list[Level] = []
    notes: list[str] = []
    for level, gates in zip(levels, tripped, strict=True):
        where = f"{level.engine} at {level.users} users (run {level.run})"
        if not gates:
            kept.append(level)
        elif gates <= UNSETTLED and level.engine not in valid:
            kept.append(level)
            notes.append(
                f"not_settled: {where} found no steady state; it is used, because no level of this "
                "engine is valid, so what rests on it is an indication"
            )
        else:
            named = ", ".join(sorted(gates)).replace("_", " ")
            notes.append(f"left_out: {where} is not valid ({named}), so nothing is sized from it")
    return kept, notes
