"""Is the answer right? Every expected fact must be in it (methods.md section 6)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from bench.episode import Workload
from bench.fit.level import Level
from bench.quality.selection import AnswerRow
from bench.record import EpisodeOutcome, EpisodeRecord
from bench.stats.quantiles import wilson

NUMBER = re.compile(r"-?\d+(\.\d+)?")
# 8,300,000; also with an apostrophe, a no-break space, or (two groups or more) points.
GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:([,'\u2019\u00a0\u202f])\d{3})(?:\1\d{3})*(?![\d])")
GROUPED_BY_POINTS = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?!\d)")


def has_facts(answer: str, facts: Iterable[str]) -> bool:
    """True when every fact occurs in the answer.

    Without regard to case, spacing and Markdown emphasis, at word boundaries: "47" is neither in
    "147" nor in "47.5". A number may carry thousands separators and trailing zero decimals:
    8300000 is in "8,300,000" and in "8300000.00", and 12.5 in "12.50".
    """
    text = normalise(answer)
    return all(_pattern(fact).search(text) is not None for fact in facts)


def normalise(text: str) -> str:
    """Case, spacing, emphasis and thousands separators taken out."""
    text = GROUPED.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    text = GROUPED_BY_POINTS.sub(lambda match: match.group().replace(".", ""), text)
    text = unicodedata.normalize("NFKC", text).casefold().replace("\u2212", "-")
    text = re.sub(r"[*`]|(?<!\w)_+|_+(?!\w)", "", text)
    return " ".join(text.split())


def answer_rows(levels: Iterable[Level], confidence: float = 0.95) -> list[AnswerRow]:
    """Answer correctness per live level: a row "all" and one per workload, selection left out.

    `correct` is over the attempted episodes whose task states facts, whatever became of them;
    `completed`, the share that was answered, over all attempted. Intervals are Wilson's.
    A scripted level has no row: its answers are not the model's.
    """
    rows = []
    for level in levels:
        attempted = [
            episode
            for episode in level.episodes
            if episode.workload is not Workload.selection and episode.control == "live"
        ]
        if not attempted:
            continue
        rows.append(_row(level, "all", attempted, confidence))
        for workload in Workload:
            members = [episode for episode in attempted if episode.workload is workload]
            if members:
                rows.append(_row(level, workload.value, members, confidence))
    return rows


def _row(
    level: Level, workload: str, attempted: list[EpisodeRecord], confidence: float
) -> AnswerRow:
    gradable = [
        (episode, task.facts)
        for episode in attempted
        if (task := level.tasks.get(episode.task)) is not None and task.facts
    ]
    correct = sum(_answered(one) and has_facts(one.answer, facts) for one, facts in gradable)
    completed = sum(_answered(episode) for episode in attempted)
    return AnswerRow(
        engine=level.engine,
        run=level.run,
        users=level.users,
        point=level.point.point,
        rate_per_s=level.point.rate_per_s,
        workload=workload,
        correct=wilson(correct, len(gradable), confidence),
        completed=wilson(completed, len(attempted), confidence),
    )


def _answered(episode: EpisodeRecord) -> bool:
    return episode.outcome is EpisodeOutcome.answered


@lru_cache(maxsize=4096)
def _pattern(fact: str) -> re.Pattern[str]:
    """The fact at word boundaries; a number with any number of zeros behind its decimals."""
    text = normalise(fact)
    if NUMBER.fullmatch(text):
        whole, _, decimals = text.partition(".")
        decimals = decimals.rstrip("0")
        body = re.escape(whole) + (rf"\.{decimals}0*" if decimals else r"(?:\.0+)?")
        # No digit, letter, or sign that would make it another number.
        return re.compile(rf"(?<![\w])(?<!\d[.,])(?<!(?<!\w)-){body}(?!\w)(?![.,]\d)")
    before = r"(?<!\w)" if text[:1].isalnum() else ""
    after = r"(?!\w)" if text[-1:].isalnum() else ""
    return re.compile(before + re.escape(text) + after)
