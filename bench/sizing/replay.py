"""Records of the virtual clock: what a real run would have written, in virtual nanoseconds.

`replay` runs a closed loop and `replay_open` an open one of ReAct episodes (bench.sizing.virtual),
`idle_grid` single requests on an idle engine. So every analysis can be run on known laws (the
oracle test), and the planner can ask "what if" (methods.md sections 7 and 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bench.record import (
    GRID_POINT,
    NS_PER_S,
    EpisodeOutcome,
    EpisodeRecord,
    LLMOutcome,
    LLMRecord,
    PointKind,
    PointRecord,
    ToolOutcome,
    ToolRecord,
    cell_name,
)
from bench.scenario import Engine
from bench.simulator.scheduler import Request, Scheduler, Tokens
from bench.sizing.shapes import EpisodeShape, ToolLaw, TurnShape
from bench.sizing.virtual import (
    Closed,
    Episode,
    Open,
    Routing,
    Simulated,
    ToolCall,
    Turn,
    require_fit,
    simulate,
)

__all__ = [
    "EpisodeShape",
    "Replayed",
    "Routing",
    "ToolLaw",
    "TurnShape",
    "idle_grid",
    "replay",
    "replay_open",
]


class Replayed(msgspec.Struct, kw_only=True):
    """Records of one replay. Episodes that had not ended with the last member are left out.

    cut: members that had not ended at the time limit (then the rest is biased: the load was too
    much for this engine).
    """

    point: PointRecord
    cut: int
    llm: list[LLMRecord]
    tools: list[ToolRecord]
    episodes: list[EpisodeRecord]


def replay(
    engine: Engine,
    mix: Sequence[EpisodeShape],
    users: int,
    think_time_s: float,
    tools: Mapping[str, ToolLaw],
    duration_s: float,
    seed: int,
    stagger_s: float = 2.0,
    replicas: int = 1,
    routing: Routing = Routing.session,
) -> Replayed:
    """A closed loop of `users` users for duration_s virtual seconds (see `simulate`).

    think_time_s is the mean of an exponential pause between their episodes. Raises AnalysisError
    when the engine cannot serve a turn of an episode.
    """
    load = Closed(users=users, think_s=think_time_s, stagger_s=stagger_s)
    result = simulate(engine, mix, load, tools, duration_s, seed, replicas, routing)
    return _records(result, f"u{users}", users, duration_s)


def replay_open(
    engine: Engine,
    mix: Sequence[EpisodeShape],
    episodes_per_s: float,
    tools: Mapping[str, ToolLaw],
    duration_s: float,
    seed: int,
    replicas: int = 1,
    routing: Routing = Routing.session,
) -> Replayed:
    """Episodes that begin as a Poisson process, whatever the engine does (see `simulate`).

    Each is a user of its own; the point says 0 users. Raises AnalysisError as `replay` does.
    """
    load = Open(episodes_per_s=episodes_per_s)
    result = simulate(engine, mix, load, tools, duration_s, seed, replicas, routing)
    return _records(result, f"r{episodes_per_s:g}", 0, duration_s)


def _records(result: Simulated, point: str, users: int, duration_s: float) -> Replayed:
    episodes = result.episodes
    return Replayed(
        point=PointRecord(
            point=point,
            kind=PointKind.load,
            users=users,
            started_ns=0,
            issued_until_ns=_ns(duration_s),
            ended_ns=_ns(result.ended_s),
        ),
        cut=result.cut,
        llm=[_llm_record(point, turn) for one in episodes for turn in one.turns],
        tools=[_tool_record(point, call) for one in episodes for call in one.calls],
        episodes=[_episode_record(point, one) for one in episodes],
    )


def _ns(at_s: float) -> int:
    return round(at_s * NS_PER_S)


def _llm_record(point: str, turn: Turn) -> LLMRecord:
    episode = turn.episode
    sent_ns, first_ns, done_ns = _ns(turn.sent_s), _ns(turn.first_s), _ns(turn.done_s)
    final = turn.turn == len(episode.shape.turns)
    return LLMRecord(
        point=point,
        user=episode.user,
        episode=episode.number,
        turn=turn.turn,
        workload=episode.shape.workload,
        scheduled_ns=sent_ns,
        sent_ns=sent_ns,
        first_byte_ns=first_ns,
        first_delta_ns=first_ns,
        first_answer_ns=first_ns if final else None,
        last_delta_ns=done_ns,
        done_ns=done_ns,
        prompt_tokens=turn.prompt_tokens,
        cached_tokens=turn.cached_tokens,
        output_tokens=turn.output_tokens,
        chunks=turn.output_tokens,
        status=200,
        outcome=LLMOutcome.ok,
        finish_reason="stop" if final else "tool_calls",
        final=final,
    )


def _tool_record(point: str, call: ToolCall) -> ToolRecord:
    return ToolRecord(
        point=point,
        user=call.episode.user,
        episode=call.episode.number,
        turn=call.turn,
        call=call.call,
        tool=call.tool,
        name=call.tool,
        arguments="{}",
        sent_ns=_ns(call.sent_s),
        done_ns=_ns(call.done_s),
        outcome=ToolOutcome.ok,
    )


def _episode_record(point: str, episode: Episode) -> EpisodeRecord:
    assert episode.done_s is not None
    return EpisodeRecord(
        point=point,
        user=episode.user,
        episode=episode.number,
        task=episode.shape.workload.value,
        workload=episode.shape.workload,
        control="scripted",
        tools="recorded",
        scheduled_ns=_ns(episode.scheduled_s),
        started_ns=_ns(episode.scheduled_s),
        first_answer_ns=_ns(episode.turns[-1].first_s),
        done_ns=_ns(episode.done_s),
        outcome=EpisodeOutcome.answered,
        turns=len(episode.turns),
    )


def idle_grid(
    engine: Engine,
    prompt_tokens: Sequence[int],
    hit_rates: Sequence[float],
    repeats: int,
    output_tokens: int,
    seed: int,
) -> list[LLMRecord]:
    """Single requests on an idle engine: every prompt length at every planned hit rate.

    A warm cell first serves its prefix (not recorded), then the prompt that shares it. The engine
    is idle before each request; its cell is named by `cell_name`. Raises AnalysisError when the
    engine cannot serve a prompt.
    """
    scheduler = Scheduler(engine, seed, each_token=False)
    for tokens in prompt_tokens:
        require_fit(scheduler, engine, f"prompt_tokens={tokens}", tokens, output_tokens)
    records: list[LLMRecord] = []
    now_s, count = 0.0, 0
    for tokens in prompt_tokens:
        for rate in hit_rates:
            for repeat in range(repeats):
                shared = int(tokens * rate) // engine.block_size
                if shared:
                    prefix = [hash((count, block)) for block in range(shared)]
                    primer = Request(
                        id=-count - 1,
                        prompt_tokens=shared * engine.block_size,
                        output_tokens=1,
                        max_tokens=1,
                        hashes=prefix,
                    )
                    _, now_s = _serve(scheduler, primer, now_s)
                request = Request(
                    id=count,
                    prompt_tokens=tokens,
                    output_tokens=output_tokens,
                    max_tokens=output_tokens,
                    hashes=[hash((count, block)) for block in range(tokens // engine.block_size)],
                )
                sent_s = now_s
                events, now_s = _serve(scheduler, request, sent_s)
                cell = cell_name(tokens, rate, repeat)
                records.append(_grid_record(request, cell, count, sent_s, events))
                count += 1
    return records


def _serve(scheduler: Scheduler, request: Request, now_s: float) -> tuple[list[Tokens], float]:
    """Serve one request alone; its events and the time it ended."""
    scheduler.add(request, now_s)
    events: list[Tokens] = []
    while (next_s := scheduler.next_s()) is not None:
        now_s = next_s
        events += scheduler.advance(now_s)
    return events, now_s


def _grid_record(
    request: Request, cell: str, number: int, sent_s: float, events: Sequence[Tokens]
) -> LLMRecord:
    first_ns, last_ns = _ns(events[0].at_s), _ns(events[-1].at_s)
    return LLMRecord(
        point=GRID_POINT,
        user=0,
        episode=number,
        turn=0,
        cell=cell,
        scheduled_ns=_ns(sent_s),
        sent_ns=_ns(sent_s),
        first_byte_ns=first_ns,
        first_delta_ns=first_ns,
        first_answer_ns=first_ns,
        last_delta_ns=last_ns,
        done_ns=last_ns,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=events[0].cached_tokens,
        output_tokens=request.output_tokens,
        chunks=request.output_tokens,
        status=200,
        outcome=LLMOutcome.ok,
        finish_reason="length",
        final=True,
    )
