"""Process: a child that cannot outlive us, with its log and its last words.

Linux ends the child with SIGKILL when our process dies (`setpriv --pdeathsig KILL`), so even a
SIGKILL of ours leaves no orphan. Where setpriv is missing (not Linux) that guarantee is too.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TERM_WAIT_S = 5.0
KILL_WAIT_S = 5.0
POLL_S = 0.02

ONLY_FOR_PARENT = '[ "$PPID" = "$0" ] && exec "$@"'


class Process:
    """A started child in a process group of its own.

    `stop()` ends the whole group; leaving the `with` block does too. When the child has ended by
    itself, what is left of its group is killed as soon as that is seen, and never later: the number
    of a group that is gone may be another's. A grandchild that must die with us needs a parent that
    passes the signal on (vLLM's and PostgreSQL's do).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str = "",
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        with log.open("ab") as sink:
            self._popen = subprocess.Popen(
                [*_guard(user), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        if self._popen.returncode is None and self._has_ended():
            self._signal(signal.SIGKILL)  # stragglers: the unreaped child still holds their number
            self._popen.wait()
        return self._popen.returncode

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most timeout_s; the exit code, or None if it still runs."""
        limit_s = time.monotonic() + timeout_s
        while (code := self.exit_code) is None and time.monotonic() < limit_s:
            time.sleep(POLL_S)
        return code

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the group and do not wait: for several that shall end together."""
        if self.exit_code is None:
            self._signal(signal.SIGTERM)

    def stop(self, stop_signal: signal.Signals = signal.SIGTERM) -> int | None:
        """Ask the group to end, then kill it; the exit code, None if even that did not end it.

        Never waits longer than the two limits. Of a child that has ended nothing is signalled.
        """
        if self.exit_code is None:
            self._signal(stop_signal)
            if self.wait(TERM_WAIT_S) is None:
                self._signal(signal.SIGKILL)
                self.wait(KILL_WAIT_S)
        return self.exit_code

    def last_words(self, lines: int = 5) -> str:
        """The last lines of its log, for an error message."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "no log"
        return " | ".join(text.strip().splitlines()[-lines:]) or "its log is empty"

    def _has_ended(self) -> bool:
        """True when the child has ended; it is not reaped, so its number stays taken."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._popen.poll() is not None
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.pid, look) is not None
        except ChildProcessError:  # somebody else has reaped it
            return self._popen.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._popen.pid, number)
        except ProcessLookupError:
            return  # already gone

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _guard(user: str) -> list[str]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    guard = [setpriv, "--pdeathsig", "KILL"]
    if user and os.geteuid() == 0:
        guard += [f"--reuid={user}", "--regid=nogroup", "--clear-groups"]
    # We may die before the signal is arranged; then nobody sends it. So the child looks, after it
    # is arranged, whether we are still its parent, and does nothing if not.
    return [*guard, "--", "/bin/sh", "-c", ONLY_FOR_PARENT, str(os.getpid())]


def why_taken(host: str, port: int) -> str:
    """Why a server of ours could not listen there; empty when it could."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
