"""Peers: other load generators, each in an environment of its own, asked for the same work.

Each runs `requests` chat completions of `tokens` tokens, at most `streams` at once, all started
at once, and reports a TTFT and a TPOT per request. They want a tokenizer of a model hub, so one
of sixteen words is laid where the hub's client keeps its downloads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench.selftest.bare import Seen
from bench.selftest.null_server import MODEL

INSTALL_LIMIT_S = 1800.0
RUN_LIMIT_S = 300.0
PROMPT_TOKENS = 400
TOKENIZER = "bench/null"
REVISION = "0" * 40
MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = "time year people way day thing world life hand part place case week company system token"
vocabulary = {word: number for number, word in enumerate([*words.split(), "[UNK]"])}
made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
special = dict(unk_token="[UNK]", eos_token="[UNK]", pad_token="[UNK]")
PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(sys.argv[1])
"""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The same for every client. `url` ends in /v1."""

    url: str
    streams: int
    requests: int
    tokens: int

    @property
    def root(self) -> str:
        """The server without the path."""
        return self.url.removesuffix("/v1")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """One load generator: what to install, how to call it, where it writes its figures."""

    name: str
    package: str
    command: Callable[[Work, Path, Path], list[str]]  # work, output, tokenizer's files
    read: Callable[[Path], Seen]


class Unavailable(Exception):
    """A peer that cannot be compared here; the message is the plain reason."""


def _guidellm(work: Work, out: Path, tokenizer: Path) -> list[str]:
    data = f"prompt_tokens={PROMPT_TOKENS},output_tokens={work.tokens}"
    return [
        "guidellm", "run",
        "--backend", f"kind=openai_http,target={work.root},model={MODEL}",
        "--profile", f"kind=concurrent,streams={work.streams}",
        "--constraint", f"kind=max_requests,count={work.requests}",
        "--data", f"kind=synthetic_text,{data}",
        "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
        "--output", f"kind=json,path={out / 'guidellm.json'}", "--disable-console",
    ]  # fmt: skip


def _read_guidellm(out: Path) -> Seen:
    whole = msgspec.json.decode((out / "guidellm.json").read_bytes())
    rows = whole["benchmarks"][0]["requests"]["successful"]
    return Seen(
        [row["time_to_first_token_ms"] for row in rows],
        [row["inter_token_latency_ms"] for row in rows],
    )


def _aiperf(work: Work, out: Path, tokenizer: Path) -> list[str]:
    del tokenizer  # it takes no path, only a name of the hub
    return [
        "aiperf", "profile", "-m", MODEL, "--endpoint-type", "chat", "--streaming",
        "--url", work.root, "--concurrency", str(work.streams),
        "--request-count", str(work.requests), "--isl", str(PROMPT_TOKENS),
        "--osl", str(work.tokens), "--tokenizer", TOKENIZER, "--use-server-token-count",
        "--ui", "none", "--output-artifact-dir", str(out),
    ]  # fmt: skip


def _read_aiperf(out: Path) -> Seen:
    lines = (out / "profile_export.jsonl").read_bytes().splitlines()
    rows: list[dict[str, Any]] = [msgspec.json.decode(line)["metrics"] for line in lines]
    return Seen(
        [row["time_to_first_token"]["value"] for row in rows if "time_to_first_token" in row],
        [row["inter_token_latency"]["value"] for row in rows if "inter_token_latency" in row],
    )


def _vllm(work: Work, out: Path, tokenizer: Path) -> list[str]:
    return [
        "vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", work.root,
        "--endpoint", "/v1/chat/completions", "--model", MODEL, "--tokenizer", str(tokenizer),
        "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS),
        "--random-output-len", str(work.tokens), "--num-prompts", str(work.requests),
        "--max-concurrency", str(work.streams), "--save-result", "--save-detailed",
        "--result-dir", str(out), "--result-filename", "vllm.json", "--disable-tqdm",
    ]  # fmt: skip


def _read_vllm(out: Path) -> Seen:
    whole = msgspec.json.decode((out / "vllm.json").read_bytes())
    gaps = [gap for gap in whole["itls"] if gap]
    return Seen(
        [value * 1e3 for value in whole["ttfts"]], [sum(gap) / len(gap) * 1e3 for gap in gaps]
    )


PEERS = (
    Peer(name="GuideLLM", package="guidellm", command=_guidellm, read=_read_guidellm),
    Peer(name="AIPerf", package="aiperf", command=_aiperf, read=_read_aiperf),
    Peer(name="vllm bench serve", package="vllm", command=_vllm, read=_read_vllm),
)


def install(peer: Peer, environments: Path) -> str:
    """Make the peer's environment unless it is there; its version. Raises Unavailable."""
    home = environments / peer.package
    python = home / "bin" / "python"
    done = home / ".installed"
    if not done.exists():
        _call([sys.executable, "-m", "venv", "--clear", str(home)], INSTALL_LIMIT_S)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        _call([*pip, "install", peer.package], INSTALL_LIMIT_S)
        done.touch()
    shown = f"from importlib import metadata; print(metadata.version({peer.package!r}))"
    return _call([str(python), "-c", shown], 60.0).strip()


def run_peer(peer: Peer, environments: Path, out: Path, work: Work) -> Seen:
    """Let an installed peer do the work; what it reports. Raises Unavailable."""
    home = environments / peer.package
    hub = environments / "hub"
    model = hub / "hub" / f"models--{TOKENIZER.replace('/', '--')}"
    snapshot = model / "snapshots" / REVISION
    if not (snapshot / "tokenizer.json").exists():
        snapshot.mkdir(parents=True, exist_ok=True)
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text(REVISION, encoding="ascii")
        _call([str(home / "bin" / "python"), "-c", MAKE_TOKENIZER, str(snapshot)], 120.0)
    words = peer.command(work, out, snapshot)
    env = {**os.environ, "HF_HOME": str(hub), "HF_HUB_OFFLINE": "1"}
    env.pop("PYTHONPATH", None)
    _call([str(home / "bin" / words[0]), *words[1:]], RUN_LIMIT_S, env, out)
    try:
        seen = peer.read(out)
    except (OSError, KeyError, IndexError, msgspec.MsgspecError) as error:
        raise Unavailable(f"its result cannot be read ({type(error).__name__}: {error})") from error
    if not seen.ttft_ms:
        raise Unavailable("it reports no request")
    return seen


def _call(
    words: list[str], limit_s: float, env: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    """The output of a command. Raises Unavailable with its last line when it fails."""
    what = " ".join(Path(word).name for word in words[:3])
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, timeout=limit_s, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Unavailable(f"{what}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{what}: not done within {limit_s:g} s") from error
    if done.returncode:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = said[-1][:200] if said else "no output"
        raise Unavailable(f"{what}: exit code {done.returncode}: {last}")
    return done.stdout
