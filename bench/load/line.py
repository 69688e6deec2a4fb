"""Line: what passes over the Unix socket, one JSON object a line, answered by one line.

episode   point, user, episode, scheduled_ns,  -> EpisodeReply, after the episode
          task, pooled
start     point, scheduled_ns                  -> Done: when the plan of the point starts
status    before_ns                            -> HostStatus
begin     point                                -> Done
grid                                           -> Progress lines, then Done
cut       scheduled                            -> Done, when every record is written
shutdown                                       -> Done, then the host exits
"""

from __future__ import annotations

import enum

import msgspec

from bench.load.status import HostStatus


class Op(enum.Enum):
    """What the host is asked to do."""

    episode = "episode"
    start = "start"
    status = "status"
    begin = "begin"
    grid = "grid"
    cut = "cut"
    shutdown = "shutdown"


class Request(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line to the host; each op uses the fields that the module's table names."""

    op: Op
    point: str = ""
    user: int = 0
    episode: int = 0
    scheduled_ns: int = 0
    task: str = ""  # episode: the task's id; empty: it is dealt
    pooled: bool = False  # episode: any free connection, not the user's own
    before_ns: int | None = None  # status: count running episodes scheduled before this
    scheduled: int | None = None  # cut: lines that Locust has written for this point


class EpisodeReply(msgspec.Struct, tag="episode", kw_only=True):
    """How an episode ended. `done_ns`: when the host was done with it (the user is free)."""

    outcome: str
    workload: str
    done_ns: int
    latency_ms: float | None = None
    ttft_ms: float | None = None  # of the first turn
    error: str = ""


class Progress(msgspec.Struct, tag="progress", kw_only=True):
    """How far the idle grid is, in requests."""

    done: int
    total: int


class Done(msgspec.Struct, tag="done", kw_only=True):
    """The op is done, or `error` says why it is not."""

    ns: int = 0
    error: str = ""


Reply = EpisodeReply | HostStatus | Progress | Done


def encode(message: Request | Reply) -> bytes:
    """One line, newline included."""
    return msgspec.json.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """The request of a line. Raises msgspec.MsgspecError when it is none."""
    return msgspec.json.decode(line, type=Request)


def decode_reply(line: bytes) -> Reply:
    """The reply of a line. Raises msgspec.MsgspecError when it is none."""
    return msgspec.json.decode(line, type=Reply)
