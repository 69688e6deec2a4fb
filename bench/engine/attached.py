"""A running OpenAI-compatible server at a URL. Its key stays in the environment."""

from __future__ import annotations

import os
from typing import Any

import httpx

from bench.engine.health import PROBE_TIMEOUT_S, root_url, wait_until_healthy
from bench.engine.probe import probe_chat
from bench.engine.running import RunningEngine
from bench.errors import EngineError
from bench.run import Endpoint
from bench.scenario import Engine


def attach(engine: Engine, with_tools: bool = True) -> RunningEngine:
    """Reach the server within engine.start_timeout_s, ask for its model and one completion.

    with_tools: the completion offers a tool. Raises EngineError when the server does not answer,
    gives no completion, or its key is not in the environment.
    """
    headers = key_headers(engine.key_env)
    base_url = engine.url.rstrip("/")
    healthy = wait_until_healthy(
        base_url,
        engine.start_timeout_s,
        headers,
        lambda: None,
        lambda: EngineError(
            f"engine.url={engine.url}",
            f"gave no good answer to /health or /v1/models within {engine.start_timeout_s:g} s",
            "check the URL (it ends in /v1), the server and engine.key_env",
        ),
    )
    root = root_url(base_url)
    with httpx.Client(headers=headers, timeout=PROBE_TIMEOUT_S, trust_env=False) as client:
        _check_models(client, base_url)
        model = engine.model or _first_model(client, base_url)
        version = str(_json(client, f"{root}/version").get("version", ""))
        metrics = f"{root}/metrics" if _answers(client, f"{root}/metrics") else ""
    simulated = "x-simulated" in healthy.headers
    endpoint = Endpoint(
        base_url=base_url,
        metrics_url=metrics,
        model=model,
        simulated=simulated,
        label=f"{engine.name} (simulated)" if simulated else engine.name,
        version=version,
        key_env=engine.key_env,
    )
    probe_chat(f"engine.url={engine.url}", endpoint, headers, engine.start_timeout_s, with_tools)
    return RunningEngine(endpoint, engine.name, None)


def _check_models(client: httpx.Client, base_url: str) -> None:
    """Raise EngineError when /models is not below the URL, as when /v1 is missing from it."""
    if _answers(client, f"{base_url}/models"):
        return
    remedy = "check that the URL ends in /v1, and engine.key_env"
    if _answers(client, f"{base_url}/v1/models"):
        remedy = f"set engine.url={base_url}/v1"
    raise EngineError(
        f"engine.url={base_url}", "the server answers, but not at /models below this URL", remedy
    )


def key_headers(key_env: str) -> dict[str, str]:
    """The authorisation header from the named environment variable; empty without a name.

    Raises EngineError when the variable is not set.
    """
    if not key_env:
        return {}
    key = os.environ.get(key_env)
    if not key:
        raise EngineError(
            f"engine.key_env={key_env}",
            "is not set in the environment",
            f"export {key_env}=..., or set engine.key_env='' for a server without a key",
        )
    return {"Authorization": f"Bearer {key}"}


def _first_model(client: httpx.Client, base_url: str) -> str:
    models = _json(client, f"{base_url}/models").get("data") or []
    if not models:
        raise EngineError(
            f"engine.url={base_url}", "lists no model at /models", "set engine.model to its name"
        )
    return str(models[0].get("id", ""))


def _json(client: httpx.Client, url: str) -> dict[str, Any]:
    """The JSON object at a URL; empty when there is none."""
    try:
        response = client.get(url)
        body = response.json() if response.is_success else {}
    except (httpx.HTTPError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).is_success
    except httpx.HTTPError:
        return False
