"""Scenario = engine + workload + load + tools + slo + seed; each part checks itself.

Flat dataclasses, because Hydra's structured configs are: no tuples, no Literal, Enums tell
variants apart, and all checks live in `__post_init__` (run by `OmegaConf.to_object`).
Every default that someone may change is in `conf/`; those here only say "not given".
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bench.episode import Workload as WorkloadName
from bench.errors import ConfigError

SECRET_OPTIONS = ("--api-key", "--hf-token")  # of vLLM
SECRET_NAMES = frozenset(
    {"password", "passwd", "sslpassword", "api_key", "api-key", "apikey", "key", "token"}
)  # in the query of a URL
PASSWORD_WORD = re.compile(r"(?:^|\s)(?:ssl)?password\s*=", re.IGNORECASE)  # in a DSN of words

# OmegaConf's mark for "must be given". A default of the part's own type would be built, and so
# checked, when the schema is registered.
MISSING: Any = "???"
WEEK_S = 7 * 86400.0
MAX_PORT = 65535
MAX_TOP_K = 100


class EngineKind(enum.Enum):
    """Where the tokens come from."""

    simulated = "simulated"
    attached = "attached"
    vllm = "vllm"


class Control(enum.Enum):
    """Who decides the next turn (methods.md section 2)."""

    live = "live"
    scripted = "scripted"


class Descriptions(enum.Enum):
    """Which face of the tools the model sees."""

    strong = "strong"
    weak = "weak"


class ToolSource(enum.Enum):
    """Where the tools run."""

    embedded = "embedded"  # real services, started here
    attached = "attached"  # real services at URLs
    recorded = "recorded"  # planned observations after stated delays


class LoadKind(enum.Enum):
    """How episodes arrive."""

    closed = "closed"  # users: the next episode follows the one before
    open = "open"  # at a rate, whatever the engine does
    trace = "trace"  # at the times of a file
    steps = "steps"  # users or rates that change in stages


class Arrivals(enum.Enum):
    """The law of the gaps between two arrivals of an open load."""

    poisson = "poisson"
    constant = "constant"
    gamma = "gamma"  # of a stated coefficient of variation


class RepeatOrder(enum.Enum):
    """In which order the repeats of the points are run."""

    interleaved = "interleaved"  # all points, then all of them again
    sequence = "sequence"  # every repeat of a point, then the next point


class Direction(enum.Enum):
    """On which side of the bound an objective is met."""

    below = "below"
    above = "above"


@dataclass
class StepTime:
    """Coefficients of the step-time law (methods.md section 7), milliseconds.

    a: fixed, floor: weights read, b: per computed token, c: attention per 1e6 token pairs,
    d: per decoding sequence, e: per 1e3 KV tokens decoding, host: per step, request: per request.
    """

    a: float = 0.0
    floor: float = 0.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    e: float = 0.0
    host: float = 0.0
    request: float = 0.0
    jitter_cv: float = 0.0

    def __post_init__(self) -> None:
        _finite("engine.step", self)
        for part in dataclasses.fields(self):
            _not_negative(f"engine.step.{part.name}", getattr(self, part.name))


@dataclass
class Engine:
    """What is under test: the simulated engine, a running URL, or a vLLM that we launch."""

    kind: EngineKind = EngineKind.simulated
    name: str = ""  # label in every table, e.g. "h100-70b-fp8-tp4"
    model: str = ""
    gpu: str = ""
    gpu_memory_gib: float = 80.0
    tensor_parallel: int = 1
    replicas: int = 1
    max_model_len: int = 16384
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    kv_tokens: int = 0  # KV cache capacity, tokens (simulated; vLLM reports its own)
    block_size: int = 16
    prefix_caching: bool = True
    quantization: str = ""
    kv_dtype: str = ""
    tool_call_parser: str = ""
    extra_args: list[str] = field(default_factory=list)
    url: str = ""  # attached: ends in /v1
    key_env: str = ""  # name of the environment variable that holds the API key
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    start_timeout_s: float = 60.0
    provenance: str = ""  # where the coefficients come from
    step: StepTime = field(default_factory=StepTime)
    preset_ttft_ms: list[float] = field(default_factory=list)  # seed preset: TTFT by turn
    preset_tpot_ms: float = 0.0
    preset_synthesis_ms: dict[str, float] = field(default_factory=dict)  # by workload
    # The simulated model picks a wrong tool on purpose, to test that it is noticed:
    error_rate: float = 0.0  # in this share of its turns,
    error_rate_per_request: float = 0.0  # and so much more for each request at the engine

    def __post_init__(self) -> None:
        _finite("engine", self)
        if self.kind is EngineKind.attached:
            self._check_attached()
        _positive("engine.tensor_parallel", self.tensor_parallel)
        _positive("engine.gpu_memory_gib", self.gpu_memory_gib)
        _not_negative("engine.kv_tokens", self.kv_tokens)
        _not_negative("engine.preset_tpot_ms", self.preset_tpot_ms)
        _between("engine.port", self.port, 0, MAX_PORT)
        _positive("engine.replicas", self.replicas)
        _positive("engine.max_model_len", self.max_model_len)
        _positive("engine.max_num_seqs", self.max_num_seqs)
        _positive("engine.max_num_batched_tokens", self.max_num_batched_tokens)
        _positive("engine.block_size", self.block_size)
        _positive("engine.start_timeout_s", self.start_timeout_s)
        if not self.name:
            raise ConfigError("engine.name=''", "every table needs a label", "set engine.name")
        _no_secret("engine.url", self.url, "export the key and name it in engine.key_env")
        for word in self.extra_args:
            option = word.partition("=")[0].replace("_", "-")
            if option in SECRET_OPTIONS or option.endswith("-password"):
                raise ConfigError(
                    f"engine.extra_args with {option}",
                    "would write a secret into the run's records",
                    "export VLLM_API_KEY (or HF_TOKEN) and set engine.key_env=VLLM_API_KEY",
                )
        if self.kind is EngineKind.simulated and self.kv_tokens < self.max_model_len:
            raise ConfigError(
                f"engine.kv_tokens={self.kv_tokens}",
                f"one prompt of engine.max_model_len={self.max_model_len} tokens would not fit",
                "raise engine.kv_tokens or lower engine.max_model_len",
            )

    def _check_attached(self) -> None:
        """What cannot be seen over a URL must be said: the plan counts GPUs of this kind."""
        if not self.url:
            raise ConfigError(
                "engine.url=''",
                "an attached engine is reached by its URL",
                "set engine.url=http://HOST:PORT/v1",
            )
        _check_url("engine.url", self.url)
        if self.tensor_parallel < 1:
            raise ConfigError(
                f"engine.tensor_parallel={self.tensor_parallel}",
                "on how many GPUs an attached engine runs cannot be seen from here",
                "set engine.tensor_parallel to the server's --tensor-parallel-size",
            )
        if not self.gpu:
            raise ConfigError(
                "engine.gpu=''",
                "the kind of GPU of an attached engine cannot be seen from here",
                "set e.g. engine.gpu=H100-SXM-80GB",
            )


@dataclass
class Workload:
    """What the users ask: the material of a scenario and how often each shape occurs."""

    material: str = "contracts"  # a folder of scenarios/, or a path
    mix: dict[str, float] = field(default_factory=dict)  # workload name -> weight
    selection: str = "own"  # own | pool | a JSONL file
    selection_items: int = 0  # at most so many, stratified; 0: all
    control: Control = Control.live
    descriptions: Descriptions = Descriptions.strong
    iteration_limit: int = 5
    call_tokens: int = 30  # scripted: thought and call
    answer_tokens: int = 60  # scripted: final answer
    max_tokens: int = 512
    temperature: float = 0.0
    request_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        _finite("workload", self)
        names = {name.value for name in WorkloadName}
        for name, weight in self.mix.items():
            if name not in names:
                raise ConfigError(
                    f"workload.mix.{name}",
                    "is no workload",
                    f"use {', '.join(sorted(names))}",
                )
            if weight < 0:
                raise ConfigError(
                    f"workload.mix.{name}={weight}", "a weight is not negative", "use 0 or more"
                )
        if not sum(self.mix.values()) > 0:
            raise ConfigError(
                "workload.mix", "gives no workload a weight", "set e.g. workload.mix.react_2=1"
            )
        _positive("workload.iteration_limit", self.iteration_limit)
        _positive("workload.call_tokens", self.call_tokens)
        _positive("workload.answer_tokens", self.answer_tokens)
        _positive("workload.max_tokens", self.max_tokens)
        _positive("workload.request_timeout_s", self.request_timeout_s)
        _not_negative("workload.temperature", self.temperature)
        _not_negative("workload.selection_items", self.selection_items)
        selecting = self.mix.get("selection", 0.0) > 0
        if selecting and self.control is Control.scripted:
            raise ConfigError(
                "workload.control=scripted with workload.mix.selection>0",
                "a scripted model chooses nothing, so nothing could be graded",
                "set workload.control=live or workload.mix.selection=0",
            )

    @property
    def chooses_tools(self) -> bool:
        """True when the model is to call tools by itself in some workload of the mix."""
        dealt = {name for name, weight in self.mix.items() if weight > 0}
        return self.control is Control.live and dealt != {WorkloadName.naive_rag.value}


@dataclass
class Stage:
    """One stage of a load in steps: so many users, or so many episodes a second."""

    users: int = 0
    rate: float = 0.0  # episodes/s
    duration_s: float = 30.0  # ramp included
    ramp_s: float = 0.0  # linear from the stage before (from 0 in the first); 0: a step

    def __post_init__(self) -> None:
        _positive("load.stages.duration_s", self.duration_s)
        if self.users < 0 or self.rate < 0:
            raise ConfigError(
                f"load.stages: users={self.users}, rate={self.rate:g}",
                "neither is negative",
                "use 0 or more",
            )
        if not 0 <= self.ramp_s <= self.duration_s:
            raise ConfigError(
                f"load.stages.ramp_s={self.ramp_s:g}",
                f"a ramp lies within its stage of duration_s={self.duration_s:g}",
                "shorten it",
            )


@dataclass
class Load:
    """How episodes arrive, at which points, and for how long each point lasts.

    `kind` says which of users, rates, traces and stages name the points; the others stay empty.
    """

    kind: LoadKind = LoadKind.closed
    users: list[int] = field(default_factory=list)  # closed
    rates: list[float] = field(default_factory=list)  # open: episodes/s
    traces: list[str] = field(default_factory=list)  # trace: files, .csv or .jsonl
    stages: list[Stage] = field(default_factory=list)  # steps
    arrivals: Arrivals = Arrivals.poisson  # open, and stages with rates
    cv: float = 0.0  # gamma: coefficient of variation of the gaps
    speed: float = 1.0  # trace: 2 plays it in half the time
    max_in_flight: int = 4096  # not closed: a point that reaches it is ended and says so
    repeats: int = 1  # of every point, each with a salt of its own
    order: RepeatOrder = RepeatOrder.interleaved
    think_time_s: float = 0.0
    duration_s: float = 25.0  # episodes that start within are members
    hold_s: float = 30.0  # limit for holding the load until the last member has ended
    stagger_s: float = 2.0  # users start within this time
    workers: int = 1  # load workers: processes of Locust, each with its own episode host
    master_host: str = "127.0.0.1"  # where Locust's master listens, for workers > 1
    master_port: int = 0  # 0: a free one
    web: bool = False  # Locust's web page instead of headless
    web_port: int = 8089
    grid_prompt_tokens: list[int] = field(default_factory=list)
    grid_hit_rates: list[float] = field(default_factory=list)
    grid_repeats: int = 0
    grid_output_tokens: int = 8

    def __post_init__(self) -> None:
        _finite("load", self)
        _check_points(self)
        _check_arrivals(self)
        _check_users(self)
        _positive("load.duration_s", self.duration_s)
        _positive("load.hold_s", self.hold_s)
        _positive("load.max_in_flight", self.max_in_flight)
        _positive("load.repeats", self.repeats)
        if self.think_time_s < 0 or self.stagger_s < 0 or self.grid_repeats < 0:
            raise ConfigError(
                "load", "think_time_s, stagger_s and grid_repeats are not negative", "use 0 or more"
            )
        for rate in self.grid_hit_rates:
            if not 0 <= rate < 1:
                raise ConfigError(
                    f"load.grid_hit_rates={rate}",
                    "a hit rate is at least 0 and below 1 (the last token is always computed)",
                    "use e.g. [0,0.5,0.9]",
                )
        for tokens in self.grid_prompt_tokens:
            _positive("load.grid_prompt_tokens", tokens)
        _positive("load.grid_output_tokens", self.grid_output_tokens)
        for name in ("duration_s", "hold_s", "think_time_s", "stagger_s"):
            _between(f"load.{name}", getattr(self, name), 0, WEEK_S)
        _between("load.web_port", self.web_port, 1, MAX_PORT)

    @property
    def in_users(self) -> bool:
        """True when users make the load: closed, or stages that name users."""
        return bool(self.users) or any(stage.users for stage in self.stages)


_POINTS_OF = {
    LoadKind.closed: ("users", "users=[4,8]"),
    LoadKind.open: ("rates", "rates=[0.5,1]"),
    LoadKind.trace: ("traces", "traces=[FILE.csv]"),
    LoadKind.steps: ("stages", "stages=[{users: 4, duration_s: 30},{users: 8, duration_s: 30}]"),
}


def _check_points(load: Load) -> None:
    """The list that belongs to the kind names each point once; the other lists are empty."""
    own, example = _POINTS_OF[load.kind]
    if not getattr(load, own):
        raise ConfigError(
            f"load.{own}=[]",
            f"there is no point to run, and load.kind={load.kind.value} takes them from there",
            f"set load.{example}",
        )
    for kind, (name, _) in _POINTS_OF.items():
        if name != own and getattr(load, name):
            raise ConfigError(
                f"load.{name}={getattr(load, name)}",
                f"load.kind={load.kind.value} takes its points from load.{own}",
                f"set load.{name}=[] or load.kind={kind.value}",
            )
    for users in load.users:
        _positive("load.users", users)
    for rate in load.rates:
        _positive("load.rates", rate)
    for name in ("users", "rates", "traces"):
        points = [p if isinstance(p, str) else f"{p:g}" for p in getattr(load, name)]
        if len(set(points)) < len(points):
            raise ConfigError(
                f"load.{name}=[{', '.join(points)}]",
                "a point occurs twice",
                "name each once; load.repeats=2 runs every point twice",
            )


def _check_arrivals(load: Load) -> None:
    """The law of arrivals and its numbers fit together."""
    timed = load.kind is LoadKind.open or (load.kind is LoadKind.steps and not load.in_users)
    if timed and load.arrivals is Arrivals.gamma and not load.cv > 0:
        raise ConfigError(
            f"load.cv={load.cv:g}",
            "gamma arrivals need the coefficient of variation of their gaps",
            "set e.g. load.cv=2 (1 is Poisson, 0 would be constant)",
        )
    if load.cv and not (timed and load.arrivals is Arrivals.gamma):
        raise ConfigError(
            f"load.cv={load.cv:g}",
            "only gamma arrivals of an open load have a coefficient of variation to choose",
            "set load.cv=0, or load.arrivals=gamma with load.rates",
        )
    _positive("load.speed", load.speed)
    if load.speed != 1 and load.kind is not LoadKind.trace:
        raise ConfigError(
            f"load.speed={load.speed:g}", "only a trace has a speed", "set load.speed=1"
        )
    with_users = [stage for stage in load.stages if stage.users]
    with_rates = [stage for stage in load.stages if stage.rate]
    if load.stages and bool(with_users) == bool(with_rates):
        raise ConfigError(
            "load.stages",
            "name both users and rates" if with_users else "name neither users nor rates",
            "give every stage users, or every stage a rate",
        )


def _check_users(load: Load) -> None:
    """What only users have, and how they are dealt to the workers."""
    _positive("load.workers", load.workers)
    if load.think_time_s and not load.in_users:
        raise ConfigError(
            f"load.think_time_s={load.think_time_s:g}",
            f"nobody thinks in load.kind={load.kind.value}: episodes arrive by themselves",
            "set load.think_time_s=0",
        )
    for users in load.users:
        if users < load.workers:
            raise ConfigError(
                f"load.users={users} with load.workers={load.workers}",
                "a worker would have no user",
                "lower load.workers or raise load.users",
            )


@dataclass
class Sql:
    """`sql_query`: PostgreSQL. The password comes from PGPASSWORD, never from here."""

    dsn: str = ""  # attached: postgresql://USER@HOST:PORT/DATABASE
    tables: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    timeout_s: float = 5.0
    max_rows: int = 50
    max_bytes: int = 16384
    pool_size: int = 16

    def __post_init__(self) -> None:
        _no_secret("tools.sql.dsn", self.dsn, "leave it out and export PGPASSWORD")
        _finite("tools.sql", self)
        for name in ("timeout_s", "max_rows", "max_bytes", "pool_size"):
            _positive(f"tools.sql.{name}", getattr(self, name))


@dataclass
class Vector:
    """`vector_search`: Qdrant. The key comes from QDRANT_API_KEY, never from here."""

    url: str = ""
    collection: str = "documents"
    top_k: int = 5
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        _no_secret("tools.vector.url", self.url, "leave it out and export QDRANT_API_KEY")
        _finite("tools.vector", self)
        _between("tools.vector.top_k", self.top_k, 1, MAX_TOP_K)
        _positive("tools.vector.timeout_s", self.timeout_s)


@dataclass
class Web:
    """`web_search`: SearXNG's JSON API. The delay law is for the embedded service only."""

    url: str = ""
    top_k: int = 5
    timeout_s: float = 5.0
    delay_s_p50: float = 0.6
    delay_sigma: float = 0.35  # of the lognormal
    delay_s_min: float = 0.2
    delay_s_max: float = 2.0
    failure_rate: float = 0.0

    def __post_init__(self) -> None:
        _no_secret("tools.web.url", self.url, "leave it out and put it into a proxy on this node")
        _finite("tools.web", self)
        _between("tools.web.top_k", self.top_k, 1, MAX_TOP_K)
        _positive("tools.web.timeout_s", self.timeout_s)
        for name in ("delay_s_p50", "delay_sigma", "delay_s_min", "delay_s_max"):
            _not_negative(f"tools.web.{name}", getattr(self, name))
        _between("tools.web.failure_rate", self.failure_rate, 0, 1)


@dataclass
class Tools:
    """Where the tools are and what they may do."""

    source: ToolSource = ToolSource.embedded
    retries: int = 1
    start_timeout_s: float = 60.0
    sql: Sql = field(default_factory=Sql)
    vector: Vector = field(default_factory=Vector)
    web: Web = field(default_factory=Web)
    delays_s: dict[str, float] = field(default_factory=dict)  # recorded: tool -> seconds

    def __post_init__(self) -> None:
        _finite("tools", self)
        if self.retries not in (0, 1):
            raise ConfigError(
                f"tools.retries={self.retries}",
                "the agent's rule is one retry at most",
                "set tools.retries=0 or 1",
            )
        _positive("tools.start_timeout_s", self.start_timeout_s)
        for tool, delay_s in self.delays_s.items():
            _not_negative(f"tools.delays_s.{tool}", delay_s)
        if self.source is ToolSource.attached:
            for key, value in (
                ("sql.dsn", self.sql.dsn),
                ("vector.url", self.vector.url),
                ("web.url", self.web.url),
            ):
                if not value:
                    raise ConfigError(
                        f"tools.{key}=''",
                        "attached tools are reached by their URL",
                        f"set tools.{key} or tools=embedded",
                    )
            for key, url in (("vector.url", self.vector.url), ("web.url", self.web.url)):
                _check_url(f"tools.{key}", url)
            if not self.sql.tables:
                raise ConfigError(
                    "tools.sql.tables=[]",
                    "the guard lets a query read the named tables only, so none could run",
                    "set e.g. tools.sql.tables=[public.orders,public.customers]",
                )


@dataclass
class Objective:
    """One line of an SLO. A quantile metric has `quantile`; a rate (tsa, ...) has none."""

    name: str = ""
    metric: str = (
        ""  # ttft_s | tpot_s | latency_s | ttfat_s | tool_s | tsa | answer_rate | error_rate
    )
    bound: float = 0.0
    direction: Direction = Direction.below
    quantile: float | None = None
    workload: str = ""  # only these episodes; empty: all but selection


QUANTILE_METRICS = ("ttft_s", "tpot_s", "latency_s", "ttfat_s", "tool_s")
RATE_METRICS = ("tsa", "answer_rate", "error_rate")


@dataclass
class Slo:
    """The objectives, the confidence of a verdict, and the validity gates."""

    objectives: list[Objective] = field(default_factory=list)
    target_users: int = 100  # for how many active users the hardware is sized
    gpus_per_node: int = 4
    plan_safety: float = 0.9  # share of each bound that a predicted value may use
    plan_tolerance: float = 0.15  # a plan further off its own measurements is rejected, share
    confidence: float = 0.95
    min_blocks: int = 20
    min_items: int = 400  # below, a TSA objective is undecided
    gate_client_cpu: float = 0.8
    gate_lag_s_p99: float = 0.01
    gate_error_rate: float = 0.01
    gate_tool_error_rate: float = 0.05
    gate_server_gap: float = 0.05
    gate_hit_rate_gap: float = 0.02

    def __post_init__(self) -> None:
        _finite("slo", self)
        for name in ("min_blocks", "min_items"):
            _positive(f"slo.{name}", getattr(self, name))
        for part in dataclasses.fields(self):
            if part.name.startswith("gate_"):
                _not_negative(f"slo.{part.name}", getattr(self, part.name))
        _positive("slo.target_users", self.target_users)
        _positive("slo.gpus_per_node", self.gpus_per_node)
        if not 0 < self.plan_safety <= 1:
            raise ConfigError(
                f"slo.plan_safety={self.plan_safety}", "is a share of the bound", "use e.g. 0.9"
            )
        if not 0 < self.plan_tolerance < 1:
            raise ConfigError(
                f"slo.plan_tolerance={self.plan_tolerance}",
                "is a relative difference between 0 and 1",
                "use e.g. 0.15",
            )
        if not 0.5 < self.confidence < 1:
            raise ConfigError(
                f"slo.confidence={self.confidence}", "lies between 0.5 and 1", "use 0.95"
            )
        for objective in self.objectives:
            _check_objective(objective)


def _check_objective(objective: Objective) -> None:
    what = f"slo.objectives[{objective.name}]"
    _finite(what, objective)
    if objective.metric in QUANTILE_METRICS:
        if objective.quantile is None or not 0 < objective.quantile < 1:
            raise ConfigError(
                f"{what}.quantile={objective.quantile}",
                f"{objective.metric} is judged at a quantile between 0 and 1",
                "set e.g. quantile: 0.95",
            )
    elif objective.metric not in RATE_METRICS:
        known = ", ".join(QUANTILE_METRICS + RATE_METRICS)
        raise ConfigError(f"{what}.metric={objective.metric}", "is no metric", f"use {known}")
    if objective.metric in RATE_METRICS:
        _between(f"{what}.bound", objective.bound, 0, 1)
    else:
        _positive(f"{what}.bound", objective.bound)
    if objective.workload and objective.workload not in WorkloadName.__members__:
        raise ConfigError(
            f"{what}.workload={objective.workload}",
            "is no workload",
            f"use {', '.join(WorkloadName.__members__)}",
        )


@dataclass
class Scenario:
    """Everything one run needs to know. `name` is the folder below results/."""

    name: str = "demo"
    seed: int = 20260604
    results: str = "results"
    dry_run: bool = False
    engine: Engine = MISSING
    workload: Workload = MISSING
    load: Load = MISSING
    tools: Tools = MISSING
    slo: Slo = MISSING

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise ConfigError(
                f"name={self.name!r}",
                "names a folder below results/",
                "use letters, digits, _ and -",
            )
        _not_negative("seed", self.seed)
        longest = max(self.load.grid_prompt_tokens, default=0) + self.load.grid_output_tokens
        if self.load.grid_repeats and longest > self.engine.max_model_len:
            raise ConfigError(
                f"load.grid_prompt_tokens={self.load.grid_prompt_tokens}",
                f"with load.grid_output_tokens={self.load.grid_output_tokens} the longest is above "
                f"engine.max_model_len={self.engine.max_model_len}",
                "leave out the longest, or set engine.max_model_len to the server's",
            )


def _no_secret(what: str, address: str, remedy: str) -> None:
    """Refuse a URL or DSN that holds a password or a key; the error does not repeat it."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise ConfigError(what, "is no address", "write scheme://HOST:PORT") from error
    user = parts.netloc.rpartition("@")[0]
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    secret = ":" in user or (user and parts.scheme in ("http", "https"))
    if secret or names & SECRET_NAMES or PASSWORD_WORD.search(address):
        raise ConfigError(what, "holds a secret, which would be written into the records", remedy)


def _positive(what: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{what}={value}", "must be above 0", f"set {what} to a positive number")


def _not_negative(what: str, value: float) -> None:
    if not value >= 0:
        raise ConfigError(f"{what}={value}", "must not be below 0", f"set {what} to 0 or more")


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        reason = f"must lie between {low:g} and {high:g}"
        raise ConfigError(f"{what}={value}", reason, f"set {what} to such a number")


def _finite(prefix: str, part: Any) -> None:
    """No number of a part, or in a list or mapping of it, may be NaN or infinite."""
    for known in dataclasses.fields(part):
        value = getattr(part, known.name)
        inside = value.values() if isinstance(value, dict) else value
        for number in inside if isinstance(value, dict | list) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                what = f"{prefix}.{known.name}"
                raise ConfigError(f"{what}={number}", "is no finite number", f"set {what} to one")


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        usable = False
    if not usable or any(character.isspace() for character in url):
        raise ConfigError(f"{what}={url}", "is no http or https URL", "use e.g. http://HOST:PORT")
