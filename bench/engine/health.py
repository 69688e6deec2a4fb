"""Waiting until an engine answers, with a limit and its last words in the error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import httpx

from bench.errors import EngineError
from bench.process import Process, why_taken

POLL_S = 0.1
PROBE_TIMEOUT_S = 5.0


def root_url(base_url: str) -> str:
    """http://HOST:PORT of a URL that ends in /v1."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")


def first_healthy(client: httpx.Client, base_url: str) -> httpx.Response | None:
    """The first good answer of /health or /v1/models; None when neither gives one."""
    for url in (f"{root_url(base_url)}/health", f"{base_url.rstrip('/')}/models"):
        try:
            response = client.get(url)
        except httpx.HTTPError:
            continue
        if response.status_code == httpx.codes.OK:
            return response
    return None


def wait_until_healthy(
    base_url: str,
    timeout_s: float,
    headers: Mapping[str, str],
    alive: Callable[[], None],
    failure: Callable[[], EngineError],
) -> httpx.Response:
    """Ask until the engine answers.

    alive: called before each try, raises when the engine is known to be dead. failure: the error
    to raise after timeout_s.
    """
    deadline_s = time.monotonic() + timeout_s
    limit_s = min(PROBE_TIMEOUT_S, timeout_s)
    with httpx.Client(headers=dict(headers), timeout=limit_s, trust_env=False) as client:
        while True:
            alive()
            response = first_healthy(client, base_url)
            if response is not None:
                return response
            if time.monotonic() >= deadline_s:
                raise failure()
            time.sleep(POLL_S)


def check_process(process: Process, name: str) -> None:
    """Raises EngineError with the last log lines when the process has ended."""
    if process.exit_code is not None:
        raise EngineError(
            f"engine.name={name}",
            f"ended with exit code {process.exit_code}, last lines: {process.last_words()}",
            f"read {process.log}",
        )


def never_healthy(name: str, timeout_s: float, words: str) -> EngineError:
    """The error of an engine that did not answer in time."""
    return EngineError(
        f"engine.name={name}",
        f"was not healthy within {timeout_s:g} s, last lines: {words}",
        "read its log, or raise engine.start_timeout_s",
    )


def check_port(host: str, port: int) -> None:
    """Raises EngineError when something listens on the port already."""
    if taken := why_taken(host, port):
        raise EngineError(
            f"engine.port={port}",
            f"cannot be used on {host} ({taken})",
            "set engine.port=0 for a free one, or end what uses it",
        )
