"""The public web of the scenario, invented and dated: prices, exchange rates, news, regulations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from .company import TODAY, Company, Provider
from .names import COMMODITIES, CURRENCIES

MONTHS_BACK = 12
# What happened to a third party: headline, and the clause with the figure.
NEWS = (
    ("opens a new plant", "it opened a new plant with {n} jobs"),
    ("cuts jobs", "it will cut {n} jobs within a year"),
    ("raises capital", "it raised {n} million euros of fresh capital"),
    ("wins an order", "it won a public order worth {n} million euros"),
    ("recalls a product", "it recalled {n} units of a product"),
    ("buys a rival", "it bought a smaller rival for {n} million euros"),
)
REGULATIONS = (
    ("Supply Chain Transparency Act", "suppliers with more than {n} employees"),
    ("Packaging Waste Regulation", "shipments of more than {n} kilograms of packaging a year"),
    ("Late Payment Directive", "payment terms longer than {n} days"),
    ("Machine Noise Ordinance", "machines louder than {n} decibels"),
    ("Data Processing Register Rule", "companies with more than {n} customer records"),
    ("Driver Rest Time Regulation", "tours longer than {n} kilometres"),
    ("Energy Audit Obligation", "sites using more than {n} megawatt hours a year"),
    ("Carbon Border Levy", "imports above {n} tonnes a year"),
    ("Solvent Storage Ordinance", "stores of more than {n} litres"),
    ("Public Tender Threshold Notice", "orders above {n} thousand euros"),
    ("Battery Take-back Rule", "sellers of more than {n} batteries a year"),
    ("Whistleblower Channel Act", "employers with more than {n} staff"),
)


@dataclass(frozen=True)
class Page:
    """One public page; its first sentence holds its fact."""

    url: str
    title: str
    content: str


@dataclass
class PublicWeb:
    """The pages, and the fact of each kind of page by what it is about."""

    pages: list[Page] = field(default_factory=list)
    prices: dict[str, str] = field(default_factory=dict)
    rates: dict[str, str] = field(default_factory=dict)
    news: dict[int, str] = field(default_factory=dict)
    regulations: dict[str, str] = field(default_factory=dict)


def make_pages(company: Company, seed: int) -> PublicWeb:
    """The same seed gives the same web."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    web = PublicWeb()
    for commodity, (unit, typical, step) in COMMODITIES.items():
        _prices(rng, web, commodity, unit, typical, step)
    for currency, typical in CURRENCIES.items():
        _rate(rng, web, currency, typical)
    for provider in company.providers:
        _news(rng, web, provider)
    for name, scope in REGULATIONS:
        _regulation(rng, web, name, scope)
    return web


def day_text(day: date) -> str:
    """4 June 2026."""
    return f"{day.day} {day:%B %Y}"


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-")


def _prices(
    rng: np.random.Generator, web: PublicWeb, name: str, unit: str, typical: int, step: int
) -> None:
    """One page for today and one for each month before, along a random walk back in time."""
    level = typical * float(np.exp(rng.normal(0.0, 0.1)))
    for back in range(MONTHS_BACK + 1):
        price = round(level / step) * step
        if back == 0:
            web.prices[name] = str(price)
            title = f"{name[0].upper()}{name[1:]} price today"
            content = (
                f"The current price of {name} today, {day_text(TODAY)}, is {price} {unit}. "
                f"Traders of {name} called the market calm and pointed to steady demand. "
                f"The quotation is renewed every working day at noon."
            )
            url = f"https://markets.example/today/{_slug(name)}"
        else:
            year, month = divmod(TODAY.year * 12 + TODAY.month - 1 - back, 12)
            name_of_month = f"{date(year, month + 1, 1):%B %Y}"
            title = f"{name[0].upper()}{name[1:]} archive {name_of_month}"
            content = (
                f"In {name_of_month} the monthly mean of {name} was {price} {unit}. "
                f"Analysts linked the movement of that month to stocks and to the cost of energy. "
                f"Archive figures are final and are not revised."
            )
            url = f"https://markets.example/archive/{year}-{month + 1:02d}/{_slug(name)}"
        web.pages.append(Page(url, title, content))
        level *= float(np.exp(rng.normal(0.0, 0.045)))


def _rate(rng: np.random.Generator, web: PublicWeb, currency: str, typical: int) -> None:
    rate = f"{typical * float(np.exp(rng.normal(0.0, 0.02))) / 10_000:.4f}"
    web.rates[currency] = rate
    web.pages.append(
        Page(
            f"https://rates.example/euro/{_slug(currency)}",
            f"Euro exchange rate today: {currency}",
            f"The exchange rate today, {day_text(TODAY)}, is {rate} {currency} for one euro. "
            f"The rate is a reference fixed at noon by the invented association of banks. "
            f"Banks add a margin of their own to the {currency} rate.",
        )
    )


def _news(rng: np.random.Generator, web: PublicWeb, provider: Provider) -> None:
    headline, event = NEWS[int(rng.integers(len(NEWS)))]
    figure = str(int(rng.integers(21, 980)))
    day = TODAY - timedelta(days=int(rng.integers(1, 45)))
    web.news[provider.id] = figure
    web.pages.append(
        Page(
            f"https://news.example/{day:%Y/%m}/{_slug(provider.name)}-{_slug(headline)}",
            f"{provider.name} {headline}",
            f"The latest news about {provider.name}, published in the press on {day_text(day)}: "
            f"{event.format(n=figure)}. A spokesperson in {provider.country} confirmed this in "
            f"writing. Observers of the {provider.sector} sector expect little effect "
            f"on deliveries.",
        )
    )


def _regulation(rng: np.random.Generator, web: PublicWeb, name: str, scope: str) -> None:
    threshold = str(int(rng.integers(4, 99)) * 10)
    start = TODAY + timedelta(days=int(rng.integers(20, 500)))
    web.regulations[name] = threshold
    web.pages.append(
        Page(
            f"https://law.example/acts/{_slug(name)}",
            f"{name}: what is new",
            f"The recently published {name} covers {scope.format(n=threshold)} and applies from "
            f"{day_text(start)}. Parliament passed it in spring after two readings. "
            f"Fines start after a grace period of half a year.",
        )
    )


def write_pages(pages: list[Page], out: Path) -> None:
    """pages.jsonl: url, title and content, a line each."""
    lines = (
        json.dumps({"url": page.url, "title": page.title, "content": page.content})
        for page in pages
    )
    (out / "pages.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
