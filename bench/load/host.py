"""Host: the process in which episodes run. `python -m bench.load.host SPEC.json`.

asyncio on uvloop, nothing patched. It opens the tools, keeps one connection to the engine per
user, answers the lines of `bench.load.line` on a Unix socket and writes the records. SIGTERM
cuts what runs and exits 0; an error ends it with one line in the log and its exit code
(74: the disk took no more records).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from bench.agent import Agent, Order
from bench.client import Connection, LoopLag, Turns
from bench.episode import Task, Workload, read_tasks, read_tools
from bench.errors import BenchError, LoadError, ScenarioError
from bench.load.deal import check_deal, deal
from bench.load.grid import Grid
from bench.load.line import Done, EpisodeReply, Op, Progress, Reply, Request, decode_request, encode
from bench.load.sink import RecordSink
from bench.load.spec import HostSpec, read_spec
from bench.load.status import Counters
from bench.record import GRID_POINT, EpisodeOutcome, EpisodeRecord
from bench.scenario import ToolSource
from bench.tools import Tool as OpenTool
from bench.tools import open_toolbox

CUT_LIMIT_S = 10.0  # for running episodes to write their records after a cut
HANG_UP_LIMIT_S = 1.0
COLLECT_AFTER = 20_000  # objects more than were freed; 700 is usual
LATE_LINES_LIMIT_S = 2.0  # for lines that Locust had sent before it was stopped

logger = logging.getLogger(__name__)


class Host:
    """The state of one episode host. All its methods run on the event loop.

    `ended` is set with None (asked to shut down) or with the error that ends the process.
    """

    def __init__(
        self, spec: HostSpec, tasks: dict[Workload, list[Task]], agent: Agent, sink: RecordSink
    ) -> None:
        self.spec = spec
        self.ended: asyncio.Future[BaseException | None] = asyncio.Future()
        self._tasks = tasks
        self._agent = agent
        self._sink = sink
        self._point: str | None = None  # None: no episode may run
        self._running: dict[asyncio.Task[EpisodeRecord], Order] = {}
        self._grid: asyncio.Task[None] | None = None
        self._by_id = {task.id: task for each in tasks.values() for task in each}
        self._connections: dict[int, Connection] = {}  # of users
        self._free: list[Connection] = []  # of arrivals; in use: in nobody's list
        self._peers: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self.loop_lag = LoopLag()
        self._turns = Turns()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the lines of one peer until it hangs up."""
        self._peers[asyncio.current_task()] = writer
        try:
            while line := await _next_line(reader):
                try:
                    request = decode_request(line)
                except msgspec.MsgspecError as error:
                    reply: Reply = Done(error=f"line: is no request ({error}); see bench.load.line")
                else:
                    reply = await self._answer(request, writer)
                writer.write(encode(reply))
                with contextlib.suppress(ConnectionError):  # it went away: the next line is empty
                    await writer.drain()
        finally:
            writer.close()
            del self._peers[asyncio.current_task()]

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> Reply:
        try:
            match request.op:
                case Op.episode:
                    return await self._episode(request)
                case Op.start:
                    self._sink.counters.planned_start_ns = request.scheduled_ns
                case Op.status:
                    status = self._sink.counters.status(request.before_ns)
                    status.loop_lag_s_p99 = self.loop_lag.p99_s()
                    return status
                case Op.begin:
                    await self.cut()
                    self._sink.counters = Counters(request.point)
                    calm_collector()
                    self.loop_lag.restart()
                    self._point = request.point
                case Op.grid:
                    await self._run_grid(writer)
                case Op.cut:
                    await self.cut(request.scheduled)
                case Op.shutdown:
                    await self.cut()
                    self._end(None)
        except BenchError as error:
            self._end(error)
            return Done(error=str(error))
        return Done(ns=time.monotonic_ns())

    async def _episode(self, request: Request) -> EpisodeReply:
        spec = self.spec
        task = self._task(request)
        order = Order(
            point=request.point,
            user=request.user,
            episode=request.episode,
            scheduled_ns=request.scheduled_ns,
            salt=f"{spec.run_id}/{request.point}",
        )
        started_ns = time.monotonic_ns()
        self._sink.start(order.point, order.user, order.episode, order.scheduled_ns)
        if self._point != order.point:  # it came after the cut
            self._write_cut(order, task, started_ns)
            return self._reply(order, task, EpisodeOutcome.cut)
        connection = self._take(request)
        running = asyncio.create_task(self._agent.run(order, task, connection))
        self._running[running] = order
        await asyncio.wait({running})
        del self._running[running]
        if request.pooled:
            self._free.append(connection)
        error = None if running.cancelled() else running.exception()
        if error is not None:
            self._end(error)
            return self._reply(order, task, EpisodeOutcome.failed, str(error))
        if self._sink.is_open(order.point, order.user, order.episode):  # cut before it began
            self._write_cut(order, task, started_ns)
        if running.cancelled():
            return self._reply(order, task, EpisodeOutcome.cut)
        record = running.result()
        return self._reply(order, task, record.outcome, record.error, record.latency_s)

    def _task(self, request: Request) -> Task:
        if not request.task:
            scenario = self.spec.scenario
            return deal(
                self._tasks,
                scenario.workload.mix,
                scenario.seed,
                request.user,
                request.episode,
            )
        if request.task not in self._by_id:
            raise ScenarioError(
                f"task={request.task}",
                "a trace names it and the workloads of workload.mix do not hold it",
                "correct the trace, or give its workload a weight in workload.mix",
            )
        return self._by_id[request.task]

    def _take(self, request: Request) -> Connection:
        """The user's own connection; for an arrival one that is free now, at once."""
        if request.pooled:
            return self._free.pop() if self._free else open_connection(self.spec, self._turns)
        connection = self._connections.get(request.user)
        if connection is None:
            connection = open_connection(self.spec, self._turns)
            self._connections[request.user] = connection
        return connection

    def _write_cut(self, order: Order, task: Task, started_ns: int) -> None:
        scenario = self.spec.scenario
        record = EpisodeRecord(
            point=order.point,
            user=order.user,
            episode=order.episode,
            task=task.id,
            workload=task.workload,
            control=scenario.workload.control.value,
            tools="recorded" if is_recorded(self.spec) else "live",
            scheduled_ns=order.scheduled_ns,
            started_ns=started_ns,
            outcome=EpisodeOutcome.cut,
            error="the load was stopped before the episode began",
        )
        self._sink.episode(record)

    def _reply(
        self,
        order: Order,
        task: Task,
        outcome: EpisodeOutcome,
        error: str = "",
        latency_s: float | None = None,
    ) -> EpisodeReply:
        ttft_s = self._sink.take_ttft_s(order.point, order.user, order.episode)
        return EpisodeReply(
            outcome=outcome.value,
            workload=task.workload.value,
            done_ns=time.monotonic_ns(),
            latency_ms=None if latency_s is None else latency_s * 1e3,
            ttft_ms=None if ttft_s is None else ttft_s * 1e3,
            error=error,
        )

    async def _run_grid(self, writer: asyncio.StreamWriter) -> None:
        """Run the idle grid; one Progress line per request. Ends early when the peer hangs up."""

        def on_progress(done: int, total: int) -> None:
            if writer.is_closing() and self._grid is not None:
                self._grid.cancel()
            else:
                writer.write(encode(Progress(done=done, total=total)))

        spec = self.spec
        self._sink.counters = Counters(GRID_POINT)
        connection = open_connection(spec)
        grid = Grid(
            load=spec.scenario.load,
            endpoint=spec.endpoint,
            run_id=spec.run_id,
            seed=spec.scenario.seed,
            timeout_s=spec.scenario.workload.request_timeout_s,
            connection=connection,
            sink=self._sink,
        )
        self._grid = asyncio.create_task(grid.run(on_progress))
        try:
            await asyncio.wait({self._grid})
        finally:
            await connection.close()
        if not self._grid.cancelled() and (error := self._grid.exception()) is not None:
            raise error

    async def cut(self, scheduled: int | None = None) -> None:
        """End every running episode as `cut`; returns when all records are written.

        scheduled: so many lines have been sent for this point; those not yet read are waited
        for and written as cut. Raises LoadError when an episode does not let itself be cut.
        """
        self._point = None
        if self._grid is not None and not self._grid.done():
            self._grid.cancel()
            await asyncio.wait({self._grid}, timeout=CUT_LIMIT_S)
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            _, stuck = await asyncio.wait(running, timeout=CUT_LIMIT_S)
            if stuck:
                raise LoadError(
                    f"episodes={len(stuck)}",
                    f"did not end within {CUT_LIMIT_S:g} s of being cut",
                    "report this with the run's logs: a tool or the client ignores cancellation",
                )
        while self._running:  # their last lines run in `_episode`
            await asyncio.sleep(0)
        limit_s = time.monotonic() + LATE_LINES_LIMIT_S
        while (
            scheduled is not None
            and self._sink.counters.started < scheduled
            and time.monotonic() < limit_s
        ):
            await asyncio.sleep(0.01)
        for connection in (*self._connections.values(), *self._free):
            await connection.close()
        self._connections.clear()
        self._free.clear()

    async def hang_up(self) -> None:
        """Close the connections of all peers."""
        for writer in self._peers.values():
            writer.close()
        limit_s = time.monotonic() + HANG_UP_LIMIT_S
        while self._peers and time.monotonic() < limit_s:
            await asyncio.sleep(0)

    def _end(self, error: BaseException | None) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    def stop(self) -> None:
        """End the process in good order (SIGTERM)."""
        self._end(None)


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """The next line of a peer; empty when it has hung up or sent a line without an end."""
    try:
        return await reader.readline()
    except (ConnectionError, ValueError) as error:
        logger.debug("a peer went away: %s", error)
        return b""


def calm_collector() -> None:
    """Collect now, look at what is alive no more, and collect rarely: shorter pauses in a point.

    Answers and records hold no cycles; what asyncio leaves in some is small.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def is_recorded(spec: HostSpec) -> bool:
    """True when observations are replayed instead of fetched."""
    return spec.scenario.tools.source is ToolSource.recorded


def open_connection(spec: HostSpec, turns: Turns | None = None) -> Connection:
    """A connection to the engine; the key, if one is named, comes from the environment."""
    key = os.environ.get(spec.endpoint.key_env, "") if spec.endpoint.key_env else ""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Connection(spec.endpoint.base_url, headers, turns=turns)


def read_deck(spec: HostSpec) -> dict[Workload, list[Task]]:
    """The run's tasks by workload. Raises ScenarioError when the mix cannot be dealt."""
    mix = spec.scenario.workload.mix
    tasks: dict[Workload, list[Task]] = {}
    if any(weight > 0 for name, weight in mix.items() if name != Workload.selection.value):
        for task in read_tasks(spec.material / "tasks.jsonl"):
            tasks.setdefault(task.workload, []).append(task)
    if mix.get(Workload.selection.value, 0.0) > 0:
        tasks[Workload.selection] = read_tasks(spec.material / "selection.jsonl")
    check_deal(tasks, mix)
    deal(tasks, mix, spec.scenario.seed, 0, 0)  # the first draw of a process takes milliseconds
    return tasks


async def run_host(spec: HostSpec) -> None:
    """Serve until asked to stop. Raises the error that ended it, if one did."""
    scenario = spec.scenario
    tasks = read_deck(spec)
    descriptions = read_tools(spec.material / "tools.json")
    toolbox: dict[str, OpenTool] = await open_toolbox(scenario.tools, spec.addresses, scenario.seed)
    sink = RecordSink(spec.run_dir, spec.worker)
    agent = Agent(
        endpoint=spec.endpoint,
        workload=scenario.workload,
        tools=toolbox,
        descriptions=descriptions,
        retries=scenario.tools.retries,
        recorded=is_recorded(spec),
        sink=sink,
    )
    host = Host(spec, tasks, agent, sink)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, host.stop)
    calm_collector()
    server = await asyncio.start_unix_server(host.serve, spec.socket_path)
    try:
        error = await host.ended
        await asyncio.sleep(0)  # the reply to `shutdown` leaves
        try:
            await host.cut()
        except BenchError as second:
            error = error or second
        if error is not None:
            raise error
    finally:
        server.close()
        host.loop_lag.stop()
        await host.hang_up()
        sink.close()
        for tool in toolbox.values():
            await tool.close()


def main(arguments: list[str]) -> int:
    """Run the host of a spec file; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        uvloop.run(run_host(read_spec(Path(arguments[0]), HostSpec)))
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
