"""A vLLM launched here: `vllm serve` (or its module, where only the CPU build is installed)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.engine.attached import key_headers
from bench.engine.health import check_port, check_process, never_healthy, wait_until_healthy
from bench.engine.probe import probe_chat
from bench.engine.running import RunningEngine
from bench.errors import EngineError
from bench.process import Process, free_port
from bench.run import Endpoint
from bench.scenario import Engine


def launcher() -> list[str]:
    """`vllm serve`, or the module that both builds have."""
    command = shutil.which("vllm")
    if command:
        return [command, "serve"]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model"]


def serve_command(engine: Engine, port: int, start: Sequence[str]) -> list[str]:
    """The command line of one vLLM server. Raises EngineError without a model."""
    if not engine.model:
        raise EngineError(
            "engine.model=''", "vLLM needs a model to serve", "set engine.model to a name or path"
        )
    command = [
        *start,
        engine.model,
        "--host",
        engine.host,
        "--port",
        str(port),
        "--tensor-parallel-size",
        str(engine.tensor_parallel),
        "--max-model-len",
        str(engine.max_model_len),
        "--max-num-seqs",
        str(engine.max_num_seqs),
        "--max-num-batched-tokens",
        str(engine.max_num_batched_tokens),
        "--enable-prefix-caching" if engine.prefix_caching else "--no-enable-prefix-caching",
        "--enable-prompt-tokens-details",
    ]
    if engine.replicas > 1:
        command += ["--data-parallel-size", str(engine.replicas)]
    if engine.quantization:
        command += ["--quantization", engine.quantization]
    if engine.kv_dtype:
        command += ["--kv-cache-dtype", engine.kv_dtype]
    if engine.tool_call_parser:
        command += ["--enable-auto-tool-choice", "--tool-call-parser", engine.tool_call_parser]
    return [*command, *engine.extra_args]


def start_vllm(engine: Engine, directory: Path, with_tools: bool = True) -> RunningEngine:
    """Start vLLM and wait until it is healthy, at most engine.start_timeout_s, and answers.

    with_tools: see `launch`. Raises EngineError with the last log lines when it ends or does not
    answer in time, and with the server's words when it gives no completion.
    """
    headers = key_headers(engine.key_env)
    if engine.port:
        check_port(engine.host, engine.port)
    port = engine.port or free_port(engine.host)
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    process = Process(
        "engine", serve_command(engine, port, launcher()), directory / "logs" / "engine.log"
    )
    root = f"http://{engine.host}:{port}"
    endpoint = Endpoint(
        base_url=f"{root}/v1",
        metrics_url=f"{root}/metrics",
        model=engine.model,
        simulated=False,
        label=engine.name,
        key_env=engine.key_env,
    )
    try:
        wait_until_healthy(
            f"{root}/v1",
            engine.start_timeout_s,
            headers,
            lambda: check_process(process, engine.name),
            lambda: never_healthy(engine.name, engine.start_timeout_s, process.last_words()),
        )
        what = f"engine.name={engine.name}"
        probe_chat(what, endpoint, headers, engine.start_timeout_s, with_tools)
    except BaseException:
        process.stop()
        raise
    return RunningEngine(endpoint, engine.name, process)
