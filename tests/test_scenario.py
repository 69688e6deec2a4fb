import dataclasses
import math
from typing import Any

import msgspec
import pytest

from bench.errors import ConfigError
from bench.scenario import (
    Arrivals,
    Control,
    Engine,
    EngineKind,
    Load,
    LoadKind,
    Objective,
    Scenario,
    Slo,
    Sql,
    Stage,
    StepTime,
    Tools,
    ToolSource,
    Vector,
    Web,
    Workload,
)
from makers import make_scenario

NAN = math.nan
BAD_URLS = ("host:8000/v1", "ftp://host/v1", "http://", "http://h:99999/v1", "http://a b/v1")


def attached(**changes: Any) -> Engine:
    facts: dict[str, Any] = {
        "name": "e",
        "kind": EngineKind.attached,
        "url": "http://h/v1",
        "tensor_parallel": 0,
    }
    return Engine(**(facts | changes))


def attached_tools(**changes: Any) -> Tools:
    facts: dict[str, Any] = {
        "sql": Sql(dsn="postgresql://h/d"),
        "vector": Vector(url="http://h"),
        "web": Web(url="http://h"),
    }
    return Tools(source=ToolSource.attached, **(facts | changes))


def test_what_is_attached_and_described_is_accepted() -> None:
    assert attached(tensor_parallel=4, gpu="H100").gpu == "H100"
    assert attached_tools(sql=Sql(dsn="postgresql://h/d", tables=["public.t"])).sql.tables


PARTS: dict[Any, dict[str, Any]] = {
    StepTime: {},
    Engine: {"name": "e", "kv_tokens": 1 << 20},
    Workload: {"mix": {"react_1": 1.0}},
    Load: {"users": [4]},
    Sql: {},
    Vector: {},
    Web: {},
    Tools: {},
    Slo: {},
}
FLOATS = [
    (kind, part.name)
    for kind in PARTS
    for part in dataclasses.fields(kind)
    if part.type in ("float", "list[float]", "dict[str, float]")
]


@pytest.mark.parametrize("value", [math.inf, math.nan, -math.inf])
@pytest.mark.parametrize(("kind", "name"), FLOATS)
def test_no_number_may_be_infinite_or_none_at_all(kind: Any, name: str, value: float) -> None:
    (declared,) = (part.type for part in dataclasses.fields(kind) if part.name == name)
    inside: dict[Any, Any] = {"list[float]": [value], "dict[str, float]": {"react_1": value}}
    given = inside.get(declared, value)
    with pytest.raises(ConfigError, match=f"{name}=.*is no finite number"):
        kind(**{**PARTS[kind], name: given})


def test_a_scenario_survives_json() -> None:
    scenario = Scenario(
        engine=Engine(name="e", kv_tokens=20000),
        workload=Workload(mix={"react_1": 1.0}),
        load=Load(users=[4]),
        tools=Tools(),
        slo=Slo(objectives=[Objective(name="p95", metric="ttft_s", quantile=0.95, bound=0.5)]),
    )
    assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: Engine(), "engine.name=''"),
        (lambda: Engine(name="e"), "engine.kv_tokens=0"),
        (lambda: Engine(name="e", kind=EngineKind.attached), "engine.url=''"),
        (lambda: Engine(name="e", url="https://u:Secret@h/v1"), "engine.url"),
        (lambda: Engine(name="e", url="https://Secret@h/v1"), "engine.url"),
        (lambda: Engine(name="e", url="https://h/v1?api_key=Secret"), "engine.url"),
        (lambda: Engine(name="e", extra_args=["--api-key", "Secret"]), "engine.extra_args"),
        (lambda: Engine(name="e", extra_args=["--api_key=Secret"]), "engine.extra_args"),
        (lambda: Sql(dsn="postgresql://u:Secret@h/d"), "tools.sql.dsn"),
        (lambda: Sql(dsn="postgresql://u@h/d?sslmode=a&password=Secret"), "tools.sql.dsn"),
        (lambda: Sql(dsn="host=h password = Secret"), "tools.sql.dsn"),
        (lambda: Sql(dsn="postgresql://u:Secret@[h/d"), "tools.sql.dsn"),
        (lambda: Vector(url="http://h?token=Secret"), "tools.vector.url"),
        (lambda: Web(url="http://u:Secret@h"), "tools.web.url"),
        (lambda: Engine(name="e", kv_tokens=1 << 20, tensor_parallel=0), "engine.tensor_parallel"),
        (lambda: Workload(), "workload.mix"),
        (lambda: Workload(mix={"react_9": 1.0}), "workload.mix.react_9"),
        (lambda: Workload(mix={"react_1": -1.0}), "workload.mix.react_1=-1.0"),
        (
            lambda: Workload(mix={"selection": 1.0}, control=Control.scripted),
            "workload.control=scripted",
        ),
        (lambda: Load(), "load.users"),
        (lambda: Load(users=[0]), "load.users=0"),
        (lambda: Load(users=[4, 4]), "load.users=\\[4, 4\\]"),
        (lambda: Load(users=[4], duration_s=0), "load.duration_s=0"),
        (lambda: Load(kind=LoadKind.open), "load.rates=\\[\\].*load.kind=open"),
        (lambda: Load(kind=LoadKind.open, users=[4], rates=[1.0]), "load.users=\\[4\\]"),
        (lambda: Load(kind=LoadKind.open, rates=[0.0]), "load.rates=0.0"),
        (lambda: Load(kind=LoadKind.open, rates=[1.0, 1.0]), "load.rates=\\[1, 1\\].*twice"),
        (lambda: Load(users=[4], rates=[1.0]), "load.rates=\\[1.0\\].*load.kind=open"),
        (lambda: Load(kind=LoadKind.open, rates=[1.0], arrivals=Arrivals.gamma), "load.cv=0"),
        (lambda: Load(kind=LoadKind.open, rates=[1.0], cv=2.0), "load.cv=2.*gamma"),
        (lambda: Load(kind=LoadKind.open, rates=[1.0], think_time_s=1.0), "think_time_s=1"),
        (lambda: Load(kind=LoadKind.open, rates=[1.0], max_in_flight=0), "max_in_flight=0"),
        (lambda: Load(kind=LoadKind.trace), "load.traces=\\[\\]"),
        (lambda: Load(kind=LoadKind.trace, traces=["a"], speed=0.0), "load.speed=0"),
        (lambda: Load(users=[4], speed=2.0), "load.speed=2: only a trace"),
        (lambda: Load(kind=LoadKind.steps), "load.stages=\\[\\]"),
        (
            lambda: Load(kind=LoadKind.steps, stages=[Stage(users=1), Stage(rate=1.0)]),
            "load.stages: name both users and rates",
        ),
        (lambda: Load(kind=LoadKind.steps, stages=[Stage()]), "name neither users nor rates"),
        (lambda: Stage(users=1, duration_s=2.0, ramp_s=3.0), "load.stages.ramp_s=3"),
        (lambda: Stage(users=-1), "users=-1"),
        (lambda: Load(users=[2, 1], workers=2), "load.users=1 with load.workers=2"),
        (lambda: Load(users=[2], workers=0), "load.workers=0"),
        (lambda: Load(users=[2], repeats=0), "load.repeats=0"),
        (lambda: Load(users=[4], grid_hit_rates=[1.0]), "load.grid_hit_rates=1.0"),
        (lambda: Tools(retries=2), "tools.retries=2"),
        (lambda: Tools(source=ToolSource.attached), "tools.sql.dsn=''"),
        (lambda: attached_tools(), "tools.sql.tables=\\[\\]: .*; set e.g. tools.sql.tables="),
        (lambda: attached_tools(vector=Vector(url="host:6333")), "tools.vector.url=host:6333"),
        (lambda: attached(), "engine.tensor_parallel=0: .*; set engine.tensor_parallel"),
        (lambda: attached(tensor_parallel=4), "engine.gpu=''"),
        (lambda: Engine(name="e", kv_tokens=1 << 20, port=65536), "engine.port=65536"),
        (lambda: Workload(mix={"react_1": 1.0}, temperature=-0.1), "workload.temperature=-0.1"),
        (lambda: Load(users=[4], web_port=0), "load.web_port=0: must lie between 1 and 65535"),
        (lambda: Load(users=[4], duration_s=1e9), "load.duration_s=1000000000.0: must lie"),
        (lambda: Load(users=[4], grid_output_tokens=0), "load.grid_output_tokens=0"),
        (lambda: Web(failure_rate=1.1), "tools.web.failure_rate=1.1"),
        (lambda: Sql(pool_size=0), "tools.sql.pool_size=0"),
        (lambda: Vector(top_k=101), "tools.vector.top_k=101"),
        (lambda: Tools(delays_s={"sql_query": -1.0}), "tools.delays_s.sql_query=-1.0"),
        (lambda: Slo(gate_client_cpu=-1.0), "slo.gate_client_cpu=-1.0"),
        (lambda: Slo(objectives=[Objective(name="x", metric="tsa", bound=85)]), "x..bound=85"),
        (lambda: Slo(objectives=[Objective(name="x", metric="tsa", bound=NAN)]), "x..bound=nan"),
        (lambda: StepTime(b=-1.0), "engine.step.b=-1.0"),
        (lambda: make_scenario(seed=-1), "seed=-1: must not be below 0"),
        *(
            (lambda name=name: make_scenario(name=name), "name=")
            for name in ("", "a/b", "a b", "..")
        ),
        (
            lambda: make_scenario(load=Load(users=[1], grid_prompt_tokens=[16380], grid_repeats=1)),
            "engine.max_model_len=16384",
        ),
        *((lambda url=url: attached(url=url, gpu="H100"), "engine.url=") for url in BAD_URLS),
        (lambda: Slo(confidence=1.0), "slo.confidence=1.0"),
        (lambda: Slo(objectives=[Objective(name="x", metric="speed")]), "metric=speed"),
        (lambda: Slo(objectives=[Objective(name="x", metric="ttft_s")]), "quantile=None"),
    ],
)
def test_what_cannot_be_is_one_sentence(build: object, what: str) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match=what) as raised:
        build()
    message = str(raised.value)
    assert message.count("\n") == 0
    assert "; " in message
    assert "Secret" not in message
