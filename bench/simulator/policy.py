"""What the simulated model says: a thought, calls, or an answer.

It knows how a good episode of a known question goes (the task's planned turns: how many calls, and
their arguments), as a capable model would; but which tool it calls comes from `choice`, so it errs
where the descriptions mislead, and its answer quotes what the tools really returned. Scripted
requests (min_tokens = max_tokens, ignore_eos) get filler of exactly that length.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.episode import PlannedCall, PlannedTurn, Task, Workload, read_tasks, read_tools
from bench.material import read_selection
from bench.simulator.answer import Seen, answer_from, answer_from_context
from bench.simulator.choice import Chooser, Embed, Face
from bench.simulator.tokens import content_text, pieces

FILLER = " The evidence so far is being weighed against the question that was asked."
_CLAUSE = re.compile(r"[,;]?\s+(?:and also|and|also|as well as|plus)\s+|;\s*|\?\s+(?=\w)")


class Call(msgspec.Struct, frozen=True):
    """One call as the model writes it; `arguments` is JSON text."""

    name: str
    arguments: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One assistant turn. `final`: it is the answer; `task` is the known task, if it is one."""

    content: str
    calls: list[Call] = []
    final: bool = True
    task: Task | None = None


class Material(msgspec.Struct, frozen=True):
    """What the simulated model knows of a scenario: tasks by question, tools by any name."""

    tasks: dict[str, Task]
    canonical: dict[str, str]


def read_material(directory: Path | None) -> Material:
    """tasks.jsonl, selection.jsonl and tools.json of a directory; each may be absent.

    Raises ScenarioError when one is there and cannot be read.
    """
    tasks: dict[str, Task] = {}
    canonical: dict[str, str] = {}
    if directory is None:
        return Material(tasks, canonical)
    for name, read in (("selection.jsonl", read_selection), ("tasks.jsonl", read_tasks)):
        if (directory / name).exists():
            tasks.update({task.question.strip(): task for task in read(directory / name)})
    if (directory / "tools.json").exists():
        for tool in read_tools(directory / "tools.json"):
            canonical |= {tool.strong_name: tool.tool, tool.weak_name: tool.tool}
    return Material(tasks, canonical)


def turn_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many assistant turns followed the last user message."""
    turn = 0
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        turn += message.get("role") == "assistant"
    return turn


def is_final(task: Task | None, turn: int) -> bool:
    """True when a known task has no planned turn left: what comes now is its answer."""
    if task is None:
        return False
    return task.workload is Workload.naive_rag or turn >= len(task.turns)


def filler(tokens: int) -> str:
    """A text of exactly that many tokens."""
    words = pieces(FILLER)
    return "".join((words * (tokens // len(words) + 1))[:tokens])


class Policy:
    """The simulated model's mind. `embed` maps texts to rows of unit length."""

    def __init__(self, material: Material, seed: int, embed: Embed) -> None:
        self._material = material
        self._seed = seed
        self._chooser = Chooser(seed, embed)

    def reply(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        required: bool = False,
        slip: bool = False,
    ) -> Reply:
        """The next assistant turn of a chat. `required`: a first turn must call a tool.

        slip: it takes the second-best tool for the best.
        """
        asked = next((content_text(m) for m in reversed(messages) if m.get("role") == "user"), "")
        asked = asked.strip()
        task = self.task_of(asked)
        question = task.question if task else asked
        if not tools:
            asked_last, context = _split_context(asked)
            return Reply(content=answer_from_context(asked_last, context), task=task)
        turn = turn_of(messages)
        faces = [_face(tool) for tool in tools]
        planned = task.turns[turn] if task and turn < len(task.turns) else None
        if planned is not None:
            return self._planned(task, planned, question, faces, turn, required, slip)
        if turn == 0:
            ranked = self._chooser.rank(question, "", faces, 0)
            best = next(iter(_faces(ranked)), None) if required else ranked[0]
            if best is not None:
                best = _slipped(_faces(ranked), slip)[0]
                calls = [Call(best.name, _arguments(question, best))]
                return Reply(content="", calls=calls, final=False, task=task)
        return Reply(content=answer_from(question, _seen(messages)), task=task)

    def slips(self, asked: str, turn: int, rate: float) -> bool:
        """Whether the model errs in this turn: the same turns at the same rate, and more of them
        at a higher one."""
        if rate <= 0:
            return False
        key = f"{self._seed}|{turn}|{asked}".encode()
        drawn = int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"slip").digest(), "big")
        return drawn < rate * 2**64

    def task_of(self, asked: str) -> Task | None:
        """The known task that a user message asks, alone or with retrieved context around it."""
        tasks = self._material.tasks
        return tasks.get(asked) or tasks.get(_split_context(asked)[0])

    def _planned(
        self,
        task: Task | None,
        planned: PlannedTurn,
        question: str,
        faces: Sequence[Face],
        turn: int,
        required: bool,
        slip: bool,
    ) -> Reply:
        # Of several turns, each has a thought of its own; a single one answers the question.
        thought = planned.thought if turn or (task and len(task.turns) > 1) else ""
        may_abstain = turn == 0 and len(planned.calls) == 1 and not required
        chosen = self._choose(question, thought, len(planned.calls), faces, turn, may_abstain, slip)
        if not chosen:
            return Reply(content=answer_from(question, []), task=task)
        calls: list[Call] = []
        unused = list(planned.calls)
        for face in chosen:
            match = next((call for call in unused if self._is(face, call)), None)
            if match is not None:
                unused.remove(match)
            arguments = None if match is None else match.arguments
            calls.append(
                Call(
                    face.name,
                    _arguments(question, face)
                    if arguments is None
                    else json.dumps(arguments, ensure_ascii=False),
                )
            )
        return Reply(content=planned.thought, calls=calls, final=False, task=task)

    def _choose(
        self,
        question: str,
        thought: str,
        wanted: int,
        faces: Sequence[Face],
        turn: int,
        may_abstain: bool,
        slip: bool,
    ) -> list[Face]:
        """The tools of one turn: the best one, or for parallel calls one per part of the question.

        Empty only where it may abstain: the model thinks that no tool is needed.
        """
        parts = [part for part in _CLAUSE.split(question) if len(part.split()) > 2]
        if wanted > 1 and len(parts) == wanted:
            picks = [self._chooser.rank(part, thought, faces, turn) for part in parts]
            return [_slipped(_faces(ranked), slip)[0] for ranked in picks]
        ranked = self._chooser.rank(question, thought, faces, turn)
        if may_abstain and ranked[0] is None:
            return []
        return _slipped(_faces(ranked), slip)[:wanted]

    def _is(self, face: Face, call: PlannedCall) -> bool:
        return self._material.canonical.get(face.name, face.name) == call.tool


def _faces(ranked: Sequence[Face | None]) -> list[Face]:
    return [face for face in ranked if face is not None]


def _slipped(faces: list[Face], slip: bool) -> list[Face]:
    """The first two changed places, when the model errs and there are two."""
    return [faces[1], faces[0], *faces[2:]] if slip and len(faces) > 1 else faces


def _face(tool: Mapping[str, Any]) -> Face:
    function = tool.get("function", {})
    return Face(
        str(function.get("name", "")),
        str(function.get("description", "")),
        function.get("parameters") or {},
    )


def _arguments(question: str, face: Face) -> str:
    """Arguments of a call without a plan: the question itself under the first required key."""
    required = face.parameters.get("required") or ["query"]
    return json.dumps({str(required[0]): question}, ensure_ascii=False)


def _seen(messages: Sequence[Mapping[str, Any]]) -> list[Seen]:
    """The tools' texts since the last user message, in order, with the calls' arguments."""
    found: list[Seen] = []
    arguments: dict[str, str] = {}
    for message in messages:
        role = message.get("role")
        if role == "user":
            found, arguments = [], {}
        for call in message.get("tool_calls") or []:
            arguments[str(call.get("id"))] = str((call.get("function") or {}).get("arguments", ""))
        if role == "tool":
            asked = arguments.get(str(message.get("tool_call_id")), "")
            found.append(Seen(asked, content_text(message)))
    return found


def _split_context(asked: str) -> tuple[str, str]:
    """(question, context) of a naive RAG message: the question is its last part."""
    context, marked, question = asked.rpartition("Question:")
    if not marked:
        context, _, question = asked.rpartition("\n")
    return question.strip(), context.strip().removeprefix("Context:").strip()
