"""A directory for the services' data that is removed afterwards, by the next run at the latest."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "bench-services-"
LOCK = "lock"


@contextmanager
def service_directory() -> Iterator[Path]:
    """A fresh directory below the system's temporary one, which any user may pass through.

    Not below the run directory: PostgreSQL refuses to run as root, and the user it runs as may
    not reach a folder in root's home. Its lock is held while we live, so a directory whose owner
    was killed is known as such and removed by the next caller.
    """
    parent = Path(tempfile.gettempdir())
    _sweep(parent)
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        place.chmod(0o711)
        with (place / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove directories whose owner is dead: nobody holds their lock."""
    for place in parent.glob(f"{PREFIX}*"):
        # An OSError: no lock yet, held, or another user's.
        with contextlib.suppress(OSError), (place / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
