from pathlib import Path

import pytest

from bench.__main__ import main


def test_help_names_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("engine", "workload", "load", "tools", "slo", "scenario", "dry_run=true"):
        assert word in shown


def test_a_wrong_command_is_not_mistaken_for_a_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["chekc", "somewhere"]) == 64
    assert main([]) == 64
    assert main(["--help"]) == 0
    assert "usage: bench" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "check"])
def test_a_directory_without_a_run_is_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 74
    message = capsys.readouterr().err
    assert message.startswith(f"RecordError: run={tmp_path}: holds no run.json")
    assert message.count("\n") == 1


def test_doctor_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("yes  cores") or line.startswith("no   cores") for line in lines)
    assert all(line.startswith(("yes  ", "no   ")) for line in lines)


def test_a_wrong_word_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "scenario=single", "load.userz=[3]"]) == 65
    message = capsys.readouterr().err
    assert message.startswith("ConfigError: load.userz: is no key; did you mean load.users?")
    assert message.count("\n") == 1
    assert not list(tmp_path.iterdir())
