"""Toolbelt: executes the calls of a turn, really in parallel, and records every attempt."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.agent.order import Order, Sink
from bench.agent.transcript import parse_arguments
from bench.episode import Observation, ObservationOutcome, ToolCall, ToolDescription
from bench.record import ToolOutcome, ToolRecord
from bench.tools import Tool

STORED_CHARS = 4000
_RETRIED = (ObservationOutcome.error, ObservationOutcome.timeout)


class Seen(msgspec.Struct, frozen=True):
    """An observation and when it arrived, monotonic ns."""

    content: str
    arrived_ns: int


class Toolbelt:
    """The tools of one episode host under the names that the model sees.

    names: name as the model calls it -> canonical name. retries: how often a call that ended in
    error or timeout is repeated; a refused one never is. in_flight counts within this host.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        descriptions: Sequence[ToolDescription],
        strong: bool,
        retries: int,
        recorded: bool,
        sink: Sink,
    ) -> None:
        self.faces: list[dict[str, Any]] = [entry.face(strong) for entry in descriptions]
        self._canonical: dict[str, str] = {
            face["function"]["name"]: entry.tool
            for face, entry in zip(self.faces, descriptions, strict=True)
        }
        self._shown = {canonical: name for name, canonical in self._canonical.items()}
        self._parameters = {entry.tool: entry.parameters for entry in descriptions}
        self._tools = tools
        self._retries = retries
        self._recorded = recorded
        self._sink = sink
        self._in_flight: Counter[str] = Counter()

    def call_of(
        self, call_id: str, tool: str, arguments: dict[str, Any] | None, question: str
    ) -> ToolCall:
        """A call of a canonical tool under its shown name; without arguments, for the question."""
        if arguments is None:
            required = self._parameters.get(tool, {}).get("required") or ["query"]
            arguments = {str(required[0]): question}
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(call_id, self._shown.get(tool, tool), text)

    async def execute(self, order: Order, turn: int, calls: Sequence[ToolCall]) -> list[Seen]:
        """Run the calls of one turn at the same time; their last observations, in call order.

        When cancelled, every running attempt is recorded as cut before the cancellation passes.
        Raises what the sink raises.
        """
        try:
            async with asyncio.TaskGroup() as group:
                running = [
                    group.create_task(self._run(order, turn, number, call))
                    for number, call in enumerate(calls)
                ]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return [task.result() for task in running]

    async def _run(self, order: Order, turn: int, number: int, call: ToolCall) -> Seen:
        canonical = self._canonical.get(call.name)
        tool = None if canonical is None else self._tools.get(canonical)
        now_ns = time.monotonic_ns()
        blank = ToolRecord(
            point=order.point,
            user=order.user,
            episode=order.episode,
            turn=turn,
            call=number,
            tool=canonical or call.name,
            name=call.name,
            arguments=call.arguments[:STORED_CHARS],
            sent_ns=now_ns,
            outcome=ToolOutcome.cut,
            recorded=self._recorded,
        )
        if tool is None:
            known = ", ".join(self._canonical)
            return self._reject(blank, ToolOutcome.unknown, f"no such tool; there are {known}")
        arguments = parse_arguments(call.arguments)
        if arguments is None:
            return self._reject(blank, ToolOutcome.refused, "the arguments are no JSON object")
        for attempt in range(self._retries + 1):
            seen, outcome = await self._attempt(blank, attempt, tool, arguments)
            if outcome not in _RETRIED:
                break
        return seen

    def _reject(self, blank: ToolRecord, outcome: ToolOutcome, error: str) -> Seen:
        """Nothing is executed: the error itself is the observation."""
        content = json.dumps({"error": error, "tool": blank.name})
        self._sink.tool(
            msgspec.structs.replace(
                blank, done_ns=blank.sent_ns, outcome=outcome, error=error, bytes=len(content)
            )
        )
        return Seen(content, blank.sent_ns)

    async def _attempt(
        self, blank: ToolRecord, attempt: int, tool: Tool, arguments: dict[str, Any]
    ) -> tuple[Seen, ObservationOutcome]:
        others = self._in_flight[blank.tool]
        self._in_flight[blank.tool] += 1
        record = msgspec.structs.replace(blank, attempt=attempt, in_flight=others)
        record.sent_ns = time.monotonic_ns()
        try:
            observation: Observation = await tool.call(arguments)
        except asyncio.CancelledError:
            record.done_ns, record.error = time.monotonic_ns(), "cut by us"
            self._sink.tool(record)
            raise
        finally:
            self._in_flight[blank.tool] -= 1
        done_ns = time.monotonic_ns()
        record.done_ns = done_ns
        record.outcome = ToolOutcome(observation.outcome.value)
        record.error = observation.error[:STORED_CHARS]
        record.rows = observation.rows
        record.wait_s = observation.wait_s
        record.bytes = len(observation.content.encode())
        self._sink.tool(record)
        return Seen(observation.content, done_ns), observation.outcome
