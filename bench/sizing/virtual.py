"""The simulated engine on a virtual clock: episodes of many users against one or more replicas.

The same Scheduler as behind the real-time server, without waiting. A closed loop (users who begin
their next episode when the last one has ended) or an open one (episodes begin at a rate, whatever
the engine does). While its tools run, an episode holds no blocks; what it computed stays in the
cache as long as there is room. Times are virtual seconds (methods.md sections 7 and 8).
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.episode import Purpose
from bench.errors import AnalysisError
from bench.scenario import Engine
from bench.simulator.scheduler import Request, Scheduler, Tokens
from bench.sizing.shapes import Content, EpisodeShape, Streams, ToolLaw

HOLD_FACTOR = 20.0  # a limit: members that take longer than this many durations are cut


class Routing(enum.Enum):
    """Which replica serves a call."""

    session = "session"  # all calls of a user go to the same one
    round_robin = "round_robin"
    least_loaded = "least_loaded"  # fewest requests, waiting or running


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """`users` users; think_s: mean of an exponential pause between their episodes, seconds.

    Their first episodes begin within the first stagger_s seconds.
    """

    users: int
    think_s: float = 0.0
    stagger_s: float = 2.0


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes begin as a Poisson process, each by a user of its own."""

    episodes_per_s: float


class Turn(msgspec.Struct, gc=False):
    """One model call. Seconds; tokens."""

    episode: Episode
    turn: int
    replica: int
    sent_s: float
    admitted_s: float
    first_s: float
    done_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


class ToolCall(msgspec.Struct, gc=False):
    """One tool call. Seconds."""

    episode: Episode
    turn: int
    call: int
    tool: str
    sent_s: float
    done_s: float


class Episode(msgspec.Struct, eq=False):
    """One episode; done_s is missing until it has ended."""

    user: int
    number: int
    shape: EpisodeShape
    scheduled_s: float
    prompt_tokens: int
    content: Content
    turn: int = 0
    done_s: float | None = None
    turns: list[Turn] = []
    calls: list[ToolCall] = []


class Simulated(msgspec.Struct, kw_only=True):
    """Ended episodes in the order of their end, with their turns.

    cut: members (begun before the duration was over) that had not ended at the time limit.
    """

    episodes: list[Episode]
    cut: int
    ended_s: float
    preemptions: int
    steps: int
    prefix_hits: int
    prefix_queries: int


def simulate(
    engine: Engine,
    mix: Sequence[EpisodeShape],
    load: Closed | Open,
    tools: Mapping[str, ToolLaw],
    duration_s: float,
    seed: int,
    replicas: int = 1,
    routing: Routing = Routing.session,
) -> Simulated:
    """Episodes drawn from `mix` by weight, for duration_s virtual seconds.

    tools: seconds of one call, by tool name, from a keyed generator. Episodes that begin before
    duration_s are members; the load is held until the last of them has ended. Every draw is keyed
    by (user, episode, turn, purpose), so two engines see the same work. Raises AnalysisError when
    the engine cannot serve a turn of an episode.
    """
    check_fit(engine, mix)
    world = _World(engine, mix, load, tools, duration_s, seed, replicas, routing)
    ended_s = world.run(duration_s * HOLD_FACTOR)
    engines = world.replicas
    return Simulated(
        episodes=world.done,
        cut=world.members_left,
        ended_s=ended_s,
        preemptions=sum(one.preemptions for one in engines),
        steps=sum(one.steps for one in engines),
        prefix_hits=sum(one.prefix_hits for one in engines),
        prefix_queries=sum(one.prefix_queries for one in engines),
    )


class _World:
    """Users, replicas, and a heap of what happens next."""

    def __init__(
        self,
        engine: Engine,
        mix: Sequence[EpisodeShape],
        load: Closed | Open,
        tools: Mapping[str, ToolLaw],
        duration_s: float,
        seed: int,
        replicas: int,
        routing: Routing,
    ) -> None:
        self.replicas = [
            Scheduler(engine, seed + 1_000_003 * number, each_token=False)
            for number in range(replicas)
        ]
        self.members_left = 0
        self.done: list[Episode] = []
        self._next_s = [math.inf] * replicas
        self._routing = routing
        self._routed = 0
        self._block_size = engine.block_size
        self._mix = mix
        weights = np.array([shape.weight for shape in mix], dtype=float)
        self._bounds = np.cumsum(weights / weights.sum())[:-1]
        self._load = load
        self._tools = tools
        self._duration_s = duration_s
        self._streams = Streams(seed)
        self._heap: list[tuple[float, int, Callable[[Any, float], None], Any]] = []
        self._count = 0
        self._serving: dict[int, Turn] = {}
        if isinstance(load, Closed):
            for user in range(load.users):
                stagger = self._streams.at(user, 0, 0, Purpose.stagger)
                self._at(float(stagger.uniform(0, load.stagger_s)), self._begin, (user, 0))
        else:
            self._arrive(0, 0.0)

    def run(self, limit_s: float) -> float:
        """Until the last member has ended, or limit_s; the time it ended."""
        now_s = 0.0
        heap, next_s = self._heap, self._next_s
        while now_s < limit_s:
            engine_s = min(next_s)
            if heap and heap[0][0] < engine_s:
                now_s, _, what, whom = heapq.heappop(heap)
                what(whom, now_s)
            elif engine_s < math.inf:
                now_s = engine_s
                self._advance(next_s.index(engine_s), now_s)
            else:
                break
            if self.members_left == 0 and now_s >= self._duration_s:
                break
        return now_s

    def _at(self, when_s: float, what: Callable[[Any, float], None], whom: Any) -> None:
        """Do something at a time; what is said first happens first at equal times."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, what, whom))

    def _advance(self, replica: int, now_s: float) -> None:
        scheduler = self.replicas[replica]
        for event in scheduler.advance(now_s):
            self._token(event)
        at_s = scheduler.next_s()
        self._next_s[replica] = math.inf if at_s is None else at_s

    def _arrive(self, user: int, now_s: float) -> None:
        """Open loop: the next user begins after an exponential pause, and so on."""
        assert isinstance(self._load, Open)
        if user:
            self._begin((user - 1, 0), now_s)
        gap_s = self._streams.at(user, 0, 0, Purpose.think).exponential()
        self._at(now_s + float(gap_s) / self._load.episodes_per_s, self._arrive, user + 1)

    def _begin(self, who: tuple[int, int], now_s: float) -> None:
        user, number = who
        drawn = self._streams.at(user, number, 0, Purpose.task).random()
        shape = self._mix[int(np.searchsorted(self._bounds, drawn, side="right"))]
        prompt_tokens = shape.system_tokens + shape.question_tokens
        content = Content(shape.system_tokens // self._block_size, user, number)
        episode = Episode(user, number, shape, now_s, prompt_tokens, content)
        if now_s < self._duration_s:
            self.members_left += 1
        self._send(episode, now_s)

    def _route(self, user: int) -> int:
        count = len(self.replicas)
        if count == 1:
            return 0
        if self._routing is Routing.session:
            return user % count
        if self._routing is Routing.round_robin:
            self._routed += 1
            return self._routed % count
        loads = [one.running + one.waiting for one in self.replicas]
        return loads.index(min(loads))

    def _send(self, episode: Episode, now_s: float) -> None:
        turns = episode.shape.turns
        number = episode.turn
        last = number == len(turns)
        output = episode.shape.answer_tokens if last else turns[number].call_tokens
        replica = self._route(episode.user)
        self._count += 1
        turn = Turn(
            episode, number, replica, now_s, math.nan, math.nan, math.nan, episode.prompt_tokens, 0,
            output,
        )  # fmt: skip
        self._serving[self._count] = turn
        scheduler = self.replicas[replica]
        request = Request(
            id=self._count,
            prompt_tokens=turn.prompt_tokens,
            output_tokens=output,
            max_tokens=output,
            hashes=episode.content,
        )
        scheduler.add(request, now_s)
        at_s = scheduler.next_s()
        assert at_s is not None
        self._next_s[replica] = at_s

    def _token(self, event: Tokens) -> None:
        turn = self._serving[event.id]
        if math.isnan(turn.first_s):
            turn.first_s = event.at_s
            turn.admitted_s = event.admitted_s
            turn.cached_tokens = event.cached_tokens
        if not event.finished:
            return
        del self._serving[event.id]
        turn.done_s = event.at_s
        episode = turn.episode
        episode.turns.append(turn)
        if turn.turn == len(episode.shape.turns):
            self._end(episode, event.at_s)
        else:
            self._call(episode, event.at_s)

    def _call(self, episode: Episode, now_s: float) -> None:
        shape = episode.shape.turns[episode.turn]
        rng = self._streams.at(episode.user, episode.number, episode.turn, Purpose.tool_delay)
        back_s = now_s
        for call, tool in enumerate(shape.tools):
            done_s = now_s + self._tools[tool](rng)
            back_s = max(back_s, done_s)
            episode.calls.append(ToolCall(episode, episode.turn, call, tool, now_s, done_s))
        episode.prompt_tokens += shape.call_tokens + shape.observation_tokens
        episode.turn += 1
        self._at(back_s, self._send, episode)

    def _end(self, episode: Episode, now_s: float) -> None:
        episode.done_s = now_s
        self.done.append(episode)
        if episode.scheduled_s < self._duration_s:
            self.members_left -= 1
        if isinstance(self._load, Open):
            return
        pause_s = 0.0
        if self._load.think_s > 0:
            think = self._streams.at(episode.user, episode.number, 0, Purpose.think)
            pause_s = float(think.exponential(self._load.think_s))
        self._at(now_s + pause_s, self._begin, (episode.user, episode.number + 1))


def check_fit(engine: Engine, mix: Sequence[EpisodeShape]) -> None:
    """Raises AnalysisError when the engine cannot serve every turn of every shape."""
    scheduler = Scheduler(engine, 0, each_token=False)
    for shape in mix:
        what = f"workload={shape.workload.value}"
        prompt_tokens = shape.system_tokens + shape.question_tokens
        for turn in shape.turns:
            require_fit(scheduler, engine, what, prompt_tokens, turn.call_tokens)
            prompt_tokens += turn.call_tokens + turn.observation_tokens
        require_fit(scheduler, engine, what, prompt_tokens, shape.answer_tokens)


def require_fit(
    scheduler: Scheduler, engine: Engine, what: str, prompt_tokens: int, output_tokens: int
) -> None:
    """Raises AnalysisError, naming `what`, when such a call can never be served."""
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
