"""RecordSink: where agent and grid put their records: three files of one worker, and counters."""

from __future__ import annotations

from pathlib import Path

from bench.load.status import Counters
from bench.record import EpisodeRecord, LLMRecord, ToolRecord
from bench.run import Appender


class RecordSink:
    """Writes llm-, tools- and episodes-<worker>.jsonl of a run directory.

    Knows which episodes are open, so that each ends with exactly one EpisodeRecord.
    Its methods raise RecordError when the disk does not take a record.
    """

    def __init__(self, run_dir: Path, worker: int) -> None:
        self._llm: Appender[LLMRecord] = Appender(run_dir / f"llm-{worker}.jsonl")
        self._tools: Appender[ToolRecord] = Appender(run_dir / f"tools-{worker}.jsonl")
        self._episodes: Appender[EpisodeRecord] = Appender(run_dir / f"episodes-{worker}.jsonl")
        self._open: set[tuple[str, int, int]] = set()
        self._first_ttft_s: dict[tuple[str, int, int], float] = {}
        self.counters = Counters("")

    def start(self, point: str, user: int, episode: int, scheduled_ns: int) -> None:
        """An episode begins; it is open until its EpisodeRecord is written."""
        self._open.add((point, user, episode))
        self.counters.start(point, user, episode, scheduled_ns)

    def is_open(self, point: str, user: int, episode: int) -> bool:
        """True until the episode's record is written."""
        return (point, user, episode) in self._open

    def take_ttft_s(self, point: str, user: int, episode: int) -> float | None:
        """TTFT of the episode's first turn, seconds, once."""
        return self._first_ttft_s.pop((point, user, episode), None)

    def llm(self, record: LLMRecord) -> None:
        """Write one model call."""
        self._llm.append(record)
        self.counters.llm(record)
        if record.turn == 0 and record.ttft_s is not None:
            key = (record.point, record.user, record.episode)
            if key in self._open:
                self._first_ttft_s[key] = record.ttft_s

    def tool(self, record: ToolRecord) -> None:
        """Write one tool call."""
        self._tools.append(record)
        self.counters.tool(record)

    def episode(self, record: EpisodeRecord) -> None:
        """Write the one record of an episode, its last."""
        self._episodes.append(record)
        self._open.discard((record.point, record.user, record.episode))
        self.counters.episode(record)

    def close(self) -> None:
        """Close the three files."""
        for appender in (self._llm, self._tools, self._episodes):
            appender.close()
