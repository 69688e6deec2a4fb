"""The services' directory: gone afterwards, and after a kill at the next start."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import ToolError
from bench.tools.embedded import place as module
from bench.tools.embedded.place import HOST_PREFIX, LOCK, PREFIX, service_directory


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


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


def test_a_hosts_directory_is_removed_too(temporary: Path) -> None:
    left = temporary / f"{HOST_PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    with service_directory(HOST_PREFIX) as place:
        assert place.name.startswith(HOST_PREFIX)
        assert not left.exists()
    assert list(temporary.iterdir()) == []


def test_a_long_temporary_directory_gives_way_to_a_short_one(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(module, "SHORT", temporary)
    with service_directory() as place, socket.socket(socket.AF_UNIX) as server:
        assert place.parent == temporary
        (place / "postgres").mkdir()
        server.bind(str(place / "postgres" / ".s.PGSQL.65535"))
    monkeypatch.setattr(module, "SHORT", tmp_path / "nowhere")
    with pytest.raises(ToolError, match=r"TMPDIR=.*set TMPDIR to a shorter"), service_directory():
        pass


def test_the_longest_directory_that_is_taken_can_hold_the_sockets(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = module.SOCKET_PATH_BYTES - len(module.LONGEST_BELOW) - len(os.fsencode(temporary)) - 1
    exact = temporary / ("y" * room)
    exact.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(exact))
    with service_directory() as place, socket.socket(socket.AF_UNIX) as server:
        assert place.parent == exact
        (place / "postgres").mkdir()
        server.bind(str(place / "postgres" / ".s.PGSQL.65535"))


def test_nobody_sweeps_what_another_is_making(temporary: Path) -> None:
    lost: list[Exception] = []

    def make() -> None:
        for _ in range(100):
            try:
                with service_directory() as place:
                    (place / "data").touch()
            except OSError as error:
                lost.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not lost
    assert list(temporary.iterdir()) == []
