"""One real chat completion before the load: an engine that is healthy but answers nobody is found.

A gateway may answer /health for a server behind it that is down, a key may be wrong, a model name
misspelt, a tool parser not switched on: all of these show only at the first completion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bench.client import Connection, complete
from bench.errors import EngineError
from bench.record import LLMOutcome, LLMRecord
from bench.run import Endpoint

SHOWN_BYTES = 200
MAX_TOKENS = 16
TOOL = {
    "type": "function",
    "function": {
        "name": "sql_query",
        "description": "Run a query.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}


def probe_chat(
    what: str, endpoint: Endpoint, headers: Mapping[str, str], timeout_s: float, with_tools: bool
) -> None:
    """Ask for a few tokens, streamed, with the client that will measure.

    what: the setting to name in an error. with_tools: offer a tool, as agents do. timeout_s: for
    the whole answer. An answer that is cut or calls the tool is one. Raises EngineError with the
    status and the beginning of the body.
    """
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": "Answer with one word: are you ready?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": MAX_TOKENS,
    }
    if with_tools:
        body["tools"] = [TOOL]
    record, shown = asyncio.run(_ask(endpoint.base_url, headers, body, timeout_s))
    if record.first_delta_ns is not None and record.outcome is not LLMOutcome.stream_error:
        return
    remedy = "check engine.model, engine.key_env and the server's log"
    if with_tools and record.status == 400:
        remedy = "if it is about tools: start vLLM with --enable-auto-tool-choice and a parser"
    said = "" if shown in record.error else f", its answer begins {shown!r}"
    why = f"gives no chat completion of {endpoint.model!r} ({record.error}{said})"
    key = headers.get("Authorization", "").removeprefix("Bearer ")
    raise EngineError(what, why.replace(key, "***") if key else why, remedy)


async def _ask(
    base_url: str, headers: Mapping[str, str], body: dict[str, Any], timeout_s: float
) -> tuple[LLMRecord, str]:
    """The record of the call, and how its body begins."""
    connection = Connection(base_url, headers)
    blank = LLMRecord(
        point="probe", user=0, episode=0, turn=0, scheduled_ns=0, outcome=LLMOutcome.cut
    )
    try:
        record = await complete(connection, body, blank, timeout_s)
        text = bytes(connection.stream.body[:SHOWN_BYTES]).decode("utf-8", "replace")
    finally:
        await connection.close()
    return record, " ".join(text.split())
