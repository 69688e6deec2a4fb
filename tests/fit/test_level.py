"""Levels from a run whose windows, warm-up and tail are known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bench.episode import Workload
from bench.fit.facts import level_facts
from bench.fit.level import Level, by_episode, levels_of
from bench.record import (
    GRID_POINT,
    EngineSample,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointKind,
    PointRecord,
    ScheduledRecord,
    ToolRecord,
)
from bench.run import Run
from bench.scenario import Engine
from makers import (
    S,
    make_call,
    make_episode,
    make_facts,
    make_point,
    make_run,
    make_scenario,
    make_tool,
)

ENGINE = Engine(name="tp4", kv_tokens=100_000)


def a_run(
    points: list[PointRecord],
    episodes: list[EpisodeRecord],
    llm: list[LLMRecord],
    scheduled: list[ScheduledRecord],
    tools: list[ToolRecord] | None = None,
    samples: list[EngineSample] | None = None,
) -> Run:
    return make_run(
        make_facts(make_scenario(ENGINE), id="run-1"),
        points,
        scheduled=scheduled,
        episodes=episodes,
        llm=llm,
        tools=tools or [],
        engine=samples or [],
    )


def a_load(
    count: int, warm: int = 0, point: str = "u4", every_s: float = 0.1
) -> tuple[list[EpisodeRecord], list[LLMRecord], list[ScheduledRecord]]:
    """`count` episodes of 4 users; the first `warm` have a ten times slower TTFT."""
    rng = np.random.default_rng(0)
    episodes, llm, scheduled = [], [], []
    for number in range(count):
        user, own = number % 4, number // 4
        at = round(number * every_s * S)
        ttft_s = (2.0 if number < warm else 0.2) * float(rng.lognormal(0, 0.05))
        scheduled.append(ScheduledRecord(point=point, user=user, episode=own, scheduled_ns=at))
        llm.append(
            make_call(
                point=point,
                user=user,
                episode=own,
                workload=Workload.react_1,
                sent_ns=at,
                first_delta_ns=at + round(ttft_s * S),
            )
        )
        episodes.append(
            make_episode(point=point, user=user, episode=own, scheduled_ns=at, done_ns=at + S)
        )
    return episodes, llm, scheduled


def a_point(issued_s: float | None, ended_s: float | None, point: str = "u4") -> PointRecord:
    return make_point(
        point=point,
        users=4,
        issued_until_ns=None if issued_s is None else round(issued_s * S),
        ended_ns=None if ended_s is None else round(ended_s * S),
    )


def only(run: Run) -> Level:
    levels = levels_of(run)
    assert len(levels) == 1
    return levels[0]


def test_warm_up_is_cut_and_the_tail_only_counted() -> None:
    episodes, llm, scheduled = a_load(220, warm=20)
    tool = make_tool(point="u4", episode=0)  # of the warm-up
    samples = [EngineSample(point="u4", ns=at * S) for at in (0, 10, 19, 20, 25)]
    run = a_run([a_point(20.0, 24.0)], episodes[::-1], llm, scheduled, [tool], samples)
    level = only(run)
    assert (level.warmup, level.attempted, level.scheduled, level.tail) == (20, 180, 180, 20)
    assert level.warmup_s == 2.0
    assert (level.start_ns, level.end_ns) == (2 * S, 20 * S)
    assert (level.settled, level.complete) == (True, True)
    assert (level.engine, level.run, level.users) == ("tp4", "run-1", 4)
    assert (level.control, level.simulated) == ("live", True)
    assert len(level.llm) == 180
    assert level.tools == []
    assert [sample.ns // S for sample in level.engine_samples] == [10, 19]
    assert [one.scheduled_ns for one in level.episodes] == sorted(
        one.scheduled_ns for one in level.episodes
    )


def test_a_killed_point_takes_everything_and_is_incomplete() -> None:
    episodes, llm, scheduled = a_load(100)
    level = only(a_run([a_point(None, None)], episodes[:-3], llm, scheduled))
    assert (level.scheduled, level.attempted) == (100 - level.warmup, 97 - level.warmup)
    assert not level.complete
    assert level.end_ns == scheduled[-1].scheduled_ns + 1
    # What the lost episodes did is still there.
    assert len(level.llm) == 100 - level.warmup


def test_an_episode_that_was_scheduled_and_never_recorded_makes_it_incomplete() -> None:
    episodes, llm, scheduled = a_load(100)
    level = only(a_run([a_point(10.0, 12.0)], episodes[1:], llm, scheduled))
    assert level.attempted == level.scheduled - 1
    assert not level.complete


def test_nothing_fails_open() -> None:
    """Each record that is missing, or says what no other does, makes the level incomplete."""
    episodes, llm, scheduled = a_load(100)
    for episode in episodes:
        episode.turns = 1
    point = a_point(10.0, 12.0)
    assert only(a_run([point], episodes, llm, scheduled)).incomplete == ""
    for run, why in (
        (a_run([point], episodes, llm, []), "100 episodes are recorded that no record scheduled"),
        (a_run([point], episodes[1:], llm, scheduled), "1 scheduled episodes left no record"),
        (a_run([point], episodes, llm[::2], scheduled), "50 episodes lack records of model calls"),
        (a_run([point], episodes, [], scheduled), "100 episodes lack records of model calls"),
    ):
        level = only(run)
        assert level.incomplete.startswith(why)
        assert not level.complete
    altered = a_run([point], episodes, llm, scheduled)
    altered.altered = "its records differ from the manifest: llm-0.jsonl"
    assert only(altered).incomplete == altered.altered
    assert only(a_run([point], episodes, llm, [])).scheduled == 0


def test_what_was_cut_as_warm_up_is_kept_apart() -> None:
    episodes, llm, scheduled = a_load(220, warm=20)
    tool = make_tool(point="u4", episode=0)
    level = only(a_run([a_point(20.0, 24.0)], episodes, llm, scheduled, [tool]))
    assert (len(level.cut.episodes), len(level.cut.llm), level.cut.tools) == (20, 20, [tool])
    # Its last episodes end within the window: 10 a second in, 10 a second out.
    facts = level_facts(level, None, None)
    assert facts.episodes_per_s == pytest.approx(10.0, rel=0.01)


def test_a_completed_answer_without_a_token_count_leaves_no_throughput() -> None:
    episodes, llm, scheduled = a_load(100)
    for call in llm:
        call.done_ns, call.output_tokens = call.first_delta_ns, 30
    run = a_run([a_point(10.0, 12.0)], episodes, llm, scheduled)
    assert level_facts(only(run), None, None).output_tokens_per_s == pytest.approx(300, rel=0.03)
    llm[-10].outcome = LLMOutcome.transport_error  # broke off: nothing was completed
    llm[-10].output_tokens = None
    assert level_facts(only(run), None, None).output_tokens_per_s is not None
    llm[-10].outcome = LLMOutcome.ok
    assert level_facts(only(run), None, None).output_tokens_per_s is None
    nothing = only(a_run([a_point(None, None)], [], [], []))
    assert level_facts(nothing, None, None).error_rate is None


def test_a_point_without_its_record_is_recovered() -> None:
    episodes, llm, scheduled = a_load(60)
    level = only(a_run([], episodes, llm, scheduled))
    assert level.point.users == 4
    assert level.point.error
    assert not level.complete
    assert level.attempted + level.warmup == 60


def test_a_point_without_any_record_is_an_empty_level() -> None:
    level = only(a_run([a_point(None, None)], [], [], []))
    assert (level.attempted, level.scheduled, level.settled, level.complete) == (0, 0, False, False)


def test_the_grid_is_no_level_and_points_keep_their_order() -> None:
    first, llm, scheduled = a_load(60, point="u4")
    second = [msgspec.structs.replace(one, point="u8") for one in first]
    late = msgspec.structs.replace(a_point(10.0, 11.0, "u8"), started_ns=1)
    grid = make_point(point=GRID_POINT, kind=PointKind.grid)
    run = a_run([late, grid, a_point(10.0, 11.0)], [*second, *first], llm, scheduled)
    assert [level.point.point for level in levels_of(run)] == ["u4", "u8"]


def test_too_few_first_turns_are_not_settled() -> None:
    episodes, llm, scheduled = a_load(30)
    level = only(a_run([a_point(10.0, 11.0)], episodes, llm, scheduled))
    assert (level.settled, level.warmup, level.attempted) == (False, 0, 30)


def test_records_are_found_by_their_episode() -> None:
    calls = [
        make_call(user=user, episode=user % 2, turn=turn) for turn in (1, 0) for user in (3, 4)
    ]
    assert by_episode(calls) == {(3, 1): calls[::2], (4, 0): calls[1::2]}
    assert (9, 9) not in by_episode(calls)


def test_when_calls_ended_that_are_no_members() -> None:
    episodes, llm, scheduled = a_load(220, warm=20)
    for call in llm:
        call.done_ns = call.scheduled_ns + S
    level = only(a_run([a_point(20.0, 24.0)], episodes, llm, scheduled))
    assert level.warmup_ended_ns == round(1.9 * S) + S
    assert level.tail_ended_ns == 20 * S + S
    level = only(a_run([a_point(None, None)], *a_load(100)))
    assert (level.warmup_ended_ns, level.tail_ended_ns) == (None, None)


def test_repeats_are_levels_of_the_same_users() -> None:
    first, second = a_load(100, point="u4-r0"), a_load(100, point="u4-r1")
    points = [a_point(10.0, 11.0, "u4-r0"), a_point(10.0, 11.0, "u4-r1")]
    points[1].started_ns = 1
    levels = levels_of(
        a_run(points, first[0] + second[0], first[1] + second[1], first[2] + second[2])
    )
    assert [(level.users, level.point.point) for level in levels] == [(4, "u4-r0"), (4, "u4-r1")]
