"""Verdicts and gates, on levels whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from scipy import stats

from bench.episode import PlannedCall, PlannedTurn, Task, Workload
from bench.fit.level import Level
from bench.quality.selection import AnswerRow, SelectionRow
from bench.record import (
    EngineSample,
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointKind,
    PointRecord,
    ToolOutcome,
    ToolRecord,
)
from bench.scenario import Direction, Objective, Slo
from bench.slo import (
    OK,
    LevelVerdict,
    ObjectiveVerdict,
    check_exit_code,
    check_gates,
    count_errors,
    judge,
    metric_values,
    server_gap,
)
from bench.stats.interval import Interval

NS = 1_000_000_000


def make_call(user: int, number: int, sent_ns: int, ttft_s: float) -> LLMRecord:
    first = sent_ns + int(ttft_s * NS)
    return LLMRecord(
        point="u8",
        user=user,
        episode=number,
        turn=0,
        scheduled_ns=sent_ns,
        sent_ns=sent_ns,
        first_delta_ns=first,
        last_delta_ns=first + NS // 2,
        done_ns=first + NS // 2,
        prompt_tokens=2000,
        cached_tokens=500,
        output_tokens=51,
        outcome=LLMOutcome.ok,
    )


def make_level(ttfts_s: list[float], users: int = 8) -> Level:
    """One call per episode of react_1; users take turns, each one episode after the other."""
    episodes: list[EpisodeRecord] = []
    calls: list[LLMRecord] = []
    clock = [0] * users
    for number, ttft_s in enumerate(ttfts_s):
        user = number % users
        start = clock[user]
        call = make_call(user, number // users, start, ttft_s)
        assert call.done_ns is not None
        clock[user] = call.done_ns
        calls.append(call)
        episodes.append(
            EpisodeRecord(
                point="u8",
                user=user,
                episode=number // users,
                task=f"task-{number}",
                workload=Workload.react_1,
                control="live",
                tools="live",
                scheduled_ns=start,
                started_ns=start,
                first_answer_ns=call.first_delta_ns,
                done_ns=call.last_delta_ns,
                outcome=EpisodeOutcome.answered,
            )
        )
    total_s = sum(call.latency_s or 0.0 for call in calls)
    return Level(
        engine="tp4",
        run="r1",
        point=PointRecord(
            point="u8",
            kind=PointKind.load,
            users=users,
            started_ns=0,
            issued_until_ns=max(clock),
            ended_ns=max(clock),
            client_cpu=0.2,
        ),
        simulated=True,
        control="live",
        start_ns=0,
        end_ns=max(clock),
        settled=True,
        complete=True,
        episodes=episodes,
        llm=calls,
        tools=[],
        engine_samples=[
            EngineSample(point="u8", ns=0, e2e_sum_s=100.0),
            EngineSample(point="u8", ns=max(clock), e2e_sum_s=100.0 + total_s),
        ],
        tasks={},
        scheduled=len(episodes),
        warmup=0,
        tail=0,
        warmup_s=0.0,
    )


def lognormal(n: int, median_s: float = 0.2, seed: int = 7) -> list[float]:
    values = np.random.default_rng(seed).lognormal(np.log(median_s), 0.3, n)
    return [float(value) for value in values]


def ttft(bound: float, quantile: float = 0.5, name: str = "ttft") -> Objective:
    return Objective(name=name, metric="ttft_s", bound=bound, quantile=quantile)


def one(level: Level, objective: Objective, slo: Slo | None = None) -> ObjectiveVerdict:
    slo = slo or Slo()
    slo.objectives = [objective]
    (verdict,) = judge([level], slo, [], [])
    return verdict.objectives[0]


# Quantile objectives


def test_far_inside_passes_far_outside_fails_and_between_is_undecided() -> None:
    level = make_level(lognormal(800))
    assert one(level, ttft(0.3)).verdict == "passed"
    assert one(level, ttft(0.1)).verdict == "failed"
    middle = one(level, ttft(float(np.median(lognormal(800))) * 1.001))
    assert middle.verdict == "undecided"
    assert any(reason.startswith("bound_within: ") for reason in middle.reasons)
    assert middle.needed is not None and middle.needed > 800


def test_the_bounds_are_one_sided_around_the_observed() -> None:
    found = one(make_level(lognormal(800)), ttft(0.3, 0.95))
    assert found.low is not None and found.high is not None and found.observed is not None
    assert found.low < found.observed < found.high <= 0.4
    assert found.n == 800


def test_too_few_exceedances_are_undecided_and_say_how_many_more() -> None:
    found = one(make_level(lognormal(80)), ttft(1.0, 0.99))  # 0.8 of the 10 exceedances
    assert found.verdict == "undecided"
    assert found.reasons[0].startswith("n_too_small: ")
    assert found.needed is not None and found.needed >= 900


def test_too_few_blocks_are_undecided() -> None:
    found = one(make_level(lognormal(12)), ttft(1.0))
    assert found.verdict == "undecided"
    assert found.reasons[0].startswith("blocks_too_few: ")
    assert found.needed is not None and found.needed >= 8


def test_no_value_is_undecided_and_never_zero() -> None:
    found = one(make_level([]), ttft(1.0))
    assert (found.observed, found.low, found.high, found.n) == (None, None, None, 0)
    assert found.verdict == "undecided"


def test_failed_calls_lie_beyond_every_bound() -> None:
    """60 % of the calls never gave a token: the median must not pass on the fast rest."""
    level = make_level([0.1] * 400)
    for call in level.llm[::5] + level.llm[1::5] + level.llm[2::5]:
        call.first_delta_ns = None
        call.outcome = LLMOutcome.transport_error
    slo = Slo(gate_error_rate=1.0)
    found = one(level, ttft(0.5), slo)
    assert found.verdict == "failed"
    assert found.observed is None  # beyond every bound: no number
    assert any(reason.startswith("failures_counted: 240 ") for reason in found.reasons)


def test_good_calls_without_a_value_leave_it_undecided() -> None:
    level = make_level(lognormal(400))
    for call in level.llm[:40]:
        call.collapsed = True
    found = one(level, ttft(0.5))
    assert found.verdict == "undecided"
    assert any(reason.startswith("values_missing: 40 ") for reason in found.reasons)


def test_one_token_answers_have_no_tpot_and_that_is_no_fault() -> None:
    level = make_level(lognormal(400))
    for call in level.llm[:40]:
        call.output_tokens = 1
    found = one(level, Objective(name="t", metric="tpot_s", bound=0.02, quantile=0.5))
    assert (found.verdict, found.n) == ("passed", 360)
    assert found.observed == pytest.approx(0.01)


def test_latency_counts_unanswered_episodes_and_skips_selection() -> None:
    level = make_level([0.1] * 4)
    level.episodes[0].outcome = EpisodeOutcome.iteration_limit
    level.episodes[1].workload = Workload.selection
    values = metric_values(level, "latency_s")
    assert sorted(values.values)[:2] == pytest.approx([0.6, 0.6])
    assert len(values.values) == 3 and max(values.values) > 1e9
    assert len(metric_values(level, "ttft_s").values) == 3
    assert len(metric_values(level, "ttft_s", "selection").values) == 1
    assert metric_values(level, "latency_s", "web").values == []


def test_tool_time_counts_every_execution_that_reached_a_tool() -> None:
    level = make_level([0.1] * 2)
    for number, outcome in enumerate(ToolOutcome):
        level.tools.append(
            ToolRecord(
                point="u8",
                user=0,
                episode=0,
                turn=0,
                call=number,
                tool="sql_query",
                name="sql_query",
                arguments="{}",
                sent_ns=0,
                done_ns=NS // 10,
                outcome=outcome,
            )
        )
    values = metric_values(level, "tool_s").values
    assert sum(value > 1e9 for value in values) == 2  # timeout and cut
    assert sum(value == pytest.approx(0.1) for value in values) == 2  # ok and error


def test_above_is_the_mirror_of_below() -> None:
    level = make_level(lognormal(800))
    objective = ttft(0.1)
    objective.direction = Direction.above
    assert one(level, objective).verdict == "passed"
    objective.bound = 0.3
    assert one(level, objective).verdict == "failed"


def test_dependent_values_widen_the_bounds() -> None:
    """The same values in runs of one block's length carry far less than in random order."""
    ordered = sorted(lognormal(800))
    mixed = list(np.random.default_rng(3).permutation(ordered))
    bound = float(np.quantile(ordered, 0.5)) * 1.05
    assert one(make_level([float(v) for v in mixed], 1), ttft(bound)).verdict == "passed"
    dependent = make_level(ordered, 1)
    assert one(dependent, ttft(bound)).verdict == "undecided"
    # Time decides what is near, not the order of the records.
    shuffled = np.random.default_rng(4).permutation(len(dependent.episodes))
    dependent.episodes = [dependent.episodes[int(index)] for index in shuffled]
    assert one(dependent, ttft(bound)).verdict == "undecided"


# Holm, and the level as a whole


def test_a_level_passes_only_if_every_objective_does() -> None:
    level = make_level(lognormal(800))
    middle = float(np.median(lognormal(800)))
    for bounds, expected in (
        ([0.3, 0.4], "passed"),
        ([0.3, middle], "undecided"),
        ([0.3, 0.1], "failed"),
        ([middle, 0.1], "failed"),
    ):
        slo = Slo(objectives=[ttft(bound, name=str(bound)) for bound in bounds])
        (verdict,) = judge([level], slo, [], [])
        assert verdict.verdict == expected
    (nothing,) = judge([level], Slo(), [], [])
    assert nothing.verdict == "undecided"


def test_which_failed_is_corrected_by_holm() -> None:
    """A bound that one test at 95 % misses by a hair is not called failed among five."""
    level = make_level(lognormal(800))
    low = one(level, ttft(0.1)).low
    assert low is not None
    hair = low * 0.9999
    assert one(level, ttft(hair)).verdict == "failed"
    slo = Slo(objectives=[ttft(hair, name="hair"), *[ttft(9.0, name=f"o{i}") for i in range(4)]])
    (verdict,) = judge([level], slo, [], [])
    first = verdict.objectives[0]
    assert first.verdict == "undecided"
    assert first.reasons[0].startswith("holm: ")
    # Once the others have clearly failed, the last one is tested at the plain level again.
    slo = Slo(objectives=[ttft(hair, name="hair"), *[ttft(0.01, name=f"o{i}") for i in range(4)]])
    (verdict,) = judge([level], slo, [], [])
    assert [row.verdict for row in verdict.objectives] == ["failed"] * 5


def test_error_rates_at_the_bound_itself() -> None:
    """At the true median, 400 independent campaigns: at most 5 % (plus 3 SE) of either error."""
    rng = np.random.default_rng(11)
    slo = Slo(objectives=[ttft(0.2)])
    found = []
    for _ in range(400):
        values = rng.lognormal(np.log(0.2), 0.3, 100)
        (verdict,) = judge([make_level([float(v) for v in values], 4)], slo, [], [])
        found.append(verdict.objectives[0].verdict)
    limit = 400 * (0.05 + 3 * np.sqrt(0.05 * 0.95 / 400))
    assert found.count("passed") <= limit
    assert found.count("failed") <= limit
    assert found.count("passed") > 0 and found.count("failed") > 0


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
    level = make_level([0.1] * asked)
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
    found = tsa_verdict(make_level([0.1] * 30), selection_row(None, 0))
    assert found.verdict == "undecided" and found.reasons[0].startswith("no_data: ")
    (verdict,) = judge([make_level([0.1])], Slo(objectives=[rate("tsa", 0.5)]), [], [])
    assert verdict.objectives[0].verdict == "undecided"


def test_answer_rate_reads_its_workloads_row() -> None:
    level = make_level([0.1] * 200)
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
    level = make_level([0.1] * 200)
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
    assert one(make_level([0.1] * 299), objective).verdict == "passed"
    assert one(make_level([0.1] * 290), objective).verdict == "undecided"


def test_errors_are_the_engines_and_not_the_models() -> None:
    level = make_level([0.1] * 10)
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


# Gates: each is tripped by one change of a level that passes them all


def incomplete(level: Level) -> None:
    level.complete = False


def died(level: Level) -> None:
    level.point.error = "the engine died"


def lost(level: Level) -> None:
    level.scheduled += 1


def busy_client(level: Level) -> None:
    level.point.client_cpu = 0.81


def unknown_client(level: Level) -> None:
    level.point.client_cpu = None


def late(level: Level) -> None:
    for call in level.llm[::10]:
        call.scheduled_ns -= 20_000_000


def unsent(level: Level) -> None:
    for call in level.llm:
        call.sent_ns = None


def failing(level: Level) -> None:
    for episode in level.episodes[:5]:
        episode.outcome = EpisodeOutcome.failed


def empty(level: Level) -> None:
    level.episodes, level.scheduled = [], 0


def drifting(level: Level) -> None:
    level.settled = False


def disagreeing(level: Level) -> None:
    last = level.engine_samples[-1]
    assert last.e2e_sum_s is not None
    last.e2e_sum_s = 100.0 + (last.e2e_sum_s - 100.0) * 1.06


@pytest.mark.parametrize(
    ("change", "gate", "code"),
    [
        (incomplete, "complete", "incomplete"),
        (died, "complete", "point_error"),
        (lost, "issued_equals_scheduled", "issued_not_scheduled"),
        (busy_client, "client_cpu", "client_cpu_high"),
        (unknown_client, "client_cpu", "client_cpu_unknown"),
        (late, "lag", "lag_high"),
        (unsent, "lag", "lag_unknown"),
        (failing, "error_rate", "error_rate_high"),
        (empty, "error_rate", "no_members"),
        (drifting, "steady_state", "not_settled"),
        (disagreeing, "server_agreement", "server_disagrees"),
    ],
)
def test_each_gate_trips_and_makes_the_level_undecided(
    change: Callable[[Level], None], gate: str, code: str
) -> None:
    level = make_level(lognormal(400))
    slo = Slo(objectives=[ttft(0.5)])
    (before,) = judge([level], slo, [], [])
    assert (before.gates[gate], before.valid, before.verdict) == (OK, True, "passed")
    change(level)
    (after,) = judge([level], slo, [], [])
    assert after.gates[gate].startswith(f"{code}: ")
    assert (after.valid, after.verdict) == (False, "undecided")
    row = after.objectives[0]
    assert (row.valid, row.verdict, row.needed) == (False, "undecided", None)
    assert any(reason.startswith(f"not_valid: {gate}: {code}: ") for reason in row.reasons)


def test_what_cannot_be_checked_is_shown_and_does_not_invalidate() -> None:
    level = make_level(lognormal(400))
    level.engine_samples = []
    (verdict,) = judge([level], Slo(objectives=[ttft(0.5)]), [], [])
    unchecked = {name for name, reason in verdict.gates.items() if reason.startswith("not checked")}
    assert unchecked == {"self_test", "cache_hits", "server_agreement"}
    assert (verdict.valid, verdict.verdict) == (True, "passed")


def test_a_planned_hit_rate_is_checked_against_the_server() -> None:
    level = make_level(lognormal(400))
    first, last = level.engine_samples
    first.prefix_queries, first.prefix_hits = 1000.0, 500.0
    last.prefix_queries, last.prefix_hits = 2000.0, 900.0  # 0.4 of what came in between
    slo = Slo()
    assert check_gates(level, slo, 0.41)["cache_hits"] == OK
    assert check_gates(level, slo, 0.45)["cache_hits"].startswith("cache_hits_off: ")
    last.prefix_queries = None
    assert check_gates(level, slo, 0.45)["cache_hits"].startswith("not checked: ")


def test_server_agreement_asks_for_200_requests() -> None:
    level = make_level(lognormal(199))
    disagreeing(level)
    assert check_gates(level, Slo())["server_agreement"].startswith("not checked: 199 requests")


def test_server_agreement_leaves_out_what_members_did_not_do() -> None:
    """Warm-up and tail load the server too; only the time between them is compared."""
    whole = make_level([0.5] * 800)  # 100 s, 8 requests end at each whole second
    members = {
        (episode.user, episode.episode)
        for episode in whole.episodes
        # User 0 is late: it was in a warm-up episode until its 50th second.
        if (50 if episode.user == 0 else 20) <= episode.episode < 80
    }
    level = msgspec.structs.replace(
        whole,
        episodes=[e for e in whole.episodes if (e.user, e.episode) in members],
        llm=[c for c in whole.llm if (c.user, c.episode) in members],
        warmup=190,
        tail=160,
        scheduled=450,
        engine_samples=[
            EngineSample(point="u8", ns=int(second * NS) + 1, e2e_sum_s=8.0 * second)
            for second in range(101)
        ],
    )
    assert check_gates(level, Slo())["server_agreement"] == OK
    assert server_gap(level) == pytest.approx(0, abs=1e-6)
    for sample in level.engine_samples:
        assert sample.e2e_sum_s is not None
        sample.e2e_sum_s *= 1.2  # someone else uses the engine
    assert check_gates(level, Slo())["server_agreement"].startswith("server_disagrees: ")
    assert server_gap(level) == pytest.approx(0.2)
    level.episodes = [episode for episode in level.episodes if episode.user > 0]
    assert check_gates(level, Slo())["server_agreement"].startswith("not checked: ")
    assert server_gap(level) is None


# Infeasible


def test_a_bound_below_the_idle_engine_is_infeasible() -> None:
    level = make_level(lognormal(400))
    asked: list[tuple[str, float, float]] = []

    def idle(engine: str, prompt_tokens: float, cached_tokens: float) -> float | None:
        asked.append((engine, prompt_tokens, cached_tokens))
        return 0.15

    slo = Slo(objectives=[ttft(0.1), ttft(0.3, name="wide")])
    (verdict,) = judge([level], slo, [], [], idle)
    tight, wide = verdict.objectives
    assert (tight.infeasible, tight.verdict) == (True, "failed")
    assert any(reason.startswith("infeasible: ") for reason in tight.reasons)
    assert (wide.infeasible, wide.verdict) == (False, "passed")
    assert asked[0] == ("tp4", 2000.0, 500.0)
    (unknown,) = judge([level], slo, [], [], lambda *_: None)
    assert not unknown.objectives[0].infeasible


def test_what_passed_is_not_infeasible() -> None:
    slo = Slo(objectives=[ttft(0.3)])
    (verdict,) = judge([make_level(lognormal(400))], slo, [], [], lambda *_: 0.31)
    assert (verdict.objectives[0].verdict, verdict.objectives[0].infeasible) == ("passed", False)


# Exit code


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([("passed", True), ("passed", True)], 0),
        ([("passed", True), ("failed", True)], 1),
        ([("undecided", True), ("failed", True)], 1),
        ([("passed", True), ("undecided", True)], 2),
        ([("failed", True), ("undecided", False)], 3),
        ([], 3),
    ],
)
def test_exit_code(found: list[tuple[str, bool]], code: int) -> None:
    verdicts = [
        LevelVerdict(
            engine="e", run="r", users=1, verdict=verdict, valid=valid, objectives=[], gates={}
        )
        for verdict, valid in found
    ]
    assert check_exit_code(verdicts) == code
