"""Facts, written once: LLMRecord, ToolRecord, EpisodeRecord, PointRecord, EngineSample.

Stamps are monotonic nanoseconds of one machine (methods.md section 1); every metric is a
property here and nowhere else. Missing is `None`, never 0.
"""

from __future__ import annotations

import enum
import re

import msgspec

from bench.episode import ToolCall, Workload

NS_PER_S = 1e9
GRID_POINT = "grid"  # the point of every record of the idle grid
PRIMER_SUFFIX = "-primer"  # ends the cell of a request that is recorded but is no sample
_COLD = re.compile(r"-h0(-|$)")
_REPEAT = re.compile(r"-r\d+$")


def cell_name(prompt_tokens: int, hit_rate: float, repeat: int) -> str:
    """The cell of a record of the idle grid: p<prompt>-h<hit>-r<repeat>, e.g. p4096-h0.5-r0.

    Prompt tokens and hit rate are those planned; `LLMRecord` reads the name back.
    """
    return f"p{prompt_tokens}-h{hit_rate:g}-r{repeat}"


def _seconds(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / NS_PER_S


class LLMOutcome(enum.Enum):
    """How one model call ended."""

    ok = "ok"
    transport_error = "transport_error"  # refused, reset, timed out, not HTTP 200
    stream_error = "stream_error"  # an error event, or the stream broke off
    parse_failure = "parse_failure"  # the answer or a call cannot be parsed
    truncated = "truncated"  # cut by max_tokens
    cut = "cut"  # cancelled by us after the window


class LLMRecord(msgspec.Struct, kw_only=True):
    """One model call. `turn` counts from 0; `point` names the load level or the grid."""

    point: str
    user: int
    episode: int
    turn: int
    workload: Workload | None = None  # None for the idle grid
    cell: str = ""  # of the idle grid (`cell_name`), e.g. "p4096-h0.5-r0"
    scheduled_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    first_delta_ns: int | None = None
    first_answer_ns: int | None = None
    last_delta_ns: int | None = None
    done_ns: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    chunks: int = 0
    status: int | None = None
    outcome: LLMOutcome
    error: str = ""
    finish_reason: str = ""
    calls: list[ToolCall] = []
    content: str = ""
    final: bool = False  # the turn that gave the answer
    collapsed: bool = False  # the whole stream came at once: TTFT is not used

    @property
    def ttft_s(self) -> float | None:
        """first_delta - sent, seconds."""
        return None if self.collapsed else _seconds(self.sent_ns, self.first_delta_ns)

    @property
    def ttft_scheduled_s(self) -> float | None:
        """first_delta - scheduled, seconds."""
        return None if self.collapsed else _seconds(self.scheduled_ns, self.first_delta_ns)

    @property
    def lag_s(self) -> float | None:
        """sent - scheduled, seconds: how late the client was."""
        return _seconds(self.scheduled_ns, self.sent_ns)

    @property
    def tpot_s(self) -> float | None:
        """(last_delta - first_delta) / (output_tokens - 1); None below two tokens."""
        if self.collapsed or self.output_tokens is None or self.output_tokens < 2:
            return None
        span = _seconds(self.first_delta_ns, self.last_delta_ns)
        return None if span is None else span / (self.output_tokens - 1)

    @property
    def decode_s(self) -> float | None:
        """From the first delta to the end of the answer."""
        return _seconds(self.first_delta_ns, self.done_ns)

    @property
    def latency_s(self) -> float | None:
        """done - sent: the whole call."""
        return _seconds(self.sent_ns, self.done_ns)

    @property
    def uncached_tokens(self) -> int | None:
        """Prompt tokens that the engine had to compute; None when it did not report the cached.

        A grid cell that was planned cold has none cached, whether reported or not.
        """
        if self.prompt_tokens is None:
            return None
        if self.cached_tokens is None:
            return self.prompt_tokens if self.is_planned_cold else None
        return self.prompt_tokens - self.cached_tokens

    @property
    def is_primer(self) -> bool:
        """True for a grid request that fills the cache, or measures the ruler: it is no sample."""
        return self.cell.endswith(PRIMER_SUFFIX)

    @property
    def is_planned_cold(self) -> bool:
        """True for a grid cell that was planned without a hit of the prefix cache."""
        return _COLD.search(self.cell) is not None

    @property
    def cell_of_repeats(self) -> str:
        """The grid cell without its repeat: the same for all of its repeats."""
        return _REPEAT.sub("", self.cell)


class ToolOutcome(enum.Enum):
    """How one tool execution ended."""

    ok = "ok"
    error = "error"
    timeout = "timeout"
    refused = "refused"  # by our guard
    unknown = "unknown"  # the model asked for a tool that does not exist
    cut = "cut"


class ToolRecord(msgspec.Struct, kw_only=True):
    """One execution of a tool. A retry is a record of its own (`attempt` 1)."""

    point: str
    user: int
    episode: int
    turn: int
    call: int
    attempt: int = 0
    tool: str  # canonical name, or what the model wrote if unknown
    name: str
    arguments: str
    sent_ns: int
    done_ns: int | None = None
    outcome: ToolOutcome
    error: str = ""
    rows: int | None = None
    bytes: int | None = None
    wait_s: float | None = None  # of latency_s: until a connection of our own pool was free
    in_flight: int | None = None  # other calls to this tool when this one started
    recorded: bool = False  # the observation was replayed, not fetched

    @property
    def latency_s(self) -> float | None:
        """done - sent, seconds."""
        return _seconds(self.sent_ns, self.done_ns)


class EpisodeOutcome(enum.Enum):
    """How an episode ended."""

    answered = "answered"
    iteration_limit = "iteration_limit"
    failed = "failed"  # a model call failed
    chosen = "chosen"  # a selection item: the model chose, nothing was executed
    cut = "cut"


class EpisodeRecord(msgspec.Struct, kw_only=True):
    """One episode, from its scheduled start to the last delta of the answer."""

    point: str
    user: int
    episode: int
    task: str
    workload: Workload
    control: str  # live | scripted
    tools: str  # live | recorded
    scheduled_ns: int
    started_ns: int
    first_answer_ns: int | None = None
    done_ns: int | None = None  # last delta of the answer
    outcome: EpisodeOutcome
    error: str = ""
    turns: int = 0
    answer: str = ""

    @property
    def latency_s(self) -> float | None:
        """done - scheduled, seconds; None unless the episode was answered."""
        answered = self.outcome in (EpisodeOutcome.answered, EpisodeOutcome.chosen)
        return _seconds(self.scheduled_ns, self.done_ns) if answered else None

    @property
    def ttfat_s(self) -> float | None:
        """Time to the first answer token, from the scheduled start."""
        return _seconds(self.scheduled_ns, self.first_answer_ns)


class ScheduledRecord(msgspec.Struct, kw_only=True):
    """One line per episode that Locust asked for: the plan against which records are counted."""

    point: str
    user: int
    episode: int
    scheduled_ns: int


class PointKind(enum.Enum):
    """What a point of a run is."""

    grid = "grid"  # the idle grid, concurrency 1
    load = "load"  # a load level


class PointRecord(msgspec.Struct, kw_only=True):
    """One point of a run. Written when it begins and again when it ends; the last line counts.

    Members are the episodes scheduled in [started_ns, issued_until_ns); what starts later only
    holds the load until the last member has ended.
    """

    point: str
    kind: PointKind
    users: int  # planned; 0: episodes arrive by themselves
    rate_per_s: float | None = None  # planned mean rate of episodes; None: users make the load
    started_ns: int
    issued_until_ns: int | None = None
    ended_ns: int | None = None
    client_cpu: float | None = None  # of one core, episode host, over the point
    error: str = ""


class EngineSample(msgspec.Struct, kw_only=True):
    """One scrape of the engine's /metrics; a counter that is absent is None."""

    point: str
    ns: int
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    e2e_sum_s: float | None = None
    e2e_count: float | None = None
    ttft_sum_s: float | None = None
    ttft_count: float | None = None
