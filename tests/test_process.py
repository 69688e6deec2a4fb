import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.process import ONLY_FOR_PARENT, Process, free_port

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
LIMIT_S = 20.0


def until(holds: Callable[[], bool]) -> bool:
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        if holds():
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_child_is_stopped_with_its_block(tmp_path: Path) -> None:
    with Process("sleeper", SLEEP, tmp_path / "log") as child:
        assert until(lambda: "up" in child.last_words())
        still = child.exit_code
        assert still is None
    assert child.exit_code == -signal.SIGTERM
    assert not alive(child.pid)


def test_a_stubborn_child_is_killed_with_its_group(tmp_path: Path) -> None:
    stubborn = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(c.pid, flush=True); time.sleep(60)"
    )
    child = Process("stubborn", [sys.executable, "-c", stubborn], tmp_path / "log")
    assert until(lambda: child.last_words().isdigit())
    grandchild = int(child.last_words())
    assert child.stop() == -signal.SIGKILL
    assert until(lambda: not alive(grandchild))


def test_last_words_and_exit_code(tmp_path: Path) -> None:
    child = Process("brief", [sys.executable, "-c", "print('a\\nb'); raise SystemExit(3)"],
                    tmp_path / "log")  # fmt: skip
    assert child.wait(LIMIT_S) == 3
    assert child.last_words(1) == "b"
    assert child.stop() == 3


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = (
        "import sys, time; from pathlib import Path; from bench.process import Process;"
        f"c = Process('sleeper', {SLEEP!r}, Path({str(tmp_path / 'log')!r}));"
        "print(c.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        assert until(lambda: (tmp_path / "log").read_text() != "")
        started.kill()
    assert until(lambda: not alive(pid))


def test_a_free_port_can_be_bound() -> None:
    assert 0 < free_port() < 65536


def test_nothing_is_signalled_after_the_child_was_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a group that is gone may be another's by then."""
    child = Process("brief", [sys.executable, "-c", ""], tmp_path / "log")
    assert child.wait(LIMIT_S) == 0

    def killpg(group: int, number: int) -> None:
        raise AssertionError(f"signal {number} to {group}")

    monkeypatch.setattr(os, "killpg", killpg)
    assert child.stop() == child.stop() == 0


def test_stragglers_end_when_the_child_ends_by_itself(tmp_path: Path) -> None:
    brief = (
        "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(60)']); print(c.pid, flush=True)"
    )
    child = Process("brief", [sys.executable, "-c", brief], tmp_path / "log")
    assert child.wait(LIMIT_S) == 0
    straggler = int(child.last_words())
    assert until(lambda: not alive(straggler))


def test_a_child_that_cannot_be_killed_has_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Process("sleeper", SLEEP, tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr("bench.process.TERM_WAIT_S", 0.1)
        patched.setattr("bench.process.KILL_WAIT_S", 0.1)
        patched.setattr(os, "killpg", lambda group, number: None)
        assert child.stop() is None
    assert child.stop() == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_child_whose_parent_died_before_the_guard_stood_does_nothing() -> None:
    command = ["/bin/sh", "-c", ONLY_FOR_PARENT]
    echo = ["/bin/echo", "ran"]
    mine = subprocess.run([*command, str(os.getpid()), *echo], capture_output=True, timeout=LIMIT_S)
    other = subprocess.run([*command, "1", *echo], capture_output=True, timeout=LIMIT_S)
    assert (mine.stdout, mine.returncode) == (b"ran\n", 0)
    assert (other.stdout, other.returncode != 0) == (b"", True)
