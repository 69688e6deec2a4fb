"""The simulated engine's OpenAI face: `python -m bench.simulator.server PROFILE.json`.

Surface of methods.md section 7: /v1/chat/completions and /v1/completions (streamed and not),
/v1/models, /health, /version, /tokenize, /reset_prefix_cache, /metrics with vLLM's names. Every
response says that it is simulated (`X-Simulated`, `system_fingerprint`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bench.simulator.choice import load_embedding
from bench.simulator.completion import DONE, Completion, Piece, Usage, pieces_of
from bench.simulator.driver import Driver, Job
from bench.simulator.hostile import Hostile
from bench.simulator.metrics import Metrics
from bench.simulator.policy import (
    Policy,
    Reply,
    filler,
    is_final,
    read_material,
    turn_of,
)
from bench.simulator.preset import is_preset, token_offsets_s
from bench.simulator.profile import VERSION, Profile, profile_hash, read_profile
from bench.simulator.scheduler import Request, Scheduler
from bench.simulator.tokens import Tokeniser, block_hashes, content_text, pieces

log = logging.getLogger("bench.simulator")
JSON = "application/json"
GRACE_S = 1
BROKEN = (
    b'data: {"error":{"message":"simulated failure in mid-stream","type":"InternalServerError",'
    b'"param":null,"code":500}}\n\n' + DONE
)


class Refusal(Exception):
    """A request that is answered with an error: HTTP status, vLLM's error type, message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Broken(Exception):
    """A stream that was asked to end with an error."""


class Service:
    """One simulated engine: profile, mind, tokeniser, scheduler in real time, counters."""

    def __init__(self, profile: Profile, policy: Policy) -> None:
        self.profile = profile
        self.engine = profile.engine
        self.model = profile.engine.model or profile.engine.name
        self.fingerprint = f"simulated-{profile_hash(profile.engine)}"
        self.policy = policy
        self.tokeniser = Tokeniser()
        self.scheduler = Scheduler(profile.engine, profile.seed)
        self.driver = Driver(self.scheduler)
        self.metrics = Metrics(self.model)

    def headers(self) -> dict[str, str]:
        """What marks every response."""
        return {"X-Simulated": self.engine.name}

    def error_rate(self) -> float:
        """The share of turns in which the model errs on purpose, at the load of this moment."""
        load = self.scheduler.running + self.scheduler.waiting + self.driver.playing
        return self.engine.error_rate + self.engine.error_rate_per_request * load

    def json(self, body: Any, status: int = 200) -> Response:
        """A JSON response."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return Response(content, status, self.headers(), JSON)

    def refuse(self, refusal: Refusal) -> Response:
        """vLLM's error object."""
        error = {
            "message": str(refusal),
            "type": refusal.kind,
            "param": None,
            "code": refusal.status,
        }
        return self.json({"error": error}, refusal.status)


class Ask(msgspec.Struct, kw_only=True):
    """The part of a completion request that the simulated engine reads."""

    model: str = ""
    messages: list[dict[str, Any]] = []
    prompt: str = ""
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    n: int = 1
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    simulate: Hostile = Hostile()

    @property
    def limit(self) -> int | None:
        """The output limit under either name."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def exact(self) -> bool:
        """A scripted request: exactly `limit` tokens, whatever they say."""
        return self.ignore_eos and self.min_tokens > 0 and self.min_tokens == self.limit

    @property
    def faces(self) -> list[dict[str, Any]]:
        """The tools that may be called."""
        tools = self.tools or []
        if self.tool_choice == "none":
            return []
        if isinstance(self.tool_choice, dict):
            name = self.tool_choice.get("function", {}).get("name")
            return [tool for tool in tools if tool.get("function", {}).get("name") == name]
        return tools

    @property
    def required(self) -> bool:
        """The model must call a tool."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, dict)


class Served(msgspec.Struct):
    """One admitted request on its way: what will be said, and the job that times it."""

    completion: Completion
    prompt_tokens: int
    job: Job
    arrived_s: float
    include_usage: bool
    hostile: Hostile


def begin(service: Service, ask: Ask, chat: bool, arrived_s: float) -> Served:
    """Decide what is said and queue it. Raises Refusal when the request cannot be served."""
    if ask.model and ask.model != service.model:
        raise Refusal(404, "NotFoundError", f"The model `{ask.model}` does not exist.")
    if ask.n != 1:
        raise Refusal(400, "BadRequestError", "n must be 1 on the simulated engine")
    if chat and not ask.messages:
        raise Refusal(400, "BadRequestError", "messages must not be empty")
    messages = ask.messages if chat else [{"role": "user", "content": ask.prompt}]
    tools = ask.tools or []
    prompt = (
        service.tokeniser.prompt(messages, tools)
        if chat
        else list(service.tokeniser.ids(ask.prompt))
    )
    limit = ask.limit or max(1, service.engine.max_model_len - len(prompt))
    reason = service.scheduler.refusal(len(prompt), limit)
    if reason:
        raise Refusal(400, "BadRequestError", reason)
    if ask.exact:
        said = [Piece(text, {"content": text}) for text in pieces(filler(limit))]
        task = service.policy.task_of(_asked(messages))
        reply = Reply(content="", final=is_final(task, turn_of(messages)), task=task)
    else:
        slip = service.policy.slips(_asked(messages), turn_of(messages), service.error_rate())
        reply = service.policy.reply(messages, ask.faces, ask.required, slip)
        said = pieces_of(reply) or [Piece(" ", {"content": " "})]
    said = ask.simulate.shaped(said[:limit]) + said[limit:]
    completion = Completion(said, limit, service.model, service.fingerprint, chat, ask.exact)
    job = _queue(service, completion, prompt, limit, reply, turn_of(messages), arrived_s)
    usage = bool((ask.stream_options or {}).get("include_usage"))
    return Served(completion, len(prompt), job, arrived_s, usage, ask.simulate)


def _asked(messages: list[dict[str, Any]]) -> str:
    users = (content_text(m) for m in reversed(messages) if m.get("role") == "user")
    return next(users, "").strip()


def _queue(
    service: Service,
    completion: Completion,
    prompt: list[int],
    limit: int,
    reply: Reply,
    turn: int,
    arrived_s: float,
) -> Job:
    id = service.driver.new_id()
    tokens = completion.tokens
    if is_preset(service.engine):
        visible = [piece.delta is not None for piece in tokens]
        workload = reply.task.workload if reply.task else None
        offsets_s = token_offsets_s(service.engine, turn, visible, reply.final, workload)
        return service.driver.play(id, offsets_s, arrived_s)
    ids = prompt + [hash(piece.text) for piece in tokens]
    request = Request(
        id=id,
        prompt_tokens=len(prompt),
        output_tokens=len(tokens),
        max_tokens=limit,
        hashes=block_hashes(ids, service.engine.block_size),
    )
    return service.driver.submit(request, arrived_s)


def abandon(service: Service, served: Served) -> None:
    """Nobody waits for this answer any more: its blocks are free."""
    service.driver.cancel(served.job)
    service.metrics.finished(0.0, 0.0, "abort")


async def follow(
    service: Service, served: Served, emit: Callable[[int, int], Awaitable[None]]
) -> Usage:
    """Wait for each token, count it, and call emit(first, past) with the tokens that are due."""
    loop = asyncio.get_running_loop()
    arrived_s, done, cached = served.arrived_s, 0, 0
    first_s = arrived_s
    finished = False
    try:
        while not finished:
            event = await served.job.events.get()
            if done == 0:
                first_s = loop.time()
                cached = event.cached_tokens
                queue_s = max(0.0, event.admitted_s - arrived_s)
                service.metrics.first_token(served.prompt_tokens, first_s - arrived_s, queue_s)
            finished = event.finished
            service.metrics.generated(event.new_tokens)
            await emit(done, done + event.new_tokens)
            done += event.new_tokens
    except (asyncio.CancelledError, Broken):
        abandon(service, served)
        raise
    reason = "length" if served.completion.finish_reason == "length" else "stop"
    service.metrics.finished(loop.time() - arrived_s, loop.time() - first_s, reason)
    return Usage(served.prompt_tokens, done, cached)


class EventStream(Response):
    """The streamed answer; a client that goes away cancels its request."""

    def __init__(self, service: Service, served: Served) -> None:
        super().__init__(headers=service.headers(), media_type="text/event-stream")
        del self.headers["content-length"]
        self._service = service
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; ends early when the client has gone."""
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not writing.done():
                writing.cancel()
                await asyncio.wait({writing})
                self._service.driver.cancel(self._served.job)  # if it never took its first step
        if not writing.cancelled():
            writing.result()

    async def _begin(self, send: Send) -> None:
        hostile = self._served.hostile
        await asyncio.sleep(hostile.start_delay_s)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if hostile.role_first:
            role = self._served.completion.role_chunk()
            await send({"type": "http.response.body", "body": role, "more_body": True})

    async def _write(self, send: Send) -> None:
        served, hostile = self._served, self._served.hostile
        chunks = served.completion.chunks(with_role=not hostile.role_first)
        try:
            await self._begin(send)
        except asyncio.CancelledError:
            abandon(self._service, served)
            raise
        held = b""

        async def emit(first: int, past: int) -> None:
            nonlocal held
            if hostile.error_after is not None and past > hostile.error_after:
                raise Broken
            body = b"".join(chunks[first:past])
            if past == len(chunks):
                held = body  # the last token leaves with the end of the stream
            elif body:
                await send({"type": "http.response.body", "body": body, "more_body": True})

        try:
            usage = await follow(self._service, served, emit)
        except Broken:
            await send({"type": "http.response.body", "body": BROKEN, "more_body": False})
            return
        if served.include_usage:
            held += served.completion.usage_chunk(usage)
        await send({"type": "http.response.body", "body": held + DONE, "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(service: Service, served: Served, receive: Receive) -> Response:
    """The answer in one piece, after its last token; a client that goes away cancels it."""

    async def ignore(first: int, past: int) -> None:
        return None

    working = asyncio.ensure_future(follow(service, served, ignore))
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
            service.driver.cancel(served.job)  # if it never took its first step
    if working.cancelled():
        return Response(status_code=499)
    return service.json(served.completion.body(working.result()))


def completions(service: Service, chat: bool) -> Callable[[HttpRequest], Awaitable[Response]]:
    """The endpoint of chat (or text) completions."""
    decoder = msgspec.json.Decoder(Ask)

    async def endpoint(request: HttpRequest) -> Response:
        arrived_s = asyncio.get_running_loop().time()
        try:
            ask = decoder.decode(await request.body())
            served = begin(service, ask, chat, arrived_s)
        except msgspec.MsgspecError as error:
            return service.refuse(Refusal(400, "BadRequestError", str(error)))
        except Refusal as refusal:
            return service.refuse(refusal)
        if ask.stream:
            return EventStream(service, served)
        return await _whole(service, served, request.receive)

    return endpoint


def small_routes(service: Service) -> list[Route]:
    """Everything but the completions."""

    async def health(request: HttpRequest) -> Response:
        return Response(headers=service.headers())

    async def version(request: HttpRequest) -> Response:
        return service.json({"version": VERSION})

    async def models(request: HttpRequest) -> Response:
        card = {
            "id": service.model,
            "object": "model",
            "owned_by": "simulated",
            "max_model_len": service.engine.max_model_len,
        }
        return service.json({"object": "list", "data": [card]})

    async def tokenize(request: HttpRequest) -> Response:
        try:
            ask = msgspec.json.decode(await request.body(), type=Ask)
        except msgspec.MsgspecError as error:
            return service.refuse(Refusal(400, "BadRequestError", str(error)))
        ids = (
            service.tokeniser.prompt(ask.messages, ask.tools or [])
            if ask.messages
            else list(service.tokeniser.ids(ask.prompt))
        )
        tokens = [id & 0x1FFFF for id in ids]  # in a vocabulary's range
        body = {"count": len(ids), "max_model_len": service.engine.max_model_len, "tokens": tokens}
        return service.json(body)

    async def reset(request: HttpRequest) -> Response:
        return Response(status_code=200 if service.scheduler.blocks.reset() else 503)

    async def metrics(request: HttpRequest) -> Response:
        scheduler = service.scheduler
        text = service.metrics.text(
            scheduler.running + service.driver.playing,
            scheduler.waiting,
            scheduler.kv_usage,
            scheduler.prefix_queries,
            scheduler.prefix_hits,
            scheduler.preemptions,
        )
        return Response(text, headers=service.headers(), media_type="text/plain; version=0.0.4")

    return [
        Route("/health", health),
        Route("/version", version),
        Route("/v1/models", models),
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/reset_prefix_cache", reset, methods=["POST"]),
        Route("/metrics", metrics),
    ]


def application(service: Service) -> Starlette:
    """The ASGI application of one simulated engine."""
    chat = Route("/v1/chat/completions", completions(service, chat=True), methods=["POST"])
    text = Route("/v1/completions", completions(service, chat=False), methods=["POST"])
    return Starlette(routes=[chat, text, *small_routes(service)])


def main(arguments: list[str]) -> None:
    """Serve the profile named on the command line until a signal comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    profile = read_profile(Path(arguments[0]))
    material = read_material(Path(profile.material) if profile.material else None)
    service = Service(profile, Policy(material, profile.seed, load_embedding()))
    log.info(
        "simulated engine %s (%s), %d known tasks, on %s:%d",
        profile.engine.name,
        service.fingerprint,
        len(material.tasks),
        profile.host,
        profile.port,
    )
    uvicorn.run(
        application(service),
        host=profile.host,
        port=profile.port,
        loop="uvloop",
        http="httptools",
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=300,
        timeout_graceful_shutdown=GRACE_S,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
