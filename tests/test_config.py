"""Words in, Scenario out; a wrong word is one sentence with the nearest right one."""

from pathlib import Path

import pytest

from bench.config import CONF, run_words
from bench.errors import BenchError, ConfigError, EngineError, Stopped
from bench.scenario import EngineKind, Scenario


def compose(words: list[str]) -> list[tuple[Scenario, Path]]:
    jobs: list[tuple[Scenario, Path]] = []
    run_words(words, lambda scenario, directory: jobs.append((scenario, directory)))
    return jobs


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra makes the run's directory, so make it where nothing is kept."""
    monkeypatch.chdir(tmp_path)


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@pytest.mark.parametrize("scenario", choices("scenario"))
def test_every_scenario_composes(scenario: str) -> None:
    jobs = compose([f"scenario={scenario}"])
    assert jobs
    assert {job.name for job, _ in jobs} == {scenario}


@pytest.mark.parametrize(
    "word",
    [
        *(f"engine={name}" for name in choices("engine") if name not in ("attached", "simulated")),
        *(f"workload={name}" for name in choices("workload")),
        *(f"load={name}" for name in choices("load") if name != "trace"),
        *(f"slo={name}" for name in choices("slo")),
        "tools=embedded",
        "tools=seed_delays",
    ],
)
def test_every_choice_composes(word: str) -> None:
    assert len(compose(["scenario=single", word])) == 1


def test_a_trace_needs_its_file_only() -> None:
    (job,) = compose(["scenario=single", "load=trace", "load.traces=[a.csv]"])
    assert job[0].load.traces == ["a.csv"]


def test_stages_come_from_words_and_files() -> None:
    words = ["scenario=single", "load=steps", "load.stages=[{rate: 0.5, duration_s: 9}]"]
    (job,) = compose(words)
    assert (job[0].load.stages[0].rate, job[0].load.stages[0].ramp_s) == (0.5, 0.0)
    (job,) = compose(words[:2])
    assert [stage.users for stage in job[0].load.stages] == [4, 16, 4]


def test_the_demo_is_two_launches_in_one_campaign() -> None:
    jobs = compose(["scenario=demo", "load.users=[2,3]"])
    assert [scenario.engine.tensor_parallel for scenario, _ in jobs] == [2, 4]
    assert all(scenario.load.users == [2, 3] for scenario, _ in jobs)
    assert [directory.name for _, directory in jobs] == ["0", "1"]
    assert len({directory.parent for _, directory in jobs}) == 1


def test_a_word_replaces_a_scenarios_sweep() -> None:
    (job,) = compose(["scenario=demo", "engine=h100_tp2"])
    assert job[0].engine.tensor_parallel == 2


def test_an_attached_engine_needs_its_url_and_what_cannot_be_seen() -> None:
    words = ["engine=attached", "engine.url=http://127.0.0.1:8000/v1"]
    described = [*words, "engine.gpu=H100-SXM-80GB", "engine.tensor_parallel=4"]
    (job,) = compose(["scenario=single", *described])
    assert job[0].engine.kind is EngineKind.attached


def test_attached_tools_need_their_addresses_and_tables() -> None:
    words = [
        "tools.sql.dsn=postgresql://u@h/d",
        "tools.vector.url=http://h",
        "tools.web.url=http://h",
    ]
    (job,) = compose(["scenario=single", "tools=attached", *words, "tools.sql.tables=[public.a]"])
    assert job[0].tools.sql.tables == ["public.a"]
    with pytest.raises(ConfigError, match=r"tools\.sql\.tables=\[\]"):
        compose(["scenario=single", "tools=attached", *words])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["load.userz=[3]"], "load.userz: is no key; did you mean load.users?"),
        (["lod.users=[3]"], "did you mean load.users?"),
        (["enigne=h100_tp2"], "did you mean engine?"),
        (["engine=h100_tp3"], "engine=h100_tp3: is no choice; did you mean engine=h100_tp"),
        (["scenario=dmo"], "did you mean scenario=demo?"),
        (["load.users=[a]"], "load.users=.*could not be converted to Integer"),
        (["load.users=[0]"], "load.users=0: must be above 0"),
        (["load=open", "load.users=[4]"], "load.users=.*takes its points from load.rates"),
        (["load=open", "load.arrivals=gamma"], "load.cv=0: gamma arrivals need"),
        (["load=open", "load.arrivals=weibull"], "poisson, constant, gamma"),
        (["load=open", "load.rates=[0]"], "load.rates=0"),
        (["load=trace"], r"load.traces=\[\]: there is no point to run"),
        (["load=steps", "load.stages=[{users: 4},{rate: 2}]"], "both users and rates"),
        (
            ["load=steps", "load.stages=[{user: 4}]"],
            r"load.stages.user: is no key; use users, rate",
        ),
        (["load.workers=3", "load.users=[2]"], "a worker would have no user"),
        (["workload.control=liv"], "workload.control=liv.*live, scripted"),
        (["foo"], "words: "),
        (["engine=h100_tp2,h100_tp4"], "put -m before the words"),
        (["engine=attached"], "engine.url=''"),
        (["tools=attached"], "tools.sql.dsn=''"),
        (["workload.mix.react_9=1"], "workload.mix.react_9"),
        (["+workload.mix.react_9=1"], "workload.mix.react_9: is no workload"),
        (["engine=attached", "engine.url=http://h/v1"], "engine.tensor_parallel=0"),
        (["load.duration_s=inf"], "load.duration_s=inf: is no finite number"),
        (["name=../x"], "name='../x'"),
        (["slo.objectives=[]"], "slo.objectives=\\[\\]: nothing would be judged"),
        (["slo.objectives=[{name: x, metric: speed}]"], "metric=speed"),
    ],
)
def test_a_wrong_word_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as raised:
        compose([*([] if words[0].startswith("scenario") else ["scenario=single"]), *words])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("option", ["--foo", "-x", "--config-dir=/etc", "--cfg", "--hydra-help"])
def test_an_option_is_refused_with_the_usage_code(option: str) -> None:
    with pytest.raises(BenchError, match=f"option={option}: is no option") as raised:
        compose(["scenario=single", option])
    assert raised.value.exit_code == 64


@pytest.mark.parametrize(
    "word",
    ["hydra.run.dir=/tmp/x", "+hydra.job.chdir=true", "hydra/launcher=basic", "~hydra.sweep.dir"],
)
def test_hydras_own_keys_are_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set results=DIR"):
        compose(["scenario=single", word])
    assert not list(tmp_path.iterdir())


def test_a_failed_launch_does_not_stop_the_sweep_but_a_signal_does() -> None:
    seen: list[str] = []

    def failing(error: BenchError) -> list[BenchError]:
        seen.clear()

        def job(scenario: Scenario, directory: Path) -> None:
            seen.append(scenario.engine.name)
            raise error

        return run_words(["scenario=demo"], job)[1]

    assert len(failing(EngineError("engine", "died", "start it again"))) == 2
    assert len(seen) == 2
    assert len(failing(Stopped("run", "was stopped", "start it again"))) == 1
    assert len(seen) == 1
