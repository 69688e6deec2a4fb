import msgspec
import pytest

from bench.errors import ConfigError
from bench.scenario import (
    Control,
    Engine,
    EngineKind,
    Load,
    Objective,
    Scenario,
    Slo,
    Sql,
    Tools,
    ToolSource,
    Vector,
    Web,
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
    assert "Secret" not in message
