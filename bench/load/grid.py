"""Grid: one request at a time on an idle engine, over prompt length and prefix-cache hit rate.

The data of the laws (methods.md section 4). Cells run one after another. A cell with a hit rate
has a primer first: the shared prefix alone, one token out. Every cell of every repeat carries a
salt of its own, so what is not meant to be cached is cold. Prompts are made to length by asking
the engine itself how many tokens a known number of words is; its tokeniser is never assumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from bench.client import Connection, complete, cut_record
from bench.errors import LoadError
from bench.load.sink import RecordSink
from bench.record import GRID_POINT, PRIMER_SUFFIX, LLMOutcome, LLMRecord, cell_name
from bench.run import Endpoint
from bench.scenario import Load

RULER_WORDS = 400
VOCABULARY = (
    "time year people way day man thing woman life child world school state family student "
    "group country problem hand part place case week company system program question work "
    "government number night point home water room mother area money story fact month lot "
    "right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city"
)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One measured request of the grid. `prompt_tokens` is the target, usage says what it was."""

    prompt_tokens: int
    hit_rate: float
    repeat: int

    @property
    def name(self) -> str:
        """The cell of its record (`record.cell_name`)."""
        return cell_name(self.prompt_tokens, self.hit_rate, self.repeat)

    @property
    def primed(self) -> bool:
        """True when a primer fills the cache first."""
        return self.hit_rate > 0


def plan(load: Load, seed: int) -> list[Cell]:
    """The cells in the order of running: repeats one after another, each in its own shuffle.

    Shuffled, so that a slow drift of the machine does not look like a law of length.
    """
    cells: list[Cell] = []
    for repeat in range(load.grid_repeats):
        round_cells = [
            Cell(prompt_tokens=tokens, hit_rate=rate, repeat=repeat)
            for tokens in load.grid_prompt_tokens
            for rate in load.grid_hit_rates
        ]
        order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(repeat,)))
        cells += [round_cells[index] for index in order.permutation(len(round_cells))]
    return cells


def requests(cells: list[Cell]) -> int:
    """How many requests these cells cost: two of the ruler, primers, and the cells."""
    return 2 + sum(1 + cell.primed for cell in cells) if cells else 0


class Ruler(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt length as the engine counts it: overhead_tokens + words * tokens_per_word."""

    overhead_tokens: float
    tokens_per_word: float

    def words(self, tokens: float) -> int:
        """How many words fill so many tokens."""
        return max(0, round(tokens / self.tokens_per_word))


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a request: the primer shares `system`, salt included, and only that."""

    system: str
    user: str


def make_prompt(cell: Cell, ruler: Ruler, salt: str, seed: int) -> Prompt:
    """A prompt whose share hit_rate of the tokens is in its system message."""
    shared = ruler.words(cell.prompt_tokens * cell.hit_rate - ruler.overhead_tokens)
    total = ruler.words(cell.prompt_tokens - ruler.overhead_tokens)
    key = (cell.repeat, cell.prompt_tokens, round(cell.hit_rate * 1e6))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    return Prompt(
        system=_salted(salt, _text(rng, shared)),
        user=_text(rng, max(1, total - shared)),
    )


def _salted(salt: str, text: str) -> str:
    return f"[salt {salt}]\n{text}"


def _text(rng: np.random.Generator, words: int) -> str:
    known = VOCABULARY.split()
    return " ".join(known[index] for index in rng.integers(0, len(known), words))


class Grid:
    """Runs the cells over one connection and writes a record for each request."""

    def __init__(
        self,
        load: Load,
        endpoint: Endpoint,
        run_id: str,
        seed: int,
        timeout_s: float,
        connection: Connection,
        sink: RecordSink,
    ) -> None:
        self._load = load
        self._endpoint = endpoint
        self._run_id = run_id
        self._seed = seed
        self._timeout_s = timeout_s
        self._connection = connection
        self._sink = sink
        self._asked = 0

    async def run(self, on_progress: Callable[[int, int], None]) -> None:
        """Run every cell; on_progress(requests done, all) after each request.

        Raises LoadError when the engine answers the ruler's requests without a usage.
        """
        cells = plan(self._load, self._seed)
        if not cells:
            return
        total = requests(cells)
        ruler = await self._measure_ruler()
        on_progress(self._asked, total)
        for cell in cells:
            prompt = make_prompt(
                cell, ruler, f"{self._run_id}/{GRID_POINT}/{cell.name}", self._seed
            )
            for name, words, output_tokens in self._asks(cell, prompt):
                await self._ask(name, prompt.system, words, output_tokens)
                on_progress(self._asked, total)

    def _asks(self, cell: Cell, prompt: Prompt) -> Iterator[tuple[str, str, int]]:
        if cell.primed:
            yield cell.name + PRIMER_SUFFIX, "Go.", 1
        yield cell.name, prompt.user, self._load.grid_output_tokens

    async def _measure_ruler(self) -> Ruler:
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(2**31,)))
        lengths: list[int] = []
        for number, words in enumerate((1, 1 + RULER_WORDS)):
            name = f"ruler-r{number}{PRIMER_SUFFIX}"
            salt = f"{self._run_id}/{GRID_POINT}/{name}"
            record = await self._ask(name, _salted(salt, ""), _text(rng, words), 1)
            if record.prompt_tokens is None:
                raise LoadError(
                    f"engine={self._endpoint.label}",
                    "the idle grid's first request brought no token usage "
                    f"({record.error or record.outcome.value})",
                    "use an engine that answers stream_options.include_usage, "
                    "or set load.grid_repeats=0",
                )
            lengths.append(record.prompt_tokens)
        per_word = max((lengths[1] - lengths[0]) / RULER_WORDS, 0.1)
        return Ruler(overhead_tokens=lengths[0] - per_word, tokens_per_word=per_word)

    async def _ask(self, cell: str, system: str, user: str, output_tokens: int) -> LLMRecord:
        blank = LLMRecord(
            point=GRID_POINT,
            user=0,
            episode=self._asked,
            turn=0,
            cell=cell,
            scheduled_ns=time.monotonic_ns(),
            outcome=LLMOutcome.cut,
        )
        self._asked += 1
        body = self._body(system, user, output_tokens)
        try:
            record = await complete(self._connection, body, blank, self._timeout_s)
        except asyncio.CancelledError:
            self._sink.llm(cut_record(self._connection, blank))
            raise
        self._sink.llm(record)
        return record

    def _body(self, system: str, user: str, output_tokens: int) -> dict[str, Any]:
        return {
            "model": self._endpoint.model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": user},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.0,
            "max_tokens": output_tokens,
            "min_tokens": output_tokens,
            "ignore_eos": True,
            "seed": self._seed,
        }
