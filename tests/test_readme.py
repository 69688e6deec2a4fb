"""What README.md tells a reader to type is what the command line takes."""

import re
import shlex
from pathlib import Path

import pytest

from bench.__main__ import RUN_HELP
from bench.config import run_words
from bench.scenario import Scenario

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```sh\n(.*?)```", re.S)


def commands() -> list[str]:
    """The `bench run` lines of the README's blocks and of the help, continued lines joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.sub(r"\\\n\s*", " ", "\n".join(BLOCK.findall(text)))
    helped = re.sub(r"\n {8,}(?=\S)", " ", RUN_HELP.partition("\n")[2])
    lines = [line.strip() for line in f"{blocks}\n{helped}".splitlines()]
    return [line for line in lines if re.match(r"(\.venv/bin/)?bench run ", line)]


def test_there_are_commands_to_try() -> None:
    assert len(commands()) >= 8


@pytest.mark.parametrize("command", commands())
def test_every_shown_command_composes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.split(r"\s{3,}(?=[a-z#])", command)[0], comments=True)[2:]
    jobs: list[Scenario] = []
    run_words(words, lambda scenario, directory: jobs.append(scenario))
    assert jobs
