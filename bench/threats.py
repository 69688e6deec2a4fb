"""What threatens the validity of a campaign: errors counted by kind, and limits in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bench.record import EpisodeOutcome, LLMOutcome, ToolOutcome
from bench.run import Run
from bench.scenario import Control, ToolSource

FINE = (
    LLMOutcome.ok,
    LLMOutcome.cut,
    ToolOutcome.ok,
    ToolOutcome.cut,
    EpisodeOutcome.answered,
    EpisodeOutcome.chosen,
    EpisodeOutcome.cut,
)
EXAMPLE_LENGTH = 300


def errors_of(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Every kind of failure with its count and one example, most frequent first.

    All attempts count, warm-up and tail included; what we cut ourselves is no failure. A call
    that the guard refused, or for a tool that is not there, is the model's failure and says so.
    """
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    for what, example in _failures(runs):
        counts[what] = counts.get(what, 0) + 1
        if not examples.get(what):
            examples[what] = example[:EXAMPLE_LENGTH]
    order = sorted(counts, key=lambda what: (-counts[what], what))
    return [{"what": what, "count": counts[what], "example": examples[what]} for what in order]


def _failures(runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    for run in runs:
        engine = run.facts.scenario.engine.name
        for call in run.llm:
            if call.outcome not in FINE:
                yield f"{engine}: model call: {call.outcome.value}", call.error
        for tool in run.tools:
            if tool.outcome in (ToolOutcome.refused, ToolOutcome.unknown):
                yield f"{engine}: the model's call of {tool.tool} was refused", tool.error
            elif tool.outcome not in FINE:
                yield f"{engine}: {tool.tool}: {tool.outcome.value}", tool.error
        for episode in run.episodes:
            if episode.outcome not in FINE:
                yield f"{engine}: episode: {episode.outcome.value}", episode.error


def threats_of(runs: Sequence[Run]) -> list[str]:
    """What a reader should hold against these numbers, in sentences."""
    scenarios = [run.facts.scenario for run in runs]
    threats: list[str] = []
    if any(run.facts.endpoint.simulated for run in runs):
        threats.append(
            "A simulated engine is a model with published or predicted coefficients. It says what "
            "that model predicts; measure a real engine before a purchase or a sign-off."
        )
    threats += _differing(runs)
    launches = Counter(scenario.engine.name for scenario in scenarios)
    if len(launches) > 1 and min(launches.values()) < 3:
        threats.append(
            "Fewer than three launches per engine: differences between engines are descriptive."
        )
    if any(scenario.tools.source is ToolSource.embedded for scenario in scenarios):
        threats.append(
            "The tools are real engines started on this machine (PostgreSQL, the Qdrant engine in "
            "a service of ours, a search service over local pages with a latency law). Their "
            "latency is this machine's; it shares its cores with the client and the engine."
        )
    if any(scenario.tools.source is ToolSource.recorded for scenario in scenarios):
        threats.append("Tool delays are stated, not measured: they do not feel the load.")
    if any(scenario.workload.control is Control.scripted for scenario in scenarios):
        threats.append(
            "The episodes were scripted: latencies are comparable, tool choices and answers are "
            "the plan's and are not graded."
        )
    if any(scenario.workload.selection == "pool" for scenario in scenarios):
        threats.append(
            "Selection items of the public pool carry the tool that their origin implies "
            "(Spider: SQL, PolicyQA: documents, FreshQA: web); the labels are not reviewed."
        )
    altered = [run.facts.id for run in runs if run.altered]
    if altered:
        threats.append(
            f"Record files were changed after the run was sealed ({', '.join(altered)}): none of "
            "its levels is valid."
        )
    if any(run.selftest is None for run in runs):
        threats.append(
            "A run holds no self-test of the client, so what the client adds is not known here."
        )
    torn = sum(run.torn for run in runs)
    if torn:
        threats.append(f"{torn} last lines of record files were cut off and could not be read.")
    return threats


def _differing(runs: Sequence[Run]) -> Iterator[str]:
    """What should be the same in every run of a campaign, is not, and is taken from the first."""
    first = runs[0].facts
    stated: list[tuple[str, Callable[[Run], object]]] = [
        ("objectives or limits (slo)", lambda run: run.facts.scenario.slo),
        ("think times (load.think_time_s)", lambda run: run.facts.scenario.load.think_time_s),
    ]
    for what, read in stated:
        others = [run.facts.id for run in runs if read(run) != read(runs[0])]
        if others:
            yield (
                f"Other {what} than {first.id} are stated by {', '.join(others)}; all runs are "
                f"judged and sized by those of {first.id}."
            )
