"""An engine that is healthy but answers no chat: found when it is attached, with its own words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.engine import launch
from bench.errors import EngineError
from bench.scenario import Engine, EngineKind
from gateway import TEXT, Gateway, chunk, serving

KEY = "sk-very-secret"
CALL = {"index": 0, "id": "c", "function": {"name": "sql_query", "arguments": "{}"}}
TOOLS_OFF = '{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice"}}'


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving() as server:
        yield server


def attached(url: str, **options: Any) -> Engine:
    facts: dict[str, Any] = {
        "kind": EngineKind.attached,
        "name": "att",
        "url": url,
        "gpu": "H100",
        "tensor_parallel": 4,
        "start_timeout_s": 10.0,
    }
    return Engine(**(facts | options))


REFUSALS = {
    "a wrong key": (401, f'{{"error": {{"message": "no such key {KEY}"}}}}', r"HTTP 401: no such"),
    "a login page": (200, "<html><body>Please sign in</body></html>", r"begins '<html><body>Pl"),
    "a bad gateway": (502, "<html>502 Bad Gateway</html>", r"HTTP 502.*Bad Gateway"),
    "no parser": (400, TOOLS_OFF, r"HTTP 400.*; .*--enable-auto-tool-choice and a parser"),
    "an empty answer": (200, "", "no answer came|no token came"),
    "an error event": (200, 'data: {"error": {"message": "engine dead"}}\n\n', "engine dead"),
    "a stream without tokens": (200, "data: [DONE]\n\n", "no token came"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_engine_that_answers_no_chat_is_refused(
    name: str, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.status, gateway.answer, sentence = REFUSALS[name]
    monkeypatch.setenv("BENCH_TEST_KEY", KEY)
    engine = attached(gateway.url, key_env="BENCH_TEST_KEY")
    with (
        pytest.raises(EngineError, match=sentence) as raised,
        launch(engine, tmp_path, tmp_path, 1),
    ):
        pass
    message = str(raised.value)
    assert message.startswith(f"engine.url={gateway.url}: gives no chat completion of 'm'")
    assert "\n" not in message
    assert KEY not in message


ANSWERS = {
    "text": TEXT,
    "a call": chunk({"tool_calls": [CALL]}) + chunk({}, "tool_calls") + "data: [DONE]\n\n",
    "cut by the limit": chunk({"content": "Y"}) + chunk({}, "length") + "data: [DONE]\n\n",
    "thinking": chunk({"reasoning_content": "Hm"}) + chunk({}, "length") + "data: [DONE]\n\n",
}


@pytest.mark.parametrize("with_tools", [True, False])
@pytest.mark.parametrize("name", ANSWERS)
def test_any_tokens_will_do(name: str, with_tools: bool, gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer = ANSWERS[name]
    with launch(attached(gateway.url), tmp_path, tmp_path, 1, with_tools=with_tools) as running:
        assert running.endpoint.model == "m"
    (asked,) = gateway.asked
    assert asked["stream"] is True
    assert ("tools" in asked) is with_tools
