"""`bench report` and `bench check` on directories as people have them: damaged, moved."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main

WORDS = [
    "scenario=single", "workload=react_2", "workload.mix.selection=1", "tools=seed_delays",
    "load.users=[2]", "load.duration_s=3", "load.hold_s=6", "load.grid_repeats=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run; nobody may change it."""
    results = tmp_path_factory.mktemp("made")
    command = [sys.executable, "-m", "bench", "run", *WORDS, f"results={results}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (directory,) = (results / "single").iterdir()
    return directory


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "single" / made.name))


@pytest.fixture
def campaign(made: Path, tmp_path: Path) -> Path:
    for launch in ("0", "1"):
        shutil.copytree(made, tmp_path / "demo" / made.name / launch)
    return tmp_path / "demo" / made.name


Read = pytest.CaptureFixture[str]


def test_check_prints_whole_lines_into_a_pipe(run: Path, capsys: Read) -> None:
    assert main(["check", str(run)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6, "an objective each"
    pattern = (
        r"engine=.*  level=u2  objective=\w+  observed=.*  bound=\w+ [\d.]+  n=\d+  verdict=.+"
    )
    assert all(re.match(pattern, line) for line in lines)
    assert any(len(line) > 120 for line in lines), "reasons are not cut"


def test_a_level_that_was_not_run_names_those_that_were(run: Path, capsys: Read) -> None:
    assert main(["check", str(run), "--users", "3"]) == 67
    message = capsys.readouterr().err
    assert message == (
        "AnalysisError: users=3: no such level was run (2); name one of 2, or none for all\n"
    )
    assert main(["check", str(run), "--users", "2"]) == 3


def test_one_damaged_launch_is_shown_and_left_out(campaign: Path, capsys: Read) -> None:
    with (campaign / "1" / "points.jsonl").open("r+b") as records:
        records.write(b"{broken")
    assert main(["report", str(campaign)]) == 0
    page = (campaign / "analysis" / "report.html").read_text(encoding="utf-8")
    assert "Launch 1 cannot be read and is left out" in page
    assert "points.jsonl:1" in page
    capsys.readouterr()
    assert main(["check", str(campaign)]) == 3
    assert "not valid: launch 1: record=" in capsys.readouterr().out
    assert main(["report", str(campaign / "1")]) == 74
    (campaign / "0" / "run.json").unlink()
    capsys.readouterr()
    assert main(["report", str(campaign)]) == 74
    assert capsys.readouterr().err.count("\n") == 1


def test_a_launch_that_lost_its_run_json_is_shown(campaign: Path) -> None:
    (campaign / "0" / "run.json").unlink()
    assert main(["report", str(campaign)]) == 0
    page = (campaign / "analysis" / "report.html").read_text(encoding="utf-8")
    assert "Launch 0 cannot be read" in page


def test_a_folder_of_runs_is_refused(run: Path, capsys: Read) -> None:
    shutil.copytree(run, run.parent / "another")
    assert main(["report", str(run.parent)]) == 74
    assert "name one run" in capsys.readouterr().err
    assert not (run.parent / "analysis").exists()


def test_a_run_without_its_material_is_reported_as_incomplete(run: Path) -> None:
    shutil.rmtree(run / "material")
    assert main(["report", str(run)]) == 0
    page = (run / "analysis" / "report.html").read_text(encoding="utf-8")
    assert "INCOMPLETE" in page
    assert "its material/ is missing" in page
    assert main(["check", str(run)]) == 3
