"""What an agent is asked, does and sees: Task, Episode words, ToolCall, Observation.

A Task is one line of `tasks.jsonl` or `selection.jsonl`: the question, the plan that answers it
(turns of planned calls; in `control=scripted` it is played back, in `control=live` it is what
the grader expects) and the facts that a right answer must contain.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.errors import ScenarioError


class Workload(enum.Enum):
    """The shape of an episode. `selection` is one turn whose tool is not executed."""

    naive_rag = "naive_rag"
    react_1 = "react_1"
    react_2 = "react_2"
    react_3 = "react_3"
    parallel = "parallel"
    web = "web"
    selection = "selection"


class Tool(enum.Enum):
    """The canonical name of a tool, whatever a description set calls it."""

    sql_query = "sql_query"
    vector_search = "vector_search"
    web_search = "web_search"


class ToolCall(msgspec.Struct, frozen=True):
    """One call as the model wrote it. `arguments` is the raw JSON text."""

    id: str
    name: str
    arguments: str


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that a right episode makes. `arguments=None`: any arguments will do."""

    tool: str
    arguments: dict[str, Any] | None = None


class PlannedTurn(msgspec.Struct, frozen=True):
    """One planned turn; two or more calls in it are independent and run in parallel."""

    calls: list[PlannedCall]
    thought: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its plan and the facts of a right answer.

    `turns` empty means that no tool should be called (an abstention item).
    `facts`: strings that must all occur in the final answer; empty means not gradable.
    """

    id: str
    workload: Workload
    question: str
    turns: list[PlannedTurn] = []
    facts: list[str] = []
    stratum: str = ""
    source: str = ""
    licence: str = ""  # of the question, where it is somebody else's


class ObservationOutcome(enum.Enum):
    """How a tool call ended."""

    ok = "ok"
    error = "error"
    timeout = "timeout"
    refused = "refused"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back. `content` is the text that the model reads.

    `wait_s`: how long the call waited for a connection of ours before the service was asked.
    """

    content: str
    outcome: ObservationOutcome = ObservationOutcome.ok
    error: str = ""
    rows: int | None = None
    wait_s: float | None = None


class ToolDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `tools.json`: a canonical tool with its strong and weak face."""

    tool: str
    strong_name: str
    strong_description: str
    weak_name: str
    weak_description: str
    parameters: dict[str, Any]

    def face(self, strong: bool) -> dict[str, Any]:
        """The OpenAI `tools` entry of this tool under the strong or the weak description."""
        return {
            "type": "function",
            "function": {
                "name": self.strong_name if strong else self.weak_name,
                "description": self.strong_description if strong else self.weak_description,
                "parameters": self.parameters,
            },
        }


class Purpose(enum.IntEnum):
    """What a keyed random substream is for; the numbers are part of the format."""

    task = 0
    think = 1
    stagger = 2
    tool_delay = 3
    policy = 4
    retry = 5
    arrival = 6


def substream(
    seed: int, user: int, episode: int, turn: int, purpose: Purpose
) -> np.random.Generator:
    """The random generator of one (user, episode, turn, purpose), the same in every arm.

    methods.md section 2: `SeedSequence(seed, spawn_key=(user, episode, turn, purpose))`.
    """
    key = (user, episode, turn, int(purpose))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def read_tasks(path: Path) -> list[Task]:
    """The tasks of a JSON-lines file, in order.

    Raises ScenarioError when the file cannot be read, is empty, or a line is not a Task.
    """
    remedy = f"write one JSON object a line into {path}, as scenarios/README.md shows"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"tasks={path}", f"cannot be read ({error})", remedy) from error
    tasks = list(_decode_tasks(text, path))
    if not tasks:
        raise ScenarioError(f"tasks={path}", "holds no task", remedy)
    return tasks


def _decode_tasks(text: str, path: Path) -> Iterator[Task]:
    decoder = msgspec.json.Decoder(Task)
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"tasks={path}:{number}"
        try:
            task = decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise ScenarioError(
                where, f"is not a task ({error})", "correct this line or remove it"
            ) from error
        if task.id in seen:
            raise ScenarioError(where, f"id {task.id!r} occurs twice", "give it an id of its own")
        seen.add(task.id)
        yield task


def read_tools(path: Path) -> list[ToolDescription]:
    """The tool descriptions of a scenario's `tools.json`. Raises ScenarioError."""
    known = ", ".join(tool.value for tool in Tool)
    try:
        tools = msgspec.json.decode(path.read_bytes(), type=list[ToolDescription])
    except (OSError, msgspec.MsgspecError) as error:
        raise ScenarioError(
            f"tools={path}", f"cannot be read ({error})", "compare it with scenarios/contracts"
        ) from error
    for entry in tools:
        if entry.tool not in Tool.__members__:
            raise ScenarioError(f"tools={path}", f"unknown tool {entry.tool!r}", f"use {known}")
    return tools
