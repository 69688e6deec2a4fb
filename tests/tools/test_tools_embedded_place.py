"""The services' directory: gone afterwards, and after a kill at the next start."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from bench.tools.embedded.place import LOCK, PREFIX, service_directory


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_removed_even_after_an_error(temporary: Path) -> None:
    with pytest.raises(RuntimeError), service_directory() as place:
        (place / "data").mkdir()
        assert place.parent == temporary
        raise RuntimeError
    assert list(temporary.iterdir()) == []


def test_what_a_killed_owner_left_is_removed_and_nothing_else(temporary: Path) -> None:
    left = temporary / f"{PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    starting = temporary / f"{PREFIX}starting"  # its owner has not locked it yet
    starting.mkdir()
    with service_directory() as first, service_directory() as second:
        assert not left.exists()
        assert starting.exists()
        assert first.exists()
        assert second.exists()
