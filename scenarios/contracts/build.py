"""Builds the material of the scenario from a seed: tables, texts, pages, tasks, selection items."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from .company import make_company
from .documents import make_documents, write_documents
from .lookups import World
from .pages import make_pages, write_pages
from .selection import make_selection
from .tables import write_tables
from .tasks import make_tasks, write_lines


def build(seed: int, out: Path) -> None:
    """Write all material of a seed into an existing, empty folder."""
    company = make_company(seed)
    documents, policy_facts = make_documents(company, seed)
    web = make_pages(company, seed)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    world = World(company, web, policy_facts, rng)
    tasks = make_tasks(world)
    write_tables(company, out)
    write_documents(documents, out)
    write_pages(web.pages, out)
    write_lines(tasks, out / "tasks.jsonl")
    write_lines(
        make_selection(world, {task["question"] for task in tasks}), out / "selection.jsonl"
    )


def main() -> None:
    """Read --seed and --out, then build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    build(chosen.seed, chosen.out)


if __name__ == "__main__":
    main()
