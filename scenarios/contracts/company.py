"""The company: providers with their framework terms, contracts and payments, from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import numpy as np

from . import names

TODAY = date(2026, 6, 4)
CONTRACTS = 5000
PROVIDERS = 200
YEARS = (2020, 2021, 2022, 2023, 2024, 2025, 2026)
YEAR_SHARES = (0.10, 0.12, 0.14, 0.16, 0.19, 0.20, 0.09)
# kind of special condition -> smallest and largest value (its unit is in clauses.SPECIALS)
SPECIAL_VALUES = {
    "bonus": (2, 12),
    "retention": (3, 15),
    "acceptance": (5, 60),
    "exclusivity": (6, 36),
    "storage": (20, 400),
    "training": (8, 80),
}


@dataclass(frozen=True)
class Terms:
    """What a provider's framework agreement says; the clause texts are written from it."""

    penalty_percent: float  # per month of delay
    penalty_cap_percent: int
    revision_index: str
    revision_cap_percent: float  # per year
    payment_days: int
    notice_days: int
    warranty_months: int
    liability_percent: int
    secrecy_years: int
    delivery_weeks: int
    audit_days: int
    reply_hours: int


@dataclass(frozen=True)
class Provider:
    """One line of providers.csv, with the terms of its framework agreement."""

    id: int
    name: str
    region: str
    country: str
    sector: str
    since_year: int
    terms: Terms


@dataclass(frozen=True)
class Contract:
    """One line of contracts.csv, with the special condition that its text tells (or none)."""

    id: int
    provider_id: int
    provider: str
    title: str
    amount: int  # whole euros
    year: int
    provider_region: str
    signed_on: date
    status: str
    category: str
    special: str
    special_value: int


@dataclass(frozen=True)
class Payment:
    """One line of payments.csv."""

    id: int
    contract_id: int
    provider: str
    amount: int  # whole euros
    invoiced_on: date
    due_on: date
    paid_on: date | None
    days: int | None  # from invoice to payment
    status: str


@dataclass(frozen=True)
class Company:
    """Everything that the tables, the texts, the pages and the questions are made from."""

    providers: tuple[Provider, ...]
    contracts: tuple[Contract, ...]
    payments: tuple[Payment, ...]

    def provider(self, provider_id: int) -> Provider:
        """The provider with this id (ids count from 1)."""
        return self.providers[provider_id - 1]

    @cached_property
    def contract_by_id(self) -> dict[int, Contract]:
        """Contracts by id."""
        return {contract.id: contract for contract in self.contracts}

    @cached_property
    def payments_by_provider(self) -> dict[int, list[Payment]]:
        """Payments by provider id."""
        found: dict[int, list[Payment]] = {provider.id: [] for provider in self.providers}
        for payment in self.payments:
            found[self.contract_by_id[payment.contract_id].provider_id].append(payment)
        return found

    @cached_property
    def documented(self) -> tuple[Contract, ...]:
        """The contracts whose special condition is in the document store."""
        return tuple(contract for contract in self.contracts if contract.special)


def make_company(seed: int) -> Company:
    """The same seed gives the same company."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    providers = _providers(rng)
    contracts = _contracts(rng, providers)
    return Company(providers, contracts, _payments(rng, providers, contracts))


def _providers(rng: np.random.Generator) -> tuple[Provider, ...]:
    chosen = rng.choice(names.words("provider"), PROVIDERS, replace=False).tolist()
    sectors = list(names.SECTORS)
    regions = rng.choice(list(names.REGION_SHARES), PROVIDERS, p=list(names.REGION_SHARES.values()))
    providers = []
    for number, (word, region) in enumerate(zip(chosen, regions.tolist(), strict=True), start=1):
        sector = sectors[int(rng.integers(len(sectors)))]
        providers.append(
            Provider(
                id=number,
                name=f"{word} {names.SECTORS[sector][0]}",
                region=region,
                country=str(rng.choice(names.COUNTRIES[region])),
                sector=sector,
                since_year=int(rng.integers(2005, 2020)),
                terms=_terms(rng),
            )
        )
    return tuple(providers)


def _terms(rng: np.random.Generator) -> Terms:
    return Terms(
        penalty_percent=int(rng.integers(2, 11)) / 2,
        penalty_cap_percent=int(rng.integers(2, 7)) * 5,
        revision_index=str(rng.choice(list(names.COMMODITIES))),
        revision_cap_percent=int(rng.integers(3, 13)) / 2,
        payment_days=int(rng.choice([20, 30, 40, 45, 60, 75])),
        notice_days=int(rng.choice([30, 45, 60, 90, 120, 180])),
        warranty_months=int(rng.choice([12, 18, 24, 30, 36, 48])),
        liability_percent=int(rng.integers(5, 21)) * 10,
        secrecy_years=int(rng.integers(2, 11)),
        delivery_weeks=int(rng.integers(2, 17)),
        audit_days=int(rng.integers(3, 22)),
        reply_hours=int(rng.choice([2, 4, 6, 8, 12, 24, 48])),
    )


def _contracts(rng: np.random.Generator, providers: tuple[Provider, ...]) -> tuple[Contract, ...]:
    titles = [
        f"{first} {second}"
        for first in names.words("title_first")
        for second in names.words("title_second")
    ]
    order = rng.permutation(len(titles))[:CONTRACTS].tolist()
    popularity = np.minimum(rng.pareto(2.2, PROVIDERS) + 0.4, 6.0)
    owners = rng.choice(PROVIDERS, CONTRACTS, p=popularity / popularity.sum()).tolist()
    amounts = np.clip(rng.lognormal(np.log(62_000), 1.05, CONTRACTS), 2_000, 4_800_000).tolist()
    years = rng.choice(YEARS, CONTRACTS, p=YEAR_SHARES).tolist()
    contracts = []
    for row in range(CONTRACTS):
        provider, year = providers[owners[row]], years[row]
        amount = int(round(amounts[row], -2))
        last_day = TODAY if year == TODAY.year else date(year, 12, 31)
        day = int(rng.integers((last_day - date(year, 1, 1)).days))
        kind = list(SPECIAL_VALUES)[int(rng.integers(len(SPECIAL_VALUES)))]
        contracts.append(
            Contract(
                id=1001 + row,
                provider_id=provider.id,
                provider=provider.name,
                title=titles[order[row]],
                amount=amount,
                year=year,
                provider_region=provider.region,
                signed_on=date(year, 1, 1) + timedelta(days=day),
                status=_status(rng, year),
                category=names.SECTORS[provider.sector][1],
                special=kind if amount > 100_000 else "",
                special_value=int(rng.integers(*SPECIAL_VALUES[kind], endpoint=True)),
            )
        )
    return tuple(contracts)


def _status(rng: np.random.Generator, year: int) -> str:
    if rng.random() < 0.06:
        return "terminated"
    still_runs = {2026: 1.0, 2025: 0.85, 2024: 0.45, 2023: 0.2}.get(year, 0.03)
    return "active" if rng.random() < still_runs else "completed"


def _payments(
    rng: np.random.Generator, providers: tuple[Provider, ...], contracts: tuple[Contract, ...]
) -> tuple[Payment, ...]:
    payments: list[Payment] = []
    for contract in contracts:
        term_days = providers[contract.provider_id - 1].terms.payment_days
        parts = int(rng.integers(1, 4))
        share, left = contract.amount // parts, contract.amount
        for part in range(parts):
            invoiced_on = contract.signed_on + timedelta(days=30 + 45 * part)
            took_days = max(1, round(float(rng.gamma(9.0, term_days / 9.5))))
            unpaid = rng.random() < 0.03
            if invoiced_on > TODAY:
                break
            amount = left if part == parts - 1 else share
            left -= amount
            due_on = invoiced_on + timedelta(days=term_days)
            paid_on = invoiced_on + timedelta(days=took_days)
            paid = not unpaid and paid_on <= TODAY
            payments.append(
                Payment(
                    id=50_001 + len(payments),
                    contract_id=contract.id,
                    provider=contract.provider,
                    amount=amount,
                    invoiced_on=invoiced_on,
                    due_on=due_on,
                    paid_on=paid_on if paid else None,
                    days=took_days if paid else None,
                    status="paid" if paid else "overdue" if due_on < TODAY else "pending",
                )
            )
    return tuple(payments)
