"""Counters of a point: what progress and the holding of the load look at."""

from bench.load.status import RECENT, Counters
from bench.record import EpisodeOutcome, EpisodeRecord, LLMOutcome, LLMRecord, ToolOutcome
from makers import make_call, make_episode, make_tool


def episode(user: int, outcome: EpisodeOutcome, latency_ns: int | None = None) -> EpisodeRecord:
    return make_episode(
        point="p",
        user=user,
        scheduled_ns=1000,
        done_ns=None if latency_ns is None else 1000 + latency_ns,
        outcome=outcome,
        error="boom" if outcome is EpisodeOutcome.failed else "",
    )


def call(ttft_ns: int | None, outcome: LLMOutcome = LLMOutcome.ok) -> LLMRecord:
    return make_call(point="p", sent_ns=0, first_delta_ns=ttft_ns, outcome=outcome)


def test_members_are_those_scheduled_before_the_end_of_issuing() -> None:
    counters = Counters("p")
    for user, scheduled_ns in enumerate((500, 300, 900)):
        counters.start("p", user, 0, scheduled_ns)
    status = counters.status(before_ns=900)
    assert (status.started, status.running, status.members_running) == (3, 3, 2)
    assert (status.first_scheduled_ns, status.oldest_running_ns) == (300, 300)
    counters.episode(episode(1, EpisodeOutcome.answered, 5))
    status = counters.status(before_ns=900)
    assert (status.running, status.members_running, status.oldest_running_ns) == (2, 1, 500)
    assert status.first_scheduled_ns == 300


def test_outcomes_are_counted_apart() -> None:
    counters = Counters("p")
    counters.episode(episode(0, EpisodeOutcome.answered, 2_000_000_000))
    counters.episode(episode(1, EpisodeOutcome.failed))
    counters.episode(episode(2, EpisodeOutcome.cut))
    counters.llm(call(None, LLMOutcome.transport_error))
    counters.llm(call(None, LLMOutcome.cut))
    for outcome in ToolOutcome:
        counters.tool(make_tool(point="p", outcome=outcome))
    status = counters.status(None)
    assert (status.done, status.errors, status.cut) == (2, 1, 1)
    assert (status.llm_errors, status.tool_errors) == (1, 2), "a refused call is the model's"
    assert status.latency_s_p50 == 2.0
    assert status.last_error == "sql_query: timeout"


def test_nothing_measured_is_missing_not_zero() -> None:
    status = Counters("p").status(None)
    assert status.ttft_s_p50 is None
    assert status.ttft_s_p95 is None
    assert status.latency_s_p50 is None
    assert status.members_running is None
    assert status.first_scheduled_ns is None


def test_quantiles_are_over_the_recent_values() -> None:
    counters = Counters("p")
    counters.llm(call(10**12))
    for _ in range(RECENT):
        counters.llm(call(250_000_000))
    status = counters.status(None)
    assert status.ttft_s_p50 == status.ttft_s_p95 == 0.25


def test_late_lines_of_another_point_are_not_counted() -> None:
    counters = Counters("p")
    counters.start("before", 0, 0, 1)
    for record in (make_episode(point="before"), make_episode(outcome=EpisodeOutcome.cut)):
        counters.episode(record)
    counters.llm(make_call(point="before", outcome=LLMOutcome.transport_error))
    counters.tool(make_tool(point="before", outcome=ToolOutcome.error))
    status = counters.status(before_ns=10)
    assert (status.started, status.running, status.members_running) == (0, 0, 0)
    assert (status.done, status.cut, status.llm_errors, status.tool_errors) == (0, 0, 0, 0)
    assert status.first_scheduled_ns is None
