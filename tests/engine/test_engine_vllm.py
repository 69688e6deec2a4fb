"""The command line of a launched vLLM, and what happens when it cannot start."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench.engine import vllm
from bench.engine.vllm import serve_command, start_vllm
from bench.errors import EngineError
from bench.scenario import Engine, EngineKind


def engine(**options: object) -> Engine:
    values: dict[str, object] = {
        "kind": EngineKind.vllm,
        "name": "v",
        "model": "org/model",
        "tensor_parallel": 4,
        "max_model_len": 16384,
        "start_timeout_s": 20.0,
    }
    return Engine(**{**values, **options})  # type: ignore[arg-type] # a mapping of mixed types


def test_the_command_says_what_the_configuration_says() -> None:
    command = serve_command(
        engine(
            quantization="fp8",
            kv_dtype="fp8",
            tool_call_parser="llama3_json",
            max_num_seqs=64,
            extra_args=["--enforce-eager"],
        ),
        8123,
        ["vllm", "serve"],
    )
    assert command[:3] == ["vllm", "serve", "org/model"]
    pairs = dict(pairwise(command))
    assert pairs["--tensor-parallel-size"] == "4"
    assert pairs["--max-model-len"] == "16384"
    assert pairs["--max-num-seqs"] == "64"
    assert pairs["--port"] == "8123"
    assert pairs["--quantization"] == "fp8"
    assert pairs["--kv-cache-dtype"] == "fp8"
    assert pairs["--tool-call-parser"] == "llama3_json"
    assert "--enable-auto-tool-choice" in command
    assert "--enable-prompt-tokens-details" in command
    assert "--enable-prefix-caching" in command
    assert command[-1] == "--enforce-eager"


def test_what_is_not_set_is_not_said() -> None:
    command = serve_command(engine(prefix_caching=False), 1, ["vllm", "serve"])
    assert "--quantization" not in command
    assert "--kv-cache-dtype" not in command
    assert "--enable-auto-tool-choice" not in command
    assert "--no-enable-prefix-caching" in command
    assert "--data-parallel-size" not in command
    assert "--data-parallel-size" in serve_command(engine(replicas=2), 1, ["vllm", "serve"])


def test_a_model_is_needed() -> None:
    with pytest.raises(EngineError, match=r"engine\.model"):
        serve_command(engine(model=""), 1, ["vllm", "serve"])


def test_a_server_that_ends_at_once_tells_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys; print('CUDA error: no device'); sys.exit(3)"
    monkeypatch.setattr(vllm, "launcher", lambda: [sys.executable, "-c", program])
    with pytest.raises(EngineError, match=r"exit code 3.*CUDA error: no device"):
        start_vllm(engine(), tmp_path)
