"""Lookups: one tool call each, with its arguments and the facts that its result must hold.

The facts are computed here from the company's rows, never from the SQL; a test runs the SQL.
A lookup that would be ambiguous (a tie, nothing found) is `None`, and another one is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import names
from .clauses import SPECIALS, TOPICS
from .company import Company, Contract, Provider
from .pages import PublicWeb
from .policies import POLICIES

SMALLEST_COUNT = 10  # a lone smaller number occurs in too many texts to be a fact


@dataclass(frozen=True)
class Lookup:
    """One planned call. `slots` fill the wording of questions and thoughts."""

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


def _sql(query: str, params: list[Any], facts: Iterable[object], **slots: object) -> Lookup:
    arguments = {"query": query, "params": params}
    texts = {key: str(value) for key, value in slots.items()}
    return Lookup("sql_query", arguments, [str(fact) for fact in facts], texts)


def _year(world: World) -> int:
    return int(world.pick((2021, 2022, 2023, 2024, 2025)))


def _region(world: World) -> str:
    return str(world.pick(names.REGION_SHARES))


def _category(world: World) -> str:
    return str(world.pick(sorted({contract.category for contract in world.company.contracts})))


def count_and_sum(world: World) -> Lookup | None:
    """The seed's own query: number and sum of the contracts above an amount."""
    floor, year, region = int(world.pick((50_000, 100_000, 150_000))), _year(world), _region(world)
    amounts = [
        contract.amount
        for contract in world.company.contracts
        if contract.amount > floor and contract.year == year and contract.provider_region == region
    ]
    query = (
        "SELECT COUNT(*) AS contracts, SUM(amount) AS total_eur FROM contracts "
        "WHERE amount > $1 AND year = $2 AND provider_region = $3"
    )
    if not amounts:
        return None
    facts = (len(amounts), sum(amounts))
    return _sql(query, [floor, year, region], facts, floor=floor, year=year, region=region)


def category_total(world: World) -> Lookup | None:
    """The sum of a category in a year."""
    category, year = _category(world), _year(world)
    amounts = [
        c.amount for c in world.company.contracts if (c.category, c.year) == (category, year)
    ]
    query = "SELECT SUM(amount) AS total_eur FROM contracts WHERE category = $1 AND year = $2"
    if not amounts:
        return None
    return _sql(query, [category, year], [sum(amounts)], category=category, year=year)


def provider_count(world: World) -> Lookup | None:
    """The number of contracts of one provider in a year."""
    year = _year(world)
    counts = Counter(c.provider_id for c in world.company.contracts if c.year == year)
    provider = world.company.provider(
        world.pick(sorted(i for i, n in counts.items() if n >= SMALLEST_COUNT))
    )
    query = (
        "SELECT COUNT(*) AS contracts FROM contracts c JOIN providers p ON p.id = c.provider_id "
        "WHERE p.name = $1 AND c.year = $2"
    )
    facts = [counts[provider.id]]
    return _sql(query, [provider.name, year], facts, provider=provider.name, year=year)


def overdue_total(world: World) -> Lookup | None:
    """Number and sum of the overdue payments to the providers of a region."""
    region = _region(world)
    by_id = world.company.contract_by_id
    amounts = [
        payment.amount
        for payment in world.company.payments
        if payment.status == "overdue" and by_id[payment.contract_id].provider_region == region
    ]
    query = (
        "SELECT COUNT(*) AS payments, SUM(p.amount) AS total_eur FROM payments p "
        "JOIN contracts c ON c.id = p.contract_id WHERE p.status = $1 AND c.provider_region = $2"
    )
    if not amounts:
        return None
    return _sql(query, ["overdue", region], (len(amounts), sum(amounts)), region=region)


def terminated_count(world: World) -> Lookup | None:
    """The number of terminated contracts of a year in a region."""
    year, region = _year(world), _region(world)
    key = ("terminated", year, region)
    count = sum((c.status, c.year, c.provider_region) == key for c in world.company.contracts)
    query = (
        "SELECT COUNT(*) AS contracts FROM contracts "
        "WHERE status = $1 AND year = $2 AND provider_region = $3"
    )
    return (
        _sql(query, list(key), [count], year=year, region=region)
        if count >= SMALLEST_COUNT
        else None
    )


def provider_spread(world: World) -> Lookup | None:
    """The number of different providers with contracts of a category in a year."""
    category, year = _category(world), _year(world)
    found = {
        c.provider_id for c in world.company.contracts if (c.category, c.year) == (category, year)
    }
    query = (
        "SELECT COUNT(DISTINCT provider_id) AS providers FROM contracts "
        "WHERE category = $1 AND year = $2"
    )
    if len(found) < SMALLEST_COUNT:
        return None
    return _sql(query, [category, year], [len(found)], category=category, year=year)


def slow_payments(world: World) -> Lookup | None:
    """The number of payments of a provider that took longer than some days."""
    providers = [
        p for p in world.company.providers if len(world.company.payments_by_provider[p.id]) > 20
    ]
    provider, days = world.pick(providers), int(world.pick((25, 35, 50)))
    count = _slower_than(world.company, provider, days)
    return slow_payments_of(provider, days, count) if count >= SMALLEST_COUNT else None


def _slower_than(company: Company, provider: Provider, days: int) -> int:
    payments = company.payments_by_provider[provider.id]
    return sum(p.days_to_pay is not None and p.days_to_pay > days for p in payments)


def slow_payments_of(provider: Provider, days: int, count: int) -> Lookup:
    """The call for `slow_payments` and for the last turn of a three-turn task."""
    query = (
        "SELECT COUNT(*) AS payments FROM payments p JOIN contracts c ON c.id = p.contract_id "
        "JOIN providers v ON v.id = c.provider_id WHERE v.name = $1 AND p.days_to_pay > $2"
    )
    return _sql(query, [provider.name, days], [count], provider=provider.name, days=days)


def top_provider(world: World) -> Lookup | None:
    """The provider with the largest total of a year and region."""
    year, region = _year(world), _region(world)
    totals: Counter[int] = Counter()
    for contract in world.company.contracts:
        if (contract.year, contract.provider_region) == (year, region):
            totals[contract.provider_id] += contract.amount
    query = (
        "SELECT p.name, SUM(c.amount) AS total_eur FROM contracts c "
        "JOIN providers p ON p.id = c.provider_id WHERE c.year = $1 AND c.provider_region = $2 "
        "GROUP BY p.name ORDER BY total_eur DESC LIMIT 1"
    )
    best = totals.most_common(2)
    if len(best) < 2 or best[0][1] == best[1][1]:
        return None
    provider = world.company.provider(best[0][0])
    slots = {"year": year, "region": region, "provider": provider.name, "provider_id": provider.id}
    return _sql(query, [year, region], [provider.name], **slots)


def largest_contract(world: World) -> Lookup | None:
    """The title of the largest contract of a category in a year."""
    category, year = _category(world), _year(world)
    found = [c for c in world.company.contracts if (c.category, c.year) == (category, year)]
    found.sort(key=lambda contract: -contract.amount)
    if len(found) < 2 or found[0].amount == found[1].amount or not found[0].special:
        return None
    query = (
        "SELECT id, title, amount FROM contracts WHERE category = $1 AND year = $2 "
        "ORDER BY amount DESC LIMIT 1"
    )
    best = found[0]
    slots = {"category": category, "year": year, "title": best.title, "contract_id": best.id}
    return _sql(query, [category, year], [best.title], **slots)


def most_overdue(world: World) -> Lookup | None:
    """The provider with the largest overdue amount in a region."""
    region = _region(world)
    totals: Counter[int] = Counter()
    for payment in world.company.payments:
        contract = world.company.contract_by_id[payment.contract_id]
        if payment.status == "overdue" and contract.provider_region == region:
            totals[contract.provider_id] += payment.amount
    best = totals.most_common(2)
    if len(best) < 2 or best[0][1] == best[1][1]:
        return None
    query = (
        "SELECT v.name, SUM(p.amount) AS overdue_eur FROM payments p "
        "JOIN contracts c ON c.id = p.contract_id JOIN providers v ON v.id = c.provider_id "
        "WHERE p.status = $1 AND c.provider_region = $2 "
        "GROUP BY v.name ORDER BY overdue_eur DESC LIMIT 1"
    )
    provider = world.company.provider(best[0][0])
    slots = {"region": region, "provider": provider.name, "provider_id": provider.id}
    return _sql(query, ["overdue", region], [provider.name], **slots)


def active_total(world: World, provider: Provider) -> Lookup | None:
    """Number and sum of a provider's active contracts."""
    amounts = [
        contract.amount
        for contract in world.company.contracts
        if contract.provider_id == provider.id and contract.status == "active"
    ]
    query = (
        "SELECT COUNT(*) AS contracts, SUM(c.amount) AS total_eur FROM contracts c "
        "JOIN providers p ON p.id = c.provider_id WHERE p.name = $1 AND c.status = $2"
    )
    facts = (len(amounts), sum(amounts))
    slots = {"provider": provider.name}
    return _sql(query, [provider.name, "active"], facts, **slots) if amounts else None


def paid_on_contract(world: World, contract: Contract) -> Lookup | None:
    """The sum that was paid on one contract."""
    paid = [
        payment.amount
        for payment in world.company.payments
        if payment.contract_id == contract.id and payment.status == "paid"
    ]
    query = (
        "SELECT SUM(p.amount) AS paid_eur FROM payments p JOIN contracts c "
        "ON c.id = p.contract_id WHERE c.title = $1 AND p.status = $2"
    )
    slots = {"title": contract.title}
    return _sql(query, [contract.title, "paid"], [sum(paid)], **slots) if paid else None


def slower_than_term(world: World, provider: Provider) -> Lookup | None:
    """The number of a provider's payments that took longer than its payment term."""
    days = provider.terms.payment_days
    count = _slower_than(world.company, provider, days)
    return slow_payments_of(provider, days, count) if count >= SMALLEST_COUNT else None


SQL_FAMILIES: dict[str, Callable[[World], Lookup | None]] = {
    "count_and_sum": count_and_sum,
    "category_total": category_total,
    "provider_count": provider_count,
    "overdue_total": overdue_total,
    "terminated_count": terminated_count,
    "provider_spread": provider_spread,
    "slow_payments": slow_payments,
    "top_provider": top_provider,
    "largest_contract": largest_contract,
    "most_overdue": most_overdue,
}


def _vector(query: str, facts: list[str], **slots: str) -> Lookup:
    return Lookup("vector_search", {"query": query, "top_k": 5}, facts, slots)


def clause(topic_key: str, provider: Provider) -> Lookup:
    """A clause of a provider's framework agreement."""
    topic = TOPICS[topic_key]
    query = topic.query.format(p=provider.name)
    return _vector(query, [topic.fact(provider.terms)], p=provider.name, topic=topic.title)


def index_clause(provider: Provider) -> Lookup:
    """The price revision clause, asked for its index as well as for its cap."""
    found = clause("revision", provider)
    facts = [provider.terms.revision_index, *found.facts]
    return Lookup(found.tool, found.arguments, facts, found.slots)


def special(world: World, contract: Contract) -> Lookup:
    """The special condition of one contract."""
    kind = SPECIALS[contract.special]
    provider = world.company.provider(contract.provider_id)
    query = f"{kind.query.format(t=contract.title)} with {provider.name}"
    return _vector(query, [kind.fact(contract)], t=contract.title, p=provider.name)


def policy(world: World, key: str) -> Lookup:
    """An internal policy or procedure."""
    return _vector(POLICIES[key].query, [world.policy_facts[key]], topic=POLICIES[key].title)


def _web(query: str, fact: str, **slots: str) -> Lookup:
    return Lookup("web_search", {"query": query}, [fact], slots)


def price(world: World, commodity: str) -> Lookup:
    """Today's public price of a commodity."""
    return _web(f"{commodity} price today", world.web.prices[commodity], commodity=commodity)


def rate(world: World, currency: str) -> Lookup:
    """Today's exchange rate of the euro."""
    query = f"euro exchange rate today {currency}"
    return _web(query, world.web.rates[currency], currency=currency)


def news(world: World, provider: Provider) -> Lookup:
    """The latest news about a third party."""
    query = f"{provider.name} latest news"
    return _web(query, world.web.news[provider.id], provider=provider.name)


def regulation(world: World, name: str) -> Lookup:
    """What a new public regulation applies to."""
    return _web(f"{name} applies to", world.web.regulations[name], regulation=name)
