"""Which levels may size hardware: the valid ones, else those that are merely not settled."""

from __future__ import annotations

from bench.fit.level import Level
from bench.sizing.footing import footing
from bench.slo import NOT_CHECKED, OK, LevelVerdict
from makers import make_level, make_point


def level(engine: str, users: int) -> Level:
    return make_level([], engine=engine, point=make_point(users=users))


def verdict(**gates: str) -> LevelVerdict:
    return LevelVerdict(
        engine="", run="", users=0, verdict="undecided", valid=True, objectives=[], gates=gates
    )


FINE = verdict(lag=OK, self_test=NOT_CHECKED + "no record")
UNSETTLED = verdict(lag=OK, steady_state="not_settled: too few values")
FAILING = verdict(steady_state="not_settled: too few values", error_rate="error_rate_high: 60 %")


def test_an_engine_rests_on_its_valid_levels_alone() -> None:
    levels = [level("a", 4), level("a", 8), level("a", 16)]
    kept, notes = footing(levels, [UNSETTLED, FINE, FAILING])
    assert [one.users for one in kept] == [8]
    assert notes == [
        "left_out: a at 4 users (run r) is not valid (steady state), so nothing is sized from it",
        "left_out: a at 16 users (run r) is not valid (error rate, steady state), so nothing is "
        "sized from it",
    ]


def test_without_a_valid_level_one_that_is_merely_unsettled_is_used_and_named() -> None:
    levels = [level("a", 4), level("b", 8), level("b", 16)]
    kept, notes = footing(levels, [FINE, UNSETTLED, FAILING])
    assert [(one.engine, one.users) for one in kept] == [("a", 4), ("b", 8)]
    assert notes[0].startswith("not_settled: b at 8 users (run r) found no steady state")
    assert notes[1].startswith("left_out: b at 16 users")


def test_what_failed_a_gate_sizes_nothing_whatever_else_there_is() -> None:
    kept, notes = footing([level("a", 4)], [FAILING])
    assert kept == [] and len(notes) == 1
