"""Evidence: values of a metric, their bounds, and what does not allow a verdict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.episode import PlannedCall, PlannedTurn, Task, Workload
from bench.fit.level import Level
from bench.quality.selection import AnswerRow, SelectionRow
from bench.record import EpisodeOutcome, LLMOutcome, ToolOutcome
from bench.scenario import Direction, Objective, Slo
from bench.slo import ObjectiveVerdict, count_errors, judge, metric_values
from bench.stats.interval import Interval
from makers import S, make_tool
from slo.levels import level_of, lognormal, one, ttft


def test_the_bounds_are_one_sided_around_the_observed() -> None:
    found = one(level_of(lognormal(800)), ttft(0.3, 0.95))
    assert found.low is not None and found.high is not None and found.observed is not None
    assert found.low < found.observed < found.high <= 0.4
    assert found.n == 800


def test_too_few_exceedances_are_undecided_and_say_how_many_more() -> None:
    found = one(level_of(lognormal(80)), ttft(1.0, 0.99))  # 0.8 of the 10 exceedances
    assert found.verdict == "undecided"
    assert found.reasons[0].startswith("n_too_small: ")
    assert found.needed is not None and found.needed >= 900


def test_too_few_blocks_are_undecided() -> None:
    found = one(level_of(lognormal(12)), ttft(1.0))
    assert found.verdict == "undecided"
    assert found.reasons[0].startswith("blocks_too_few: ")
    assert found.needed is not None and found.needed >= 8


def test_no_value_is_undecided_and_never_zero() -> None:
    found = one(level_of([]), ttft(1.0))
    assert (found.observed, found.low, found.high, found.n) == (None, None, None, 0)
    assert found.verdict == "undecided"


def test_failed_calls_lie_beyond_every_bound() -> None:
    """60 % of the calls never gave a token: the median must not pass on the fast rest."""
    level = level_of([0.1] * 400)
    for call in level.llm[::5] + level.llm[1::5] + level.llm[2::5]:
        call.first_delta_ns = None
        call.outcome = LLMOutcome.transport_error
    slo = Slo(gate_error_rate=1.0)
    found = one(level, ttft(0.5), slo)
    assert found.verdict == "failed"
    assert found.observed is None  # beyond every bound: no number
    assert any(reason.startswith("failures_counted: 240 ") for reason in found.reasons)


def test_good_calls_without_a_value_leave_it_undecided() -> None:
    level = level_of(lognormal(400))
    for call in level.llm[:40]:
        call.collapsed = True
    found = one(level, ttft(0.5))
    assert found.verdict == "undecided"
    assert any(reason.startswith("values_missing: 40 ") for reason in found.reasons)


def test_one_token_answers_have_no_tpot_and_that_is_no_fault() -> None:
    level = level_of(lognormal(400))
    for call in level.llm[:40]:
        call.output_tokens = 1
    found = one(level, Objective(name="t", metric="tpot_s", bound=0.02, quantile=0.5))
    assert (found.verdict, found.n) == ("passed", 360)
    assert found.observed == pytest.approx(0.01)


def test_latency_counts_unanswered_episodes_and_skips_selection() -> None:
    level = level_of([0.1] * 4)
    level.episodes[0].outcome = EpisodeOutcome.iteration_limit
    level.episodes[1].workload = Workload.selection
    values = metric_values(level, "latency_s")
    assert sorted(values.values)[:2] == pytest.approx([0.6, 0.6])
    assert len(values.values) == 3 and max(values.values) > 1e9
    assert len(metric_values(level, "ttft_s").values) == 3
    assert len(metric_values(level, "ttft_s", "selection").values) == 1
    assert metric_values(level, "latency_s", "web").values == []


def test_tool_time_counts_every_execution_that_reached_a_tool() -> None:
    level = level_of([0.1] * 2)
    for number, outcome in enumerate(ToolOutcome):
        level.tools.append(make_tool(call=number, done_ns=S // 10, outcome=outcome))
    values = metric_values(level, "tool_s").values
    assert sum(value > 1e9 for value in values) == 3  # error, timeout and cut took no time
    assert sum(value == pytest.approx(0.1) for value in values) == 1  # ok


def test_dependent_values_widen_the_bounds() -> None:
    """The same values in runs of one block's length carry far less than in random order."""
    ordered = sorted(lognormal(800))
    mixed = list(np.random.default_rng(3).permutation(ordered))
    bound = float(np.quantile(ordered, 0.5)) * 1.05
    assert one(level_of([float(v) for v in mixed], 1), ttft(bound)).verdict == "passed"
    dependent = level_of(ordered, 1)
    assert one(dependent, ttft(bound)).verdict == "undecided"
    # Time decides what is near, not the order of the records.
    shuffled = np.random.default_rng(4).permutation(len(dependent.episodes))
    dependent.episodes = [dependent.episodes[int(index)] for index in shuffled]
    assert one(dependent, ttft(bound)).verdict == "undecided"


def test_answers_without_a_token_count_leave_tpot_undecided() -> None:
    """One token has no time per token; a count that is not known is missing."""
    level = level_of(lognormal(400))
    for call in level.llm[:40]:
        call.output_tokens = None
    found = one(level, Objective(name="t", metric="tpot_s", bound=0.02, quantile=0.5))
    assert (found.verdict, found.n) == ("undecided", 360)
    assert any(reason.startswith("values_missing: 40 ") for reason in found.reasons)


# Rates


def rate(name: str, bound: float, direction: Direction = Direction.above) -> Objective:
    return Objective(name=name, metric=name, bound=bound, direction=direction)


def interval(value: float | None, n: int) -> Interval:
    return Interval(value=value, low=None, high=None, n=n)


def selection_row(tsa: float | None, n: int) -> SelectionRow:
    return SelectionRow(
        engine="tp4",
        run="r1",
        users=8,
        descriptions="strong",
        items=n,
        tsa=interval(tsa, n),
        tsa_attempts=interval(tsa, n),
        tsa_strict=interval(None, 0),
        abstention=interval(None, 0),
        outcomes={},
        confusion={},
        by_stratum={},
    )


def selecting(items: int, asked: int) -> Level:
    """`asked` selection episodes over `items` different items."""
    level = level_of([0.1] * asked)
    for number, episode in enumerate(level.episodes):
        episode.workload = Workload.selection
        episode.outcome = EpisodeOutcome.chosen
        episode.task = f"item-{number % items}"
    turn = PlannedTurn(calls=[PlannedCall(tool="sql_query")])
    level.tasks = {
        f"item-{number}": Task(
            id=f"item-{number}", workload=Workload.selection, question="?", turns=[turn]
        )
        for number in range(items)
    }
    return level


def tsa_verdict(level: Level, row: SelectionRow, bound: float = 0.85) -> ObjectiveVerdict:
    (verdict,) = judge([level], Slo(objectives=[rate("tsa", bound)]), [row], [])
    return verdict.objectives[0]


def test_tsa_below_400_items_is_undecided_whatever_its_value() -> None:
    found = tsa_verdict(selecting(399, 399), selection_row(1.0, 399))
    assert found.verdict == "undecided"
    assert found.reasons == ["n_too_small: 399 of 400 distinct selection items"]
    assert found.needed == 1


def test_the_same_item_asked_twice_is_one_item() -> None:
    found = tsa_verdict(selecting(120, 480), selection_row(1.0, 480))
    assert (found.verdict, found.n) == ("undecided", 120)
    assert any(reason.startswith("items_repeated: 480 ") for reason in found.reasons)


def test_tsa_with_enough_items_is_decided() -> None:
    level = selecting(400, 400)
    passed = tsa_verdict(level, selection_row(0.9, 400))
    assert passed.verdict == "passed"
    # Clopper-Pearson, one-sided 95 %, 360 of 400.
    assert passed.low == pytest.approx(0.87177, abs=2e-4)
    assert tsa_verdict(level, selection_row(0.80, 400)).verdict == "failed"
    assert tsa_verdict(level, selection_row(0.86, 400)).verdict == "undecided"


def test_a_level_without_selection_has_no_tsa() -> None:
    found = tsa_verdict(level_of([0.1] * 30), selection_row(None, 0))
    assert found.verdict == "undecided" and found.reasons[0].startswith("no_data: ")
    (verdict,) = judge([level_of([0.1])], Slo(objectives=[rate("tsa", 0.5)]), [], [])
    assert verdict.objectives[0].verdict == "undecided"


def test_answer_rate_reads_its_workloads_row() -> None:
    level = level_of([0.1] * 200)
    rows = [
        AnswerRow(
            engine="tp4",
            run="r1",
            users=8,
            workload=workload,
            correct=interval(value, 200),
            completed=interval(1.0, 200),
        )
        for workload, value in (("all", 0.99), ("react_1", 0.5))
    ]
    objective = rate("answer_rate", 0.9)
    (verdict,) = judge([level], Slo(objectives=[objective]), [], rows)
    assert verdict.objectives[0].verdict == "passed"
    objective.workload = "react_1"
    (verdict,) = judge([level], Slo(objectives=[objective]), [], rows)
    assert verdict.objectives[0].verdict == "failed"
    objective.workload = "web"
    (verdict,) = judge([level], Slo(objectives=[objective]), [], rows)
    assert verdict.objectives[0].verdict == "undecided"


def test_a_repeated_question_is_one_observation() -> None:
    """191 of 200 right over 100 tasks: 95.5 of 100, down to 95 below and up to 96 above."""
    level = level_of([0.1] * 200)
    for number, episode in enumerate(level.episodes):
        episode.task = f"task-{number % 100}"
    row = AnswerRow(
        engine="tp4",
        run="r1",
        users=8,
        workload="all",
        correct=interval(0.955, 200),
        completed=interval(1.0, 200),
    )
    (verdict,) = judge([level], Slo(objectives=[rate("answer_rate", 0.93)]), [], [row])
    found = verdict.objectives[0]
    assert (found.n, found.verdict) == (100, "undecided")
    assert found.low == pytest.approx(stats.beta.ppf(0.05, 95, 6))
    assert found.high == pytest.approx(stats.beta.ppf(0.95, 97, 4))


def test_zero_errors_pass_only_with_enough_attempts() -> None:
    """No error in 299 attempts is what an upper 95 % bound of 1 % takes."""
    objective = rate("error_rate", 0.01, Direction.below)
    assert one(level_of([0.1] * 299), objective).verdict == "passed"
    assert one(level_of([0.1] * 290), objective).verdict == "undecided"


def test_errors_are_the_engines_and_not_the_models() -> None:
    level = level_of([0.1] * 10)
    level.episodes[0].outcome = EpisodeOutcome.cut
    level.episodes[1].outcome = EpisodeOutcome.failed
    level.llm[1].outcome = LLMOutcome.stream_error
    level.episodes[2].outcome = EpisodeOutcome.failed
    level.llm[2].outcome = LLMOutcome.parse_failure
    level.episodes[3].outcome = EpisodeOutcome.iteration_limit
    level.episodes[4].workload = Workload.selection
    assert count_errors(level) == (2, 10)
    assert count_errors(level, "all") == (2, 9)
    assert count_errors(level, "selection") == (0, 1)
