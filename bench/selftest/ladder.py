"""Ladder: the levels of a self-test, from the lowest up."""

from __future__ import annotations

import contextlib
import resource
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.proof import ProofLevel, SelfTest
from bench.selftest.bed import start_host, start_null_server
from bench.selftest.level import Step, run_level

FILES_PER_STREAM = 2  # in the host: one to the engine, one to Locust
FILES_BESIDE = 200


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """Rising numbers of streams with one prompt length; `burst`: all start at once."""

    prompt_tokens: int
    streams: tuple[int, ...]
    burst: bool = False


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """What is tried: 20 tokens/s a stream after a TTFT of 100 ms.

    An answer lasts as long as the stagger, so that the starts fill it evenly.
    """

    rungs: tuple[Rung, ...]
    measured_s: float
    quick: bool = False
    answer_tokens: int = 60
    ttft_s: float = 0.1
    itl_s: float = 0.05

    @property
    def answer_s(self) -> float:
        """How long an answer takes."""
        return self.ttft_s + (self.answer_tokens - 1) * self.itl_s


SHORT_TOKENS, LONG_TOKENS = 500, 16_000
FULL = Ladder(
    rungs=(
        Rung(prompt_tokens=SHORT_TOKENS, streams=(10, 50, 100, 250, 500, 750, 1000, 1250, 1500)),
        Rung(prompt_tokens=LONG_TOKENS, streams=(10, 50, 100, 250, 500, 750)),
        Rung(prompt_tokens=SHORT_TOKENS, streams=(50, 100, 250, 500), burst=True),
    ),
    measured_s=10.0,
)
QUICK = Ladder(
    rungs=(
        Rung(prompt_tokens=SHORT_TOKENS, streams=(50, 250, 500)),
        Rung(prompt_tokens=LONG_TOKENS, streams=(50, 250)),
        Rung(prompt_tokens=SHORT_TOKENS, streams=(100,), burst=True),
    ),
    measured_s=4.0,
    quick=True,
    answer_tokens=40,
)


def climb(
    ladder: Ladder,
    machine: dict[str, Any],
    versions: dict[str, str],
    on_level: Callable[[ProofLevel], None],
) -> SelfTest:
    """Run the ladder; on_level after each level. A rung ends two levels above what it carries.

    Raises LoadError when a process of the self-test does not start or dies.
    """
    levels: list[ProofLevel] = []
    with tempfile.TemporaryDirectory(prefix="bench-selftest-") as kept, raised_file_limit() as most:
        directory = Path(kept)
        with start_null_server(directory, ladder.ttft_s, ladder.itl_s) as server:
            for number, rung in enumerate(ladder.rungs):
                bed = directory / f"rung{number}"
                bed.mkdir()
                with start_host(
                    bed, directory, server.url, rung.prompt_tokens, ladder.answer_tokens
                ) as host:
                    lost = 0
                    for streams in rung.streams:
                        if lost == 2 or streams * FILES_PER_STREAM + FILES_BESIDE > most:
                            break
                        step = step_of(ladder, streams, rung.burst)
                        level = run_level(host, server, step, rung.prompt_tokens)
                        lost += not level.carried
                        levels.append(level)
                        on_level(level)
    return SelfTest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=ladder.quick,
        ttft_s=ladder.ttft_s,
        itl_s=ladder.itl_s,
        answer_tokens=ladder.answer_tokens,
        machine=machine,
        versions=versions,
        levels=[level for level in levels if not level.burst],
        bursts=[level for level in levels if level.burst],
    )


def step_of(ladder: Ladder, streams: int, burst: bool) -> Step:
    """The level of so many streams."""
    return Step(
        streams=streams,
        stagger_s=0.0 if burst else ladder.answer_s,
        measured_s=ladder.measured_s,
        hold_s=2 * ladder.answer_s + 5.0,
    )


@contextlib.contextmanager
def raised_file_limit() -> Iterator[int]:
    """Raise the limit of open files to the hard one for the children; yields it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard if hard != resource.RLIM_INFINITY else 1 << 30
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
