"""What a level says, from stamps that are known."""

from __future__ import annotations

import pytest

from bench.record import LLMOutcome, LLMRecord
from bench.selftest.level import Step, judge_level, number_of
from bench.selftest.null_server import Entry
from makers import MS, S, make_call, make_point

STEP = Step(streams=2, stagger_s=1.0, measured_s=2.0, hold_s=5.0)
POINT = make_point(issued_until_ns=3 * S)


def call(number: int, sent_ns: int, **changes: object) -> LLMRecord:
    """Sent 1 ms late, its first token 103 ms later, four more in 201 ms."""
    facts: dict[str, object] = {
        "episode": number,
        "scheduled_ns": sent_ns - MS,
        "sent_ns": sent_ns,
        "first_delta_ns": sent_ns + 103 * MS,
        "last_delta_ns": sent_ns + 304 * MS,
        "chunks": 5,
        "content": f"{number} token token",
    }
    return make_call(**(facts | changes))


def entry(number: int, sent_ns: int) -> Entry:
    """Received 1 ms after it was sent, written 0.5 ms late, the last token 1 ms late."""
    received_ns = sent_ns + MS
    return Entry(
        number=number,
        received_ns=received_ns,
        tokens=5,
        first_due_ns=received_ns + 100 * MS,
        first_written_ns=received_ns + 100 * MS + MS // 2,
        last_due_ns=received_ns + 300 * MS,
        last_written_ns=received_ns + 301 * MS,
        late_ns_max=MS,
    )


def test_the_servers_own_lateness_is_in_no_figure_of_the_client() -> None:
    starts = [S + 10 * MS * number for number in range(1, 11)]
    calls = [call(number, ns) for number, ns in enumerate(starts, start=1)]
    entries = {number: entry(number, ns) for number, ns in enumerate(starts, start=1)}
    level = judge_level(STEP, 500, POINT, calls, entries)
    assert (level.requests, level.failed) == (10, 0)
    assert level.ttft_added_ms_p50 == level.ttft_added_ms_p99 == pytest.approx(103 - 100.5)
    assert level.token_lag_ms_p99 == pytest.approx(2.0)
    assert level.tpot_error_ms_p99 == pytest.approx(0.5 / 4)
    assert level.server_late_ms_p99 == pytest.approx(0.5)
    assert level.lag_ms_p99 == pytest.approx(1.0)
    assert level.events_per_s == pytest.approx(10 * 5 / 2.0, rel=0.01)
    assert level.client_cpu is None and level.carried


def test_the_ramp_and_the_tail_are_not_measured() -> None:
    calls = [call(1, S // 2), call(2, 2 * S), call(3, 4 * S)]
    entries = {n: entry(n, ns) for n, ns in ((1, S // 2), (2, 2 * S), (3, 4 * S))}
    assert judge_level(STEP, 500, POINT, calls, entries).requests == 1


def test_a_failed_request_counts_and_the_load_is_not_carried() -> None:
    broken = call(3, 2 * S, outcome=LLMOutcome.stream_error)
    nameless = call(4, 2 * S, content="token")
    calls = [call(2, 2 * S), broken, nameless]
    level = judge_level(STEP, 500, POINT, calls, {2: entry(2, 2 * S), 3: entry(3, 2 * S)})
    assert (level.requests, level.failed, level.carried) == (3, 2, False)
    assert number_of(nameless) == 0


def test_without_a_request_everything_is_missing() -> None:
    level = judge_level(STEP, 500, POINT, [], {})
    assert level.ttft_added_ms_p99 is None and level.requests == 0 and not level.carried
