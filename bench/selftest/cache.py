"""Cache: one self-test per machine and version, below results/.cache."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from bench.proof import SCHEMA, SelfTest
from bench.run import SELFTEST, write_atomically

CACHE = ".cache"
MATTERS = ("python", "react-bench", "locust", "gevent", "uvloop", "httptools", "msgspec", "numpy")


def _path(results: Path, machine: dict[str, Any], versions: dict[str, str]) -> Path:
    known = {name: versions[name] for name in MATTERS if name in versions}
    text = msgspec.json.encode([SCHEMA, machine, known], order="deterministic")
    return results / CACHE / f"selftest-{hashlib.sha256(text).hexdigest()[:16]}.json"


def store(results: Path, test: SelfTest) -> Path:
    """Keep a self-test for its machine and versions. Raises RecordError when the disk is full."""
    path = _path(results, test.machine, test.versions)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(test), indent=1))
    return path


def cached(results: Path, machine: dict[str, Any], versions: dict[str, str]) -> SelfTest | None:
    """The self-test of this machine and these versions; None when there is none to be read."""
    try:
        content = _path(results, machine, versions).read_bytes()
        return msgspec.json.decode(content, type=SelfTest)
    except (OSError, msgspec.MsgspecError):
        return None


def copy_into(
    directory: Path, results: Path, machine: dict[str, Any], versions: dict[str, str]
) -> None:
    """Put what was proved of this machine into a run, if it was. Raises RecordError (disk)."""
    test = cached(results, machine, versions)
    if test is not None:
        content = msgspec.json.format(msgspec.json.encode(test), indent=1)
        write_atomically(directory / SELFTEST, content)
