"""Agent: runs one episode of any workload and writes its records.

    live       the model's calls are executed and shape its next prompt; may be graded
    scripted   the task's plan is played; every model call is sent and timed at a fixed length,
               what it says is discarded; the planned calls are executed
    naive_rag  retrieve once, then one model call without tools
    selection  one model call with tools, nothing is executed

A model call that brings no usable answer ends the episode as failed, with its reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.agent.order import Order, Sink
from bench.agent.prompts import agent_system, rag_question, rag_system
from bench.agent.toolbelt import STORED_CHARS, Toolbelt
from bench.agent.transcript import Transcript
from bench.client import Connection, complete, cut_record
from bench.episode import Task, ToolCall, ToolDescription
from bench.episode import Tool as ToolName
from bench.episode import Workload as WorkloadName
from bench.record import EpisodeOutcome, EpisodeRecord, LLMOutcome, LLMRecord
from bench.run import Endpoint
from bench.scenario import Control, Descriptions, Workload
from bench.tools import Tool

# A call in such an answer is executed, or comes back as an observation that says what is wrong.
_ACTED_ON = (LLMOutcome.ok, LLMOutcome.parse_failure, LLMOutcome.truncated)


ANSWER_CHARS = 65_536  # of the answer that is graded: none is cut that a model was meant to give


class Agent:
    """The agent of one episode host; `run` may be called for many users at the same time."""

    def __init__(
        self,
        endpoint: Endpoint,
        workload: Workload,
        tools: dict[str, Tool],
        descriptions: list[ToolDescription],
        retries: int,
        recorded: bool,
        sink: Sink,
    ) -> None:
        self.endpoint = endpoint
        self.workload = workload
        self.sink = sink
        self.recorded = recorded
        strong = workload.descriptions is Descriptions.strong
        self.toolbelt = Toolbelt(tools, descriptions, strong, retries, recorded, sink)

    async def run(self, order: Order, task: Task, connection: Connection) -> EpisodeRecord:
        """Run one episode to its end; every record goes to the sink, the episode's last.

        When cancelled, what runs is recorded as cut and the episode's record (outcome cut) is
        returned, not raised. Raises what the sink raises.
        """
        record = EpisodeRecord(
            point=order.point,
            user=order.user,
            episode=order.episode,
            task=task.id,
            workload=task.workload,
            control=self.workload.control.value,
            tools="recorded" if self.recorded else "live",
            scheduled_ns=order.scheduled_ns,
            started_ns=time.monotonic_ns(),
            outcome=EpisodeOutcome.cut,
            error="cut by us",
        )
        episode = _Episode(self, order, task, connection, record)
        try:
            await episode.play()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None:
                current.uncancel()
        self.sink.episode(record)
        return record


class _Episode:
    """The state of one running episode. `record` becomes its outcome when that is known."""

    def __init__(
        self,
        agent: Agent,
        order: Order,
        task: Task,
        connection: Connection,
        record: EpisodeRecord,
    ) -> None:
        self.record = record
        self._agent = agent
        self._order = order
        self._task = task
        self._connection = connection
        self._scripted = agent.workload.control is Control.scripted
        self._transcript = Transcript(agent_system(order.salt), task.question)
        self._due_ns = order.scheduled_ns  # when the next model call could have been sent

    async def play(self) -> None:
        """Play the episode; its outcome is in `record`."""
        if self._task.workload is WorkloadName.naive_rag:
            await self._naive_rag()
        elif self._task.workload is WorkloadName.selection:
            await self._select()
        elif self._scripted:
            await self._follow_script()
        else:
            await self._react()

    async def _react(self) -> None:
        limit = self._agent.workload.iteration_limit
        for turn in range(limit + 1):
            answer = await self._ask(turn)
            if not answer.calls or answer.outcome not in _ACTED_ON:
                self._conclude(answer)
                return
            if turn == limit:
                self._reach_limit()
                return
            await self._act(turn, answer.content, answer.calls)

    async def _follow_script(self) -> None:
        agent, task = self._agent, self._task
        for turn, planned in enumerate(task.turns):
            if turn == agent.workload.iteration_limit:
                self._reach_limit()
                return
            answer = await self._ask(turn, agent.workload.call_tokens, final=False)
            if answer.outcome is not LLMOutcome.ok:
                self._conclude(answer)
                return
            calls = [
                agent.toolbelt.call_of(
                    f"call_{turn}_{number}", call.tool, call.arguments, task.question
                )
                for number, call in enumerate(planned.calls)
            ]
            await self._act(turn, planned.thought, calls)
        self._conclude(await self._ask(len(task.turns), agent.workload.answer_tokens))

    async def _naive_rag(self) -> None:
        agent, task = self._agent, self._task
        call = agent.toolbelt.call_of(
            "call_0", ToolName.vector_search.value, {"query": task.question}, task.question
        )
        [seen] = await agent.toolbelt.execute(self._order, 0, [call])
        self._due_ns = seen.arrived_ns
        self._transcript = Transcript(
            rag_system(self._order.salt), rag_question(seen.content, task.question)
        )
        length = agent.workload.answer_tokens if self._scripted else None
        self._conclude(await self._ask(0, length))

    async def _select(self) -> None:
        choice = await self._ask(0)
        self._conclude(choice)
        if choice.outcome in _ACTED_ON:  # what was chosen is the grader's question, right or wrong
            self.record.outcome = EpisodeOutcome.chosen
            self.record.error = ""
            self.record.done_ns = choice.last_delta_ns

    async def _act(self, turn: int, content: str, calls: Sequence[ToolCall]) -> None:
        """Execute a turn's calls and carry them and their observations into the history."""
        seen = await self._agent.toolbelt.execute(self._order, turn, calls)
        self._due_ns = max((each.arrived_ns for each in seen), default=time.monotonic_ns())
        self._transcript.add_turn(content, calls, [each.content for each in seen])

    async def _ask(
        self, turn: int, fixed_tokens: int | None = None, final: bool = True
    ) -> LLMRecord:
        """One model call, recorded. The whole content is returned, a capped one is stored.

        fixed_tokens: the length of a scripted answer. final: a usable answer without calls is
        the episode's answer.
        """
        order = self._order
        blank = LLMRecord(
            point=order.point,
            user=order.user,
            episode=order.episode,
            turn=turn,
            workload=self._task.workload,
            scheduled_ns=self._due_ns,
            outcome=LLMOutcome.cut,
        )
        self.record.turns += 1
        body = self._body(turn, fixed_tokens)
        timeout_s = self._agent.workload.request_timeout_s
        try:
            answer = await complete(self._connection, body, blank, timeout_s)
        except asyncio.CancelledError:
            self._store(cut_record(self._connection, blank))
            raise
        if fixed_tokens is not None:
            answer.content, answer.calls = "", []
        answer.final = final and answer.outcome is LLMOutcome.ok and not answer.calls
        self._store(answer)
        return answer

    def _store(self, answer: LLMRecord) -> None:
        if not answer.final:
            answer.first_answer_ns = None  # the first answer token is the answering turn's
        self._agent.sink.llm(msgspec.structs.replace(answer, content=answer.content[:STORED_CHARS]))

    def _body(self, turn: int, fixed_tokens: int | None) -> dict[str, Any]:
        workload = self._agent.workload
        body: dict[str, Any] = {
            "model": self._agent.endpoint.model,
            "messages": self._transcript.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": workload.temperature,
            "max_tokens": fixed_tokens or workload.max_tokens,
            "seed": self._order.request_seed(turn),
        }
        if self._task.workload is not WorkloadName.naive_rag:
            body["tools"] = self._agent.toolbelt.faces
        if fixed_tokens is not None:
            body["min_tokens"] = fixed_tokens
            body["ignore_eos"] = True
            if "tools" in body:  # they stay in the prompt, but no parser holds tokens back
                body["tool_choice"] = "none"
        return body

    def _conclude(self, answer: LLMRecord) -> None:
        """The episode ends with this model call: answered when it is the answer, else failed."""
        record = self.record
        if answer.final:
            record.outcome, record.error = EpisodeOutcome.answered, ""
            record.done_ns = answer.last_delta_ns
            record.first_answer_ns = answer.first_answer_ns
            record.answer = answer.content[:ANSWER_CHARS]
            if len(answer.content) > ANSWER_CHARS:
                record.error = f"the answer of {len(answer.content)} characters is stored short"
        else:
            record.outcome = EpisodeOutcome.failed
            record.error = f"turn {answer.turn}: {answer.outcome.value}: {answer.error}"

    def _reach_limit(self) -> None:
        limit = self._agent.workload.iteration_limit
        self.record.outcome = EpisodeOutcome.iteration_limit
        self.record.error = f"no answer after {limit} turns with tools"
