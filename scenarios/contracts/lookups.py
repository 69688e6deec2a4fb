"""Lookups: one tool call each, with its arguments and the facts that its result must hold.

Those of texts and of the web are here, those of the tables in `records`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .clauses import SPECIALS, TOPICS
from .company import Company, Contract, Provider
from .pages import PublicWeb
from .policies import POLICIES


@dataclass(frozen=True)
class Lookup:
    """One planned call. `slots` fill the wording of questions."""

    tool: str
    arguments: dict[str, Any]
    facts: list[str]
    slots: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """All that questions are asked about, and the random numbers that choose them."""

    company: Company
    web: PublicWeb
    policy_facts: dict[str, str]
    rng: np.random.Generator

    def pick(self, options: Iterable[Any]) -> Any:
        """One of the options."""
        listed = list(options)
        return listed[int(self.rng.integers(len(listed)))]


def _vector(query: str, facts: list[str]) -> Lookup:
    return Lookup("vector_search", {"query": query}, facts)


def clause(topic_key: str, provider: Provider) -> Lookup:
    """A clause of a provider's framework agreement."""
    topic = TOPICS[topic_key]
    query = topic.query.format(p=provider.name)
    return _vector(query, [topic.fact(provider.terms)])


def index_clause(provider: Provider) -> Lookup:
    """The price revision clause, asked for its index as well as for its cap."""
    found = clause("revision", provider)
    facts = [provider.terms.revision_index, *found.facts]
    return Lookup(found.tool, found.arguments, facts)


def special(contract: Contract) -> Lookup:
    """The special condition of one contract, when the question tells its kind."""
    kind = SPECIALS[contract.special]
    return _vector(kind.query.format(t=contract.title), [kind.fact(contract)])


def unknown_special(contract: Contract) -> Lookup:
    """The special condition of one contract, when nobody has told its kind yet."""
    fact = SPECIALS[contract.special].fact(contract)
    return _vector(f"{contract.title} special condition", [fact])


def policy(world: World, key: str) -> Lookup:
    """An internal policy or procedure."""
    return _vector(POLICIES[key].query, [world.policy_facts[key]])


def _web(query: str, fact: str) -> Lookup:
    return Lookup("web_search", {"query": query}, [fact])


def price(world: World, commodity: str) -> Lookup:
    """Today's public price of a commodity."""
    return _web(f"{commodity} price today", world.web.prices[commodity])


def rate(world: World, currency: str) -> Lookup:
    """Today's exchange rate of the euro."""
    query = f"euro exchange rate today {currency}"
    return _web(query, world.web.rates[currency])


def news(world: World, provider: Provider) -> Lookup:
    """The latest news about a third party."""
    query = f"{provider.name} latest news"
    return _web(query, world.web.news[provider.id])


def regulation(world: World, name: str) -> Lookup:
    """What a new public regulation applies to."""
    return _web(f"{name} applies to", world.web.regulations[name])
