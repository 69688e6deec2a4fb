"""selection.jsonl: one-turn items (question, expected tools, expected arguments) in six strata.

Arguments are given where the question determines them (SQL, up to an equivalent statement); the
text of a search has many right forms, so it is null there. An item with an empty plan expects no
call at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import item_texts as texts
from .clauses import TOPICS
from .lookups import Lookup, World
from .names import COMMODITIES, CURRENCIES, PORTS
from .pages import REGULATIONS
from .tasks import Exhausted, Task, draw, fresh

PER_STRATUM = {
    "sql": 40,
    "vector": 40,
    "web": 40,
    "parallel": 24,
    "abstention": len(texts.ABSTENTIONS),
    "adversarial": len(texts.ADVERSARIAL),
}


def item(text: str, stratum: str, *calls: tuple[str, dict[str, Any] | None]) -> Task:
    """One line of selection.jsonl, without its id."""
    planned = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
    turns = [{"thought": "", "calls": planned}] if planned else []
    return {
        "workload": "selection",
        "question": text,
        "turns": turns,
        "facts": [],
        "stratum": stratum,
        "source": "scenarios/contracts",
    }


def _sql_call(found: Lookup) -> tuple[str, dict[str, Any]]:
    return found.tool, found.arguments


def _sql(world: World, number: int) -> Task:
    families = list(texts.SQL_ITEMS)
    family = families[number % len(families)]
    wordings = texts.SQL_ITEMS[family]
    found = draw(world, family)
    text = wordings[number // len(families) % len(wordings)].format(**found.slots)
    return item(text, "sql", _sql_call(found))


def _vector(world: World, number: int) -> Task:
    wordings = [*texts.CLAUSE_ITEMS, *texts.SPECIAL_ITEMS, *texts.POLICY_ITEMS]
    slots = _slots(world)
    return item(wordings[number % len(wordings)].format(**slots), "vector", ("vector_search", None))


def _slots(world: World) -> dict[str, str]:
    """Names for wordings that need no lookup."""
    contract = world.pick(world.company.documented)
    return {
        "p": world.pick(world.company.providers).name,
        "t": contract.title,
        "number": str(contract.id),
        "commodity": world.pick(COMMODITIES),
        "currency": world.pick(CURRENCIES),
        "regulation": world.pick(name for name, _ in REGULATIONS),
        "city": world.pick(PORTS),
        "topic": TOPICS[world.pick(TOPICS)].title,
        "a": str(int(world.rng.integers(12, 97))),
        "b": str(int(world.rng.integers(12, 97))),
    }


def _web(world: World, number: int) -> Task:
    wordings = texts.WEB_ITEMS
    slots = _slots(world)
    return item(wordings[number % len(wordings)].format(**slots), "web", ("web_search", None))


def _parallel(world: World, number: int) -> Task:
    """Two independent needs: figures from records beside a text or a public fact."""
    families = list(texts.PARALLEL_SQL)
    family = families[number % len(families)]
    found = draw(world, family)
    first = texts.PARALLEL_SQL[family].format(**found.slots)
    tool, wordings = texts.PARALLEL_OTHERS[number % len(texts.PARALLEL_OTHERS)]
    second = wordings[number // len(texts.PARALLEL_OTHERS) % len(wordings)]
    text = f"{first}, and {second.format(**_slots(world))}?"
    return item(text, "parallel", _sql_call(found), (tool, None))


def _abstention(world: World, number: int) -> Task:
    return item(texts.ABSTENTIONS[number].format(**_slots(world)), "abstention")


def _adversarial(world: World, number: int) -> Task:
    """Misleading words, or an attempt to make the model do what no tool may do."""
    tool, wording = texts.ADVERSARIAL[number]
    text = wording.format(**_slots(world))
    return item(text, "adversarial", (tool, None)) if tool else item(text, "adversarial")


STRATA: dict[str, Callable[[World, int], Task]] = {
    "sql": _sql,
    "vector": _vector,
    "web": _web,
    "parallel": _parallel,
    "abstention": _abstention,
    "adversarial": _adversarial,
}


def make_selection(world: World, seen: set[str]) -> list[Task]:
    """All items; no question occurs twice or in `seen` (the questions of the tasks)."""
    return list(_items(world, set(seen)))


def _items(world: World, seen: set[str]) -> Iterator[Task]:
    for stratum, make in STRATA.items():
        for number in range(PER_STRATUM[stratum]):
            try:
                found = fresh(partial(make, world, number), seen)
            except Exhausted as error:
                raise Exhausted(f"{stratum} item {number}: {error}") from error
            yield {"id": f"sel-{stratum}-{number:03d}", **found}
