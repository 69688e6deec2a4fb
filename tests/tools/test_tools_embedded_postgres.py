"""Where PostgreSQL's binaries are found, and what is said when they are not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bench.errors import ToolError
from bench.tools.embedded import postgres


def make_binaries(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).touch()
    return folder


def test_debians_newest_when_the_wheel_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    for version in ("9", "15", "17"):
        make_binaries(tmp_path / version / "bin")
    (tmp_path / "18" / "bin").mkdir(parents=True)  # the client alone
    make_binaries(tmp_path / "old" / "bin")
    assert postgres.find_binaries() == tmp_path / "17" / "bin"


def test_no_server_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    with pytest.raises(ToolError, match=r"no PostgreSQL server is installed; run \.venv/bin/pip"):
        postgres.find_binaries()
