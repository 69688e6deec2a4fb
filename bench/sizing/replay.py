"""The simulated engine on a virtual clock: the same Scheduler, no waiting.

`replay` runs a closed loop of ReAct episodes against one replica, `idle_grid` single requests on
an idle engine; both give the records that a real run would, in virtual nanoseconds. So every
analysis can be run on known laws (the oracle test), and the planner can ask "what if"
(methods.md sections 7 and 8).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from bench.episode import Purpose, Workload, substream
from bench.errors import AnalysisError
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

ToolLaw = Callable[[np.random.Generator], float]
HOLD_FACTOR = 20.0  # a limit: members that take longer than this many durations are cut


class TurnShape(msgspec.Struct, frozen=True, kw_only=True):
    """One planned turn: tokens of thought and call, the tools called (in parallel when several),
    and the tokens that all their observations add to the prompt."""

    call_tokens: int
    tools: list[str]
    observation_tokens: int


class EpisodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of episode. system_tokens are shared by every episode, question_tokens are not."""

    workload: Workload
    weight: float
    system_tokens: int
    question_tokens: int
    turns: list[TurnShape]
    answer_tokens: int


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


def _ns(at_s: float) -> int:
    return round(at_s * NS_PER_S)


class _Episode(msgspec.Struct, eq=False):
    user: int
    number: int
    shape: EpisodeShape
    scheduled_s: float
    prompt_tokens: int
    turn: int = 0
    sent_s: float = 0.0
    first_s: float | None = None
    answer_s: float | None = None
    cached_tokens: int = 0
    llm: list[LLMRecord] = []
    tools: list[ToolRecord] = []

    @property
    def output_tokens(self) -> int:
        turns = self.shape.turns
        return turns[self.turn].call_tokens if self.turn < len(turns) else self.shape.answer_tokens


class _Loop:
    """Users, engine and a heap of what happens next. Times are virtual seconds."""

    def __init__(
        self,
        engine: Engine,
        mix: Sequence[EpisodeShape],
        users: int,
        think_time_s: float,
        tools: Mapping[str, ToolLaw],
        duration_s: float,
        seed: int,
    ) -> None:
        self.point = f"u{users}"
        self.scheduler = Scheduler(engine, seed, each_token=False)
        self.members_left = 0
        self.done_llm: list[LLMRecord] = []
        self.done_tools: list[ToolRecord] = []
        self.done_episodes: list[EpisodeRecord] = []
        self._block_size = engine.block_size
        self._mix = mix
        self._weights = np.array([shape.weight for shape in mix]) / sum(s.weight for s in mix)
        self._think_time_s = think_time_s
        self._tools = tools
        self._duration_s = duration_s
        self._seed = seed
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._serving: dict[int, _Episode] = {}

    def at(self, when_s: float, what: Callable[[float], None]) -> None:
        """Do something at a time; what is said first happens first at equal times."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, what))

    def run(self, limit_s: float) -> float:
        """Until the last member has ended, or limit_s; the time it ended."""
        now_s = 0.0
        while now_s < limit_s:
            engine_s = self.scheduler.next_s()
            heap_s = self._heap[0][0] if self._heap else None
            times = [at_s for at_s in (engine_s, heap_s) if at_s is not None]
            if not times:
                break
            now_s = min(times)
            for event in self.scheduler.advance(now_s):
                self._token(event)
            while self._heap and self._heap[0][0] <= now_s:
                heapq.heappop(self._heap)[2](now_s)
            if now_s >= self._duration_s and self.members_left == 0:
                break
        return now_s

    def begin(self, user: int, number: int, now_s: float) -> None:
        """Schedule a user's next episode now."""
        rng = substream(self._seed, user, number, 0, Purpose.task)
        shape = self._mix[int(rng.choice(len(self._mix), p=self._weights))]
        prompt_tokens = shape.system_tokens + shape.question_tokens
        episode = _Episode(user, number, shape, now_s, prompt_tokens)
        if now_s < self._duration_s:
            self.members_left += 1
        self._send(episode, now_s)

    def _send(self, episode: _Episode, now_s: float) -> None:
        self._count += 1
        episode.sent_s, episode.first_s = now_s, None
        total = episode.prompt_tokens + episode.output_tokens
        shared = episode.shape.system_tokens // self._block_size
        key = (episode.user, episode.number)
        hashes = [
            hash(block) if block < shared else hash((*key, block))
            for block in range(total // self._block_size)
        ]
        self._serving[self._count] = episode
        self.scheduler.add(
            Request(
                id=self._count,
                prompt_tokens=episode.prompt_tokens,
                output_tokens=episode.output_tokens,
                max_tokens=episode.output_tokens,
                hashes=hashes,
            ),
            now_s,
        )

    def _token(self, event: Tokens) -> None:
        episode = self._serving[event.id]
        if episode.first_s is None:
            episode.first_s = event.at_s
            episode.cached_tokens = event.cached_tokens
        if not event.finished:
            return
        del self._serving[event.id]
        final = episode.turn == len(episode.shape.turns)
        if final:
            episode.answer_s = episode.first_s
        episode.llm.append(self._llm_record(episode, event.at_s, final))
        if final:
            self._end(episode, event.at_s)
        else:
            self._call(episode, event.at_s)

    def _llm_record(self, episode: _Episode, done_s: float, final: bool) -> LLMRecord:
        assert episode.first_s is not None
        first_ns = _ns(episode.first_s)
        return LLMRecord(
            point=self.point,
            user=episode.user,
            episode=episode.number,
            turn=episode.turn,
            workload=episode.shape.workload,
            scheduled_ns=_ns(episode.sent_s),
            sent_ns=_ns(episode.sent_s),
            first_byte_ns=first_ns,
            first_delta_ns=first_ns,
            first_answer_ns=first_ns if final else None,
            last_delta_ns=_ns(done_s),
            done_ns=_ns(done_s),
            prompt_tokens=episode.prompt_tokens,
            cached_tokens=episode.cached_tokens,
            output_tokens=episode.output_tokens,
            chunks=episode.output_tokens,
            status=200,
            outcome=LLMOutcome.ok,
            finish_reason="stop" if final else "tool_calls",
            final=final,
        )

    def _call(self, episode: _Episode, now_s: float) -> None:
        shape = episode.shape.turns[episode.turn]
        rng = substream(self._seed, episode.user, episode.number, episode.turn, Purpose.tool_delay)
        back_s = now_s
        for call, tool in enumerate(shape.tools):
            delay_s = self._tools[tool](rng)
            back_s = max(back_s, now_s + delay_s)
            episode.tools.append(
                ToolRecord(
                    point=self.point,
                    user=episode.user,
                    episode=episode.number,
                    turn=episode.turn,
                    call=call,
                    tool=tool,
                    name=tool,
                    arguments="{}",
                    sent_ns=_ns(now_s),
                    done_ns=_ns(now_s + delay_s),
                    outcome=ToolOutcome.ok,
                )
            )
        episode.prompt_tokens += shape.call_tokens + shape.observation_tokens
        episode.turn += 1
        self.at(back_s, partial(self._send, episode))

    def _end(self, episode: _Episode, now_s: float) -> None:
        assert episode.answer_s is not None
        self.done_llm += episode.llm
        self.done_tools += episode.tools
        self.done_episodes.append(
            EpisodeRecord(
                point=self.point,
                user=episode.user,
                episode=episode.number,
                task=episode.shape.workload.value,
                workload=episode.shape.workload,
                control="scripted",
                tools="recorded",
                scheduled_ns=_ns(episode.scheduled_s),
                started_ns=_ns(episode.scheduled_s),
                first_answer_ns=_ns(episode.answer_s),
                done_ns=_ns(now_s),
                outcome=EpisodeOutcome.answered,
                turns=episode.turn + 1,
            )
        )
        if episode.scheduled_s < self._duration_s:
            self.members_left -= 1
        think = substream(self._seed, episode.user, episode.number, 0, Purpose.think)
        pause_s = float(think.exponential(self._think_time_s)) if self._think_time_s > 0 else 0.0
        self.at(now_s + pause_s, partial(self.begin, episode.user, episode.number + 1))


def replay(
    engine: Engine,
    mix: Sequence[EpisodeShape],
    users: int,
    think_time_s: float,
    tools: Mapping[str, ToolLaw],
    duration_s: float,
    seed: int,
    stagger_s: float = 2.0,
) -> Replayed:
    """A closed loop of `users` users on one replica for duration_s virtual seconds.

    Each user runs episodes drawn from `mix` by weight; think_time_s is the mean of an exponential
    pause between them. tools: seconds of one call, by tool name, from a keyed generator. Episodes
    that start before duration_s are members; the load is held until the last of them has ended.
    Every draw comes from a substream keyed by (user, episode, turn, purpose), so two engines see
    the same work. Raises AnalysisError when the engine cannot serve a turn of an episode.
    """
    _check_fit(engine, mix)
    loop = _Loop(engine, mix, users, think_time_s, tools, duration_s, seed)
    for user in range(users):
        start_s = float(substream(seed, user, 0, 0, Purpose.stagger).uniform(0, stagger_s))
        loop.at(start_s, partial(loop.begin, user, 0))
    ended_s = loop.run(duration_s * HOLD_FACTOR)
    point = PointRecord(
        point=loop.point,
        kind=PointKind.load,
        users=users,
        started_ns=0,
        issued_until_ns=_ns(duration_s),
        ended_ns=_ns(ended_s),
    )
    return Replayed(
        point=point,
        cut=loop.members_left,
        llm=loop.done_llm,
        tools=loop.done_tools,
        episodes=loop.done_episodes,
    )


def _check_fit(engine: Engine, mix: Sequence[EpisodeShape]) -> None:
    scheduler = Scheduler(engine, 0)
    for shape in mix:
        what = f"workload={shape.workload.value}"
        prompt_tokens = shape.system_tokens + shape.question_tokens
        for turn in shape.turns:
            _require_fit(scheduler, engine, what, prompt_tokens, turn.call_tokens)
            prompt_tokens += turn.call_tokens + turn.observation_tokens
        _require_fit(scheduler, engine, what, prompt_tokens, shape.answer_tokens)


def _require_fit(
    scheduler: Scheduler, engine: Engine, what: str, prompt_tokens: int, output_tokens: int
) -> None:
    if not scheduler.refusal(prompt_tokens, output_tokens):
        return
    if prompt_tokens < 1 or output_tokens < 1:
        raise AnalysisError(
            what,
            f"a call of {prompt_tokens} prompt and {output_tokens} output tokens asks for nothing",
            "give every call at least one token of each",
        )
    raise AnalysisError(
        what,
        f"a call of {prompt_tokens} prompt and {output_tokens} output tokens does not fit into "
        f"engine={engine.name} (max_model_len={engine.max_model_len}, "
        f"kv_tokens={engine.kv_tokens})",
        "plan fewer tokens, or raise engine.max_model_len and engine.kv_tokens",
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
        _require_fit(scheduler, engine, f"prompt_tokens={tokens}", tokens, output_tokens)
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
