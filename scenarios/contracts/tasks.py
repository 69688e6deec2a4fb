"""tasks.jsonl: whole episodes of every workload, with their plans and computed facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import lookups, records, wording
from .clauses import SPECIALS, TOPICS
from .company import Provider
from .lookups import Lookup, World
from .names import CURRENCIES
from .pages import REGULATIONS
from .policies import POLICIES

Task = dict[str, Any]
PER_WORKLOAD = 24
DRAWS = 500  # attempts at a lookup that is neither empty nor tied


class Exhausted(Exception):
    """No unambiguous lookup, or no new question, was found in DRAWS attempts."""


def draw(world: World, family: str) -> Lookup:
    """A lookup of a family of SQL questions with exactly one right result."""
    for _ in range(DRAWS):
        found = records.SQL_FAMILIES[family](world)
        if found is not None:
            return found
    raise Exhausted(f"{family}: no unambiguous lookup in {DRAWS} draws")


def turn(thought: str, *calls: Lookup) -> dict[str, Any]:
    """A planned turn; several calls are independent of each other."""
    planned = [{"tool": call.tool, "arguments": call.arguments} for call in calls]
    return {"thought": thought, "calls": planned}


def task(
    workload: str, text: str, turns: Sequence[dict[str, Any]], *found: Lookup, stratum: str
) -> Task:
    """One line of tasks.jsonl, without its id."""
    facts = [fact for lookup in found for fact in lookup.facts]
    return {
        "workload": workload,
        "question": text,
        "turns": list(turns),
        "facts": list(dict.fromkeys(facts)),
        "stratum": stratum,
        "source": "scenarios/contracts",
    }


def _provider(world: World) -> Provider:
    provider: Provider = world.pick(world.company.providers)
    return provider


def document_ask(world: World) -> tuple[str, Lookup, str]:
    """A question about a text, its lookup, and the thought that leads to it."""
    kind = world.pick(("clause", "clause", "special", "policy"))
    if kind == "clause":
        key, provider = world.pick(TOPICS), _provider(world)
        ask = world.pick(TOPICS[key].asks).format(p=provider.name)
        return ask, lookups.clause(key, provider), "Need the clause text."
    if kind == "special":
        contract = world.pick(world.company.documented)
        ask = world.pick(SPECIALS[contract.special].asks).format(t=contract.title)
        return ask, lookups.special(contract), "Need the condition's text."
    key = world.pick(POLICIES)
    ask = world.pick(POLICIES[key].asks)
    return ask, lookups.policy(world, key), "Need the policy text."


def naive_rag(world: World, number: int) -> Task:
    """Retrieve once with the question itself, then answer."""
    ask, found, thought = document_ask(world)
    text = wording.question(ask)
    asked = Lookup(found.tool, {"query": text}, found.facts)
    return task("naive_rag", text, [turn(thought, asked)], asked, stratum="vector")


def react_1(world: World, number: int) -> Task:
    """One tool: SQL two times out of three, else a text."""
    if number % 3 == 2:
        ask, found, thought = document_ask(world)
        return task(
            "react_1", wording.question(ask), [turn(thought, found)], found, stratum="vector"
        )
    family = wording.ALONE[(number - number // 3) % len(wording.ALONE)]
    found = draw(world, family)
    ask = world.pick(wording.SQL_ASKS[family]).format(**found.slots)
    thought = wording.SQL_THOUGHTS[family]
    return task("react_1", wording.question(ask), [turn(thought, found)], found, stratum="sql")


def _sql_then_text(world: World, number: int) -> tuple[list[str], list[Lookup], list[str]]:
    """Asks, lookups and thoughts of a record and of a text about what it names."""
    family = wording.FIRST[number % len(wording.FIRST)]
    first = draw(world, family)
    ask = world.pick(wording.SQL_ASKS[family]).format(**first.slots)
    if "contract_id" in first.slots:
        contract = world.company.contract_by_id[int(first.slots["contract_id"])]
        second = lookups.unknown_special(contract)
        follow_up, thought = world.pick(wording.SPECIAL_FOLLOW_UPS), wording.SPECIAL_THOUGHT
    else:
        provider = world.company.provider(int(first.slots["provider_id"]))
        key = world.pick(wording.TOPIC_FOLLOW_UPS)
        second = lookups.clause(key, provider)
        follow_up, thought = world.pick(wording.TOPIC_FOLLOW_UPS[key]), wording.CLAUSE_THOUGHT
    return [ask, follow_up], [first, second], [wording.SQL_THOUGHTS[family], thought]


def react_2(world: World, number: int) -> Task:
    """SQL, then a text about what the SQL found."""
    asks, found, thoughts = _sql_then_text(world, number)
    turns = [turn(thought, call) for thought, call in zip(thoughts, found, strict=True)]
    return task("react_2", wording.question(*asks), turns, *found, stratum="sql>vector")


def react_3(world: World, number: int) -> Task:
    """SQL, a text about what it found, and SQL again about both."""
    for _ in range(DRAWS):
        asks, found, thoughts = _sql_then_text(world, number)
        if "contract_id" in found[0].slots:
            contract = world.company.contract_by_id[int(found[0].slots["contract_id"])]
            last = records.invoiced_on(world, contract)
            ask = "what total amount do its payments sum up to"
            thought = "Now sum its payments."
        else:
            provider = world.company.provider(int(found[0].slots["provider_id"]))
            if number % 3 == 0:
                found[1] = lookups.clause("payment", provider)
                asks[1] = world.pick(wording.TOPIC_FOLLOW_UPS["payment"])
                last = records.slower_than_term(world, provider)
                ask = "how many of our payments took longer than that"
                thought = "Count slower payments."
            else:
                last = records.total_of(world, provider)
                ask = "what total amount do all its contracts sum up to"
                thought = "Now sum the amounts."
        if last is None:
            continue
        turns = [turn(t, c) for t, c in zip([*thoughts, thought], [*found, last], strict=True)]
        text = wording.question(asks[0], asks[1]).removesuffix("?")
        return task(
            "react_3", f"{text}; finally, {ask}?", turns, *found, last, stratum="sql>vector>sql"
        )
    raise Exhausted("react_3: no third lookup")


def parallel(world: World, number: int) -> Task:
    """SQL and a text that do not depend on each other, asked in one turn."""
    family = wording.BESIDE[number % len(wording.BESIDE)]
    first = draw(world, family)
    ask, second, _ = document_ask(world)
    asks = [world.pick(wording.SQL_ASKS[family]).format(**first.slots), ask]
    if number % 2:
        asks.reverse()
    thought = "Need both figures and text."
    return task(
        "parallel",
        wording.question(*asks),
        [turn(thought, first, second)],
        first,
        second,
        stratum="sql+vector",
    )


def web(world: World, number: int) -> Task:
    """An internal source, then public information that depends on it (or stands beside it)."""
    if number % 3 == 0:
        return _web_news(world, number // 3)
    if number % 3 == 1:
        return _web_index(world)
    family = wording.BESIDE[number // 3 % len(wording.BESIDE)]
    first = draw(world, family)
    if number % 2:
        currency = world.pick(CURRENCIES)
        second = lookups.rate(world, currency)
        thought = "Now today's public rate."
        ask = world.pick(wording.RATE_ASKS).format(currency=currency)
    else:
        name = world.pick(name for name, _ in REGULATIONS)
        second = lookups.regulation(world, name)
        thought = "Now recent public news."
        ask = world.pick(wording.REGULATION_ASKS).format(regulation=name)
    text = wording.question(world.pick(wording.SQL_ASKS[family]).format(**first.slots), ask)
    turns = [
        turn(wording.SQL_THOUGHTS[family], first),
        turn(thought, second),
    ]
    return task("web", text, turns, first, second, stratum="sql>web")


def _web_news(world: World, number: int) -> Task:
    """SQL names a provider; the web tells the news about it."""
    family = wording.BEFORE_NEWS[number % len(wording.BEFORE_NEWS)]
    first = draw(world, family)
    second = lookups.news(world, world.company.provider(int(first.slots["provider_id"])))
    ask = world.pick(wording.SQL_ASKS[family]).format(**first.slots)
    turns = [
        turn(wording.SQL_THOUGHTS[family], first),
        turn("Now the latest news.", second),
    ]
    text = wording.question(ask, world.pick(wording.NEWS_FOLLOW_UPS))
    return task("web", text, turns, first, second, stratum="sql>web")


def _web_index(world: World) -> Task:
    """A clause names an index; the web tells its price."""
    provider = _provider(world)
    first = lookups.index_clause(provider)
    commodity = provider.terms.revision_index
    second = lookups.price(world, commodity)
    ask = world.pick(
        (
            "which index and cap does the price revision clause of {p} name",
            "to which commodity does clause 7.1 of {p} tie its price revision, with what cap",
        )
    ).format(p=provider.name)
    turns = [
        turn("Need the clause text.", first),
        turn("Now the current public price.", second),
    ]
    text = wording.question(
        ask,
        world.pick(
            (
                "where does that price stand today",
                "what is the current price of that commodity today",
            )
        ),
    )
    return task("web", text, turns, first, second, stratum="vector>web")


WORKLOADS: dict[str, Callable[[World, int], Task]] = {
    "naive_rag": naive_rag,
    "react_1": react_1,
    "react_2": react_2,
    "react_3": react_3,
    "parallel": parallel,
    "web": web,
}


def make_tasks(world: World) -> list[Task]:
    """PER_WORKLOAD tasks of each workload, every question once."""
    seen: set[str] = set()
    tasks: list[Task] = []
    for name, make in WORKLOADS.items():
        for number in range(PER_WORKLOAD):
            found = fresh(partial(make, world, number), seen)
            tasks.append({"id": f"{name}-{number:03d}", **found})
    return tasks


def fresh(make: Callable[[], Task], seen: set[str]) -> Task:
    """A task whose question is new; `seen` grows by it."""
    for _ in range(DRAWS):
        found = make()
        if found["question"] not in seen:
            seen.add(found["question"])
            return found
    raise Exhausted("no new question")


def write_lines(rows: Iterable[Task], path: Path) -> None:
    """JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
