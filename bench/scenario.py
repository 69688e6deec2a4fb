"""Scenario = engine + workload + load + tools + slo + seed; each part checks itself.

Flat dataclasses, because Hydra's structured configs are: no tuples, no Literal, Enums tell
variants apart, and all checks live in `__post_init__` (run by `OmegaConf.to_object`).
Every default that someone may change is in `conf/`; those here only say "not given".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from bench.episode import Workload as WorkloadName
from bench.errors import ConfigError

# OmegaConf's mark for "must be given". A default of the part's own type would be built, and so
# checked, when the schema is registered.
MISSING: Any = "???"


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

    closed = "closed"


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
        _positive("engine.tensor_parallel", self.tensor_parallel)
        _positive("engine.replicas", self.replicas)
        _positive("engine.max_model_len", self.max_model_len)
        _positive("engine.max_num_seqs", self.max_num_seqs)
        _positive("engine.max_num_batched_tokens", self.max_num_batched_tokens)
        _positive("engine.block_size", self.block_size)
        _positive("engine.start_timeout_s", self.start_timeout_s)
        if not self.name:
            raise ConfigError("engine.name=''", "every table needs a label", "set engine.name")
        if self.kind is EngineKind.attached and not self.url:
            raise ConfigError(
                "engine.url=''",
                "an attached engine is reached by its URL",
                "set engine.url=http://HOST:PORT/v1",
            )
        if self.kind is EngineKind.simulated and self.kv_tokens < self.max_model_len:
            raise ConfigError(
                f"engine.kv_tokens={self.kv_tokens}",
                f"one prompt of engine.max_model_len={self.max_model_len} tokens would not fit",
                "raise engine.kv_tokens or lower engine.max_model_len",
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
        selecting = self.mix.get("selection", 0.0) > 0
        if selecting and self.control is Control.scripted:
            raise ConfigError(
                "workload.control=scripted with workload.mix.selection>0",
                "a scripted model chooses nothing, so nothing could be graded",
                "set workload.control=live or workload.mix.selection=0",
            )


@dataclass
class Load:
    """How many users, how they arrive, and for how long each point lasts."""

    kind: LoadKind = LoadKind.closed
    users: list[int] = field(default_factory=list)
    think_time_s: float = 0.0
    duration_s: float = 25.0  # episodes that start within are members
    hold_s: float = 30.0  # limit for holding the load until the last member has ended
    stagger_s: float = 2.0  # users start within this time
    web: bool = False  # Locust's web page instead of headless
    web_port: int = 8089
    grid_prompt_tokens: list[int] = field(default_factory=list)
    grid_hit_rates: list[float] = field(default_factory=list)
    grid_repeats: int = 0
    grid_output_tokens: int = 8

    def __post_init__(self) -> None:
        if not self.users:
            raise ConfigError("load.users=[]", "there is no point to run", "set load.users=[4,8]")
        for users in self.users:
            _positive("load.users", users)
        if len(set(self.users)) < len(self.users):
            raise ConfigError(
                f"load.users={self.users}", "a point occurs twice", "name each number once"
            )
        _positive("load.duration_s", self.duration_s)
        _positive("load.hold_s", self.hold_s)
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


@dataclass
class Vector:
    """`vector_search`: Qdrant. The key comes from QDRANT_API_KEY, never from here."""

    url: str = ""
    collection: str = "documents"
    top_k: int = 5
    timeout_s: float = 5.0


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
        if self.retries not in (0, 1):
            raise ConfigError(
                f"tools.retries={self.retries}",
                "the agent's rule is one retry at most",
                "set tools.retries=0 or 1",
            )
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
        for part, timeout_s in (
            ("sql", self.sql.timeout_s),
            ("vector", self.vector.timeout_s),
            ("web", self.web.timeout_s),
        ):
            _positive(f"tools.{part}.timeout_s", timeout_s)


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
    confidence: float = 0.95
    min_blocks: int = 20
    min_items: int = 400  # below, a TSA objective is undecided
    gate_client_cpu: float = 0.8
    gate_lag_s_p99: float = 0.01
    gate_error_rate: float = 0.01
    gate_server_gap: float = 0.05
    gate_hit_rate_gap: float = 0.02

    def __post_init__(self) -> None:
        _positive("slo.target_users", self.target_users)
        _positive("slo.gpus_per_node", self.gpus_per_node)
        if not 0 < self.plan_safety <= 1:
            raise ConfigError(
                f"slo.plan_safety={self.plan_safety}", "is a share of the bound", "use e.g. 0.9"
            )
        if not 0.5 < self.confidence < 1:
            raise ConfigError(
                f"slo.confidence={self.confidence}", "lies between 0.5 and 1", "use 0.95"
            )
        for objective in self.objectives:
            _check_objective(objective)


def _check_objective(objective: Objective) -> None:
    what = f"slo.objectives[{objective.name}]"
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
        if not self.name or "/" in self.name:
            raise ConfigError(f"name={self.name!r}", "names a folder", "use letters and digits")


def _positive(what: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{what}={value}", "must be above 0", f"set {what} to a positive number")
