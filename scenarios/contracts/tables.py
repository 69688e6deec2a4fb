"""The structured side: tables.sql and tables/*.csv."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from .company import Company

DDL = """\
CREATE TABLE public.providers (
    id integer PRIMARY KEY,
    name text NOT NULL UNIQUE,
    region text NOT NULL,
    country text NOT NULL,
    sector text NOT NULL,
    since_year integer NOT NULL
);
CREATE TABLE public.contracts (
    id integer PRIMARY KEY,
    provider_id integer NOT NULL REFERENCES public.providers (id),
    provider text NOT NULL REFERENCES public.providers (name),
    title text NOT NULL UNIQUE,
    amount integer NOT NULL CHECK (amount > 0),
    year integer NOT NULL,
    provider_region text NOT NULL,
    signed_on date NOT NULL,
    status text NOT NULL CHECK (status IN ('active', 'completed', 'terminated')),
    category text NOT NULL
);
CREATE TABLE public.payments (
    id integer PRIMARY KEY,
    contract_id integer NOT NULL REFERENCES public.contracts (id),
    provider text NOT NULL REFERENCES public.providers (name),
    amount integer NOT NULL CHECK (amount > 0),
    invoiced_on date NOT NULL,
    due_on date NOT NULL,
    paid_on date,
    days integer,
    status text NOT NULL CHECK (status IN ('paid', 'pending', 'overdue'))
);
CREATE INDEX contracts_year_region_amount ON public.contracts (year, provider_region, amount);
CREATE INDEX contracts_provider ON public.contracts (provider);
CREATE INDEX contracts_category_year ON public.contracts (category, year);
CREATE INDEX payments_contract ON public.payments (contract_id);
CREATE INDEX payments_provider ON public.payments (provider);
CREATE INDEX payments_status ON public.payments (status);
"""


COLUMNS = {
    "providers": ("id", "name", "region", "country", "sector", "since_year"),
    "contracts": (
        "id",
        "provider_id",
        "provider",
        "title",
        "amount",
        "year",
        "provider_region",
        "signed_on",
        "status",
        "category",
    ),
    "payments": (
        "id",
        "contract_id",
        "provider",
        "amount",
        "invoiced_on",
        "due_on",
        "paid_on",
        "days",
        "status",
    ),
}


def write_tables(company: Company, out: Path) -> None:
    """tables.sql, and one CSV file with a header line per table. An empty field is NULL."""
    (out / "tables.sql").write_text(DDL, encoding="utf-8")
    folder = out / "tables"
    folder.mkdir()
    _write_csv(folder, "providers", company.providers)
    _write_csv(folder, "contracts", company.contracts)
    _write_csv(folder, "payments", company.payments)


def _write_csv(folder: Path, table: str, rows: Iterable[object]) -> None:
    columns = COLUMNS[table]
    with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow(["" if (v := getattr(row, c)) is None else v for c in columns])
