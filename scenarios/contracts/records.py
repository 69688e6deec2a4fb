"""Lookups in the tables: one SQL call each, with the facts that its result must hold.

The facts are computed here from the company's rows, never from the SQL; a test runs the SQL.
A lookup that would be ambiguous (a tie, nothing found) is `None`, and another one is drawn.
Text is always a parameter; a whole number is one in the longer statements, and stands in the
statement itself in the short ones, which only the tasks use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import names
from .company import Company, Contract, Provider
from .lookups import Lookup, World

SMALLEST_COUNT = 10  # a lone smaller number occurs in too many texts to be a fact


def _sql(query: str, params: Sequence[Any], facts: Iterable[object], **slots: object) -> Lookup:
    arguments: dict[str, Any] = {"query": query}
    if params:
        arguments["params"] = list(params)
    texts = {key: str(value) for key, value in slots.items()}
    return Lookup("sql_query", arguments, [str(fact) for fact in facts], texts)


def _count(query: str, params: Sequence[Any], count: int, **slots: object) -> Lookup | None:
    return _sql(query, params, [count], **slots) if count >= SMALLEST_COUNT else None


def _year(world: World) -> int:
    return int(world.pick((2021, 2022, 2023, 2024, 2025)))


def _region(world: World) -> str:
    return str(world.pick(names.REGION_SHARES))


def _category(world: World) -> str:
    return str(world.pick(sorted({contract.category for contract in world.company.contracts})))


def _provider(world: World) -> Provider:
    provider: Provider = world.pick(world.company.providers)
    return provider


# One condition: short statements.


def amount_count(world: World) -> Lookup | None:
    """The number of contracts above an amount."""
    floor = int(world.rng.integers(8, 60)) * 10_000
    count = sum(contract.amount > floor for contract in world.company.contracts)
    return _count(f"SELECT COUNT(*) FROM contracts WHERE amount > {floor}", [], count, floor=floor)


def slow_count(world: World) -> Lookup | None:
    """The number of all payments that took longer than some days."""
    days = int(world.rng.integers(25, 85))
    count = sum(p.days is not None and p.days > days for p in world.company.payments)
    return _count(f"SELECT COUNT(*) FROM payments WHERE days > {days}", [], count, days=days)


def year_total(world: World) -> Lookup:
    """The sum of all contracts of a year."""
    year = _year(world)
    total = sum(c.amount for c in world.company.contracts if c.year == year)
    return _sql(f"SELECT SUM(amount) FROM contracts WHERE year = {year}", [], [total], year=year)


def category_sum(world: World) -> Lookup:
    """The sum of all contracts of a category."""
    category = _category(world)
    total = sum(c.amount for c in world.company.contracts if c.category == category)
    query = "SELECT SUM(amount) FROM contracts WHERE category = $1"
    return _sql(query, [category], [total], category=category)


def contracts_of(world: World) -> Lookup | None:
    """The number of all contracts of a provider."""
    provider = _provider(world)
    count = sum(c.provider_id == provider.id for c in world.company.contracts)
    query = "SELECT COUNT(*) FROM contracts WHERE provider = $1"
    return _count(query, [provider.name], count, provider=provider.name)


def provider_total(world: World) -> Lookup | None:
    """The sum of all contracts of a provider."""
    return total_of(world, _provider(world))


def total_of(world: World, provider: Provider) -> Lookup | None:
    """`provider_total` of a known provider; also the last turn of a three-turn task."""
    amounts = [c.amount for c in world.company.contracts if c.provider_id == provider.id]
    query = "SELECT SUM(amount) FROM contracts WHERE provider = $1"
    if not amounts:
        return None
    return _sql(query, [provider.name], [sum(amounts)], provider=provider.name)


def contract_amount(world: World) -> Lookup:
    """The amount of one contract."""
    contract = world.pick(world.company.contracts)
    query = "SELECT amount FROM contracts WHERE title = $1"
    return _sql(query, [contract.title], [contract.amount], title=contract.title)


def contract_provider(world: World) -> Lookup:
    """The provider of one contract."""
    contract = world.pick(world.company.contracts)
    query = "SELECT provider FROM contracts WHERE title = $1"
    slots = {"title": contract.title, "provider_id": contract.provider_id}
    return _sql(query, [contract.title], [contract.provider], **slots)


def contract_title(world: World) -> Lookup:
    """The title of a contract with a special condition, by its number."""
    contract = world.pick(world.company.documented)
    query = f"SELECT title FROM contracts WHERE id = {contract.id}"
    return _sql(query, [], [contract.title], contract_id=contract.id)


def year_largest(world: World) -> Lookup | None:
    """The provider of the largest contract of a year."""
    year = _year(world)
    best = _largest(c for c in world.company.contracts if c.year == year)
    query = f"SELECT provider FROM contracts WHERE year = {year} ORDER BY amount DESC LIMIT 1"
    if best is None:
        return None
    return _sql(query, [], [best.provider], year=year, provider_id=best.provider_id)


def invoiced_on(world: World, contract: Contract) -> Lookup | None:
    """The sum of the payments on one contract."""
    amounts = [p.amount for p in world.company.payments if p.contract_id == contract.id]
    query = f"SELECT SUM(amount) FROM payments WHERE contract_id = {contract.id}"
    return _sql(query, [], [sum(amounts)]) if amounts else None


def slower_than_term(world: World, provider: Provider) -> Lookup | None:
    """The number of a provider's payments that took longer than its payment term."""
    days = provider.terms.payment_days
    query = f"SELECT COUNT(*) FROM payments WHERE provider = $1 AND days > {days}"
    return _count(query, [provider.name], _slower_than(world.company, provider, days))


# Several conditions, rankings and joins: longer statements.


def count_and_sum(world: World) -> Lookup | None:
    """The seed's own query: number and sum of the contracts above an amount."""
    floor, year, region = int(world.pick((50_000, 100_000, 150_000))), _year(world), _region(world)
    amounts = [
        contract.amount
        for contract in world.company.contracts
        if contract.amount > floor and contract.year == year and contract.provider_region == region
    ]
    query = (
        "SELECT COUNT(*), SUM(amount) FROM contracts "
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
    query = "SELECT SUM(amount) FROM contracts WHERE category = $1 AND year = $2"
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
    query = "SELECT COUNT(*) FROM contracts WHERE provider = $1 AND year = $2"
    params = [provider.name, year]
    return _count(query, params, counts[provider.id], provider=provider.name, year=year)


def country_count(world: World) -> Lookup | None:
    """The number of contracts with the providers of a country; needs a join."""
    country = str(world.pick(sorted({p.country for p in world.company.providers})))
    count = sum(
        world.company.provider(c.provider_id).country == country for c in world.company.contracts
    )
    query = "SELECT COUNT(*) FROM contracts JOIN providers ON name = provider WHERE country = $1"
    return _count(query, [country], count, country=country)


def overdue_total(world: World) -> Lookup | None:
    """Number and sum of the overdue payments to the providers of a region; needs a join."""
    region = _region(world)
    by_id = world.company.contract_by_id
    amounts = [
        payment.amount
        for payment in world.company.payments
        if payment.status == "overdue" and by_id[payment.contract_id].provider_region == region
    ]
    query = (
        "SELECT COUNT(*), SUM(amount) FROM payments JOIN providers ON name = provider "
        "WHERE status = $1 AND region = $2"
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
        "SELECT COUNT(*) FROM contracts WHERE status = $1 AND year = $2 AND provider_region = $3"
    )
    return _count(query, key, count, year=year, region=region)


def provider_spread(world: World) -> Lookup | None:
    """The number of different providers with contracts of a category in a year."""
    category, year = _category(world), _year(world)
    found = {
        c.provider_id for c in world.company.contracts if (c.category, c.year) == (category, year)
    }
    query = "SELECT COUNT(DISTINCT provider) FROM contracts WHERE category = $1 AND year = $2"
    return _count(query, [category, year], len(found), category=category, year=year)


def slow_payments(world: World) -> Lookup | None:
    """The number of payments of a provider that took longer than some days."""
    providers = [
        p for p in world.company.providers if len(world.company.payments_by_provider[p.id]) > 20
    ]
    provider, days = world.pick(providers), int(world.pick((25, 35, 50)))
    query = "SELECT COUNT(*) FROM payments WHERE provider = $1 AND days > $2"
    count = _slower_than(world.company, provider, days)
    return _count(query, [provider.name, days], count, provider=provider.name, days=days)


def _slower_than(company: Company, provider: Provider, days: int) -> int:
    payments = company.payments_by_provider[provider.id]
    return sum(p.days is not None and p.days > days for p in payments)


def top_provider(world: World) -> Lookup | None:
    """The provider with the largest total of a year and region."""
    year, region = _year(world), _region(world)
    totals: Counter[int] = Counter()
    for contract in world.company.contracts:
        if (contract.year, contract.provider_region) == (year, region):
            totals[contract.provider_id] += contract.amount
    query = (
        "SELECT provider FROM contracts WHERE year = $1 AND provider_region = $2 "
        "GROUP BY provider ORDER BY SUM(amount) DESC LIMIT 1"
    )
    return _leader(world, totals, query, [year, region], year=year, region=region)


def most_overdue(world: World) -> Lookup | None:
    """The provider with the largest overdue amount in a region; needs a join."""
    region = _region(world)
    totals: Counter[int] = Counter()
    for payment in world.company.payments:
        contract = world.company.contract_by_id[payment.contract_id]
        if payment.status == "overdue" and contract.provider_region == region:
            totals[contract.provider_id] += payment.amount
    query = (
        "SELECT provider FROM payments JOIN providers ON name = provider "
        "WHERE status = $1 AND region = $2 GROUP BY provider ORDER BY SUM(amount) DESC LIMIT 1"
    )
    return _leader(world, totals, query, ["overdue", region], region=region)


def _leader(
    world: World, totals: Counter[int], query: str, params: list[Any], **slots: object
) -> Lookup | None:
    """The provider with the largest total; None when there is no single one."""
    best = totals.most_common(2)
    if len(best) < 2 or best[0][1] == best[1][1]:
        return None
    provider = world.company.provider(best[0][0])
    return _sql(query, params, [provider.name], provider_id=provider.id, **slots)


def largest_contract(world: World) -> Lookup | None:
    """The title of the largest contract of a category in a year."""
    category, year = _category(world), _year(world)
    best = _largest(c for c in world.company.contracts if (c.category, c.year) == (category, year))
    if best is None or not best.special:
        return None
    query = (
        "SELECT title, amount FROM contracts WHERE category = $1 AND year = $2 "
        "ORDER BY amount DESC LIMIT 1"
    )
    slots = {"category": category, "year": year, "contract_id": best.id}
    return _sql(query, [category, year], [best.title], **slots)


def _largest(contracts: Iterable[Contract]) -> Contract | None:
    """The contract with the largest amount; None when there is no single one."""
    found = sorted(contracts, key=lambda contract: -contract.amount)
    return None if len(found) < 2 or found[0].amount == found[1].amount else found[0]


SQL_FAMILIES: dict[str, Callable[[World], Lookup | None]] = {
    family.__name__: family
    for family in (
        amount_count,
        slow_count,
        year_total,
        category_sum,
        contracts_of,
        provider_total,
        contract_amount,
        contract_provider,
        contract_title,
        year_largest,
        count_and_sum,
        category_total,
        provider_count,
        country_count,
        overdue_total,
        terminated_count,
        provider_spread,
        slow_payments,
        top_provider,
        largest_contract,
        most_overdue,
    )
}
