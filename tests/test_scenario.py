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
    Stage,
    Tools,
    ToolSource,
    Workload,
)


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
