"""What share of the prompt tokens should come from the prefix cache, by the plan?

Knowable only when the plan knows the prompts: in `control=scripted` every prompt is what the one
before it was, then the planned call and its observation, so

    turn t > 0    the whole prompt of turn t - 1 is cached
    turn 0        the instructions and tools, shared by all episodes of the point, are cached
    an episode whose task has been asked at this point before, with the same prompt: all of it

each rounded down to whole blocks of the engine, and nothing that was not prefilled before the
request was sent. How long the shared part is, in tokens of the engine, is the intercept of the
first turns' prompt tokens over the length of their questions. Evictions are no part of the plan:
they are what the gate shall find.

With `control=live` a prompt holds what the model said, and whether its tokens are found again
depends on the chat template: not knowable, None.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.episode import Workload
from bench.fit.level import Level, episode_key
from bench.record import LLMRecord
from bench.run import Run
from bench.scenario import Control

MIN_TASKS = 8  # different questions, to tell their tokens from the shared ones
MAX_SPREAD = 0.01  # of the residuals, share of the mean prompt
MAX_RAG_SHARE = 0.25  # naive RAG shares only its few instructions, whose length is not known


def planned_hit_rate(run: Run, level: Level) -> float | None:
    """The planned share of the prompt tokens of the requests sent in the level's window.

    None when the plan does not know the prompts, or the records do not say how long they were.
    """
    scenario = run.facts.scenario
    if scenario.workload.control is not Control.scripted:
        return None
    calls = [
        call
        for call in run.llm
        if call.point == level.point.point and call.sent_ns is not None and call.prompt_tokens
    ]
    calls.sort(key=lambda call: call.sent_ns or 0)
    in_window = [c for c in calls if level.start_ns <= (c.sent_ns or 0) < level.end_ns]
    total = sum(call.prompt_tokens or 0 for call in in_window)
    if not total:
        return None
    if not scenario.engine.prefix_caching:
        return 0.0
    rag = sum(c.prompt_tokens or 0 for c in in_window if c.workload is Workload.naive_rag)
    task_of = {episode_key(e): e.task for e in run.episodes if e.point == level.point.point}
    questions = {name: task.question for name, task in run.tasks.items()}
    shared = _shared_tokens(calls, task_of, questions)
    if shared is None or rag > MAX_RAG_SHARE * total:
        return None
    cached = _cached(calls, task_of, shared, scenario.engine.block_size)
    wanted = {id(call) for call in in_window}
    return sum(tokens for call, tokens in cached if id(call) in wanted) / total


def _shared_tokens(
    calls: Sequence[LLMRecord], task_of: dict[tuple[int, int], str], questions: dict[str, str]
) -> int | None:
    """Tokens that the first turns of all episodes with tools share; None: they do not tell."""
    lengths: dict[str, tuple[int, int]] = {}
    for call in calls:
        task = task_of.get(episode_key(call))
        if call.turn == 0 and call.workload is not Workload.naive_rag and task in questions:
            lengths[task] = len(questions[task]), call.prompt_tokens or 0
    if len(lengths) < MIN_TASKS or len({chars for chars, _ in lengths.values()}) < 2:
        return None
    chars, tokens = np.array(list(lengths.values()), dtype=float).T
    slope, intercept = np.polyfit(chars, tokens, 1)
    spread = float(np.std(tokens - slope * chars - intercept))
    if spread > MAX_SPREAD * tokens.mean() or not 0 < intercept <= tokens.min():
        return None
    return round(float(intercept))


def _cached(
    calls: Sequence[LLMRecord],
    task_of: dict[tuple[int, int], str],
    shared: int,
    block_size: int,
) -> list[tuple[LLMRecord, int]]:
    """Each call with the prompt tokens that the plan wants from the cache, whole blocks."""
    prefilled: dict[tuple[str | None, int, int], int] = {}  # same prompt -> first_delta_ns
    previous: dict[tuple[int, int], int] = {}
    first_ns: int | None = None  # when the shared part was in the cache
    found: list[tuple[LLMRecord, int]] = []
    for call in calls:
        key, length, sent_ns = episode_key(call), call.prompt_tokens or 0, call.sent_ns or 0
        prompt = (task_of.get(key), call.turn, length)
        rag = call.workload is Workload.naive_rag
        wanted = 0
        if prompt[0] is not None and prefilled.get(prompt, sent_ns) < sent_ns:
            wanted = length - 1  # the last token is always computed
        elif call.turn > 0:
            wanted = previous.get(key, 0)
        elif not rag and first_ns is not None and first_ns < sent_ns:
            wanted = shared
        found.append((call, min(wanted, length - 1) // block_size * block_size))
        previous[key] = length
        if call.first_delta_ns is not None:
            prefilled[prompt] = min(prefilled.get(prompt, call.first_delta_ns), call.first_delta_ns)
            if not rag:
                first_ns = min(first_ns or call.first_delta_ns, call.first_delta_ns)
    return found
