"""A directory for data and sockets that is removed afterwards, by the next run at the latest."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import ToolError

PREFIX = "bench-services-"
HOST_PREFIX = "bench-host-"
UNNAMED = "bench-new-"  # not yet locked: no sweep takes it
LOCK = "lock"
SOCKET_PATH_BYTES = 107  # sun_path of Linux, without its closing zero
LONGEST_BELOW = f"/{PREFIX}xxxxxxxx/postgres/.s.PGSQL.65535"
SHORT = Path("/tmp")


@contextmanager
def service_directory(prefix: str = PREFIX) -> Iterator[Path]:
    """A fresh directory below the system's temporary one, which any user may pass through.

    Not below the run directory: PostgreSQL refuses to run as root, and the user it runs as may
    not reach a folder in root's home. Its lock is held while we live, so a directory whose owner
    was killed is known as such and removed by the next caller. It has its name only once it is
    locked, so none is taken for abandoned while it is being made.
    Raises ToolError when no temporary directory is short enough for the sockets in it.
    """
    parent = socket_parent()
    _sweep(parent)
    unnamed = Path(tempfile.mkdtemp(prefix=UNNAMED, dir=parent))
    place = parent / f"{prefix}{unnamed.name.removeprefix(UNNAMED)}"
    try:
        unnamed.chmod(0o711)
        with (unnamed / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(place)
            yield place
    finally:
        for path in (unnamed, place):
            shutil.rmtree(path, ignore_errors=True)


def socket_parent() -> Path:
    """The system's temporary directory, or /tmp where that one is too long for a socket's path.

    Raises ToolError when neither will do.
    """
    wanted = Path(tempfile.gettempdir())
    longest = SOCKET_PATH_BYTES - len(LONGEST_BELOW)
    for parent in (wanted, SHORT):
        if len(os.fsencode(parent)) <= longest and os.access(parent, os.W_OK | os.X_OK):
            return parent
    raise ToolError(
        f"TMPDIR={wanted}",
        f"a Unix socket's path has at most {SOCKET_PATH_BYTES} bytes, so this one may have "
        f"{longest}, and {SHORT} cannot be written",
        "set TMPDIR to a shorter directory",
    )


def _sweep(parent: Path) -> None:
    """Remove directories whose owner is dead: nobody holds their lock."""
    for prefix in (PREFIX, HOST_PREFIX):
        for place in parent.glob(f"{prefix}*"):
            # An OSError: no lock, held, or another user's.
            with contextlib.suppress(OSError), (place / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place)
