"""The unstructured side: documents.jsonl for the vector store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .clauses import SPECIALS, TOPICS
from .company import Company, Contract, Provider
from .policies import POLICIES


@dataclass(frozen=True)
class Document:
    """One chunk of 60 to 120 words; `id` counts from 1."""

    id: int
    text: str
    payload: dict[str, Any]


def make_documents(company: Company, seed: int) -> tuple[list[Document], dict[str, str]]:
    """All chunks, and the fact of each policy by its key."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    chunks: list[tuple[str, dict[str, Any]]] = []
    for provider in company.providers:
        chunks += [_clause(rng, provider, key) for key in TOPICS]
    chunks += [_special(company, contract) for contract in company.documented]
    facts: dict[str, str] = {}
    for key, policy in POLICIES.items():
        facts[key] = f"{rng.choice(policy.values)}{policy.unit}"
        text = f"{policy.first.format(v=facts[key])} {policy.body}"
        chunks.append((f"{policy.title}. {text}", {"kind": "policy", "title": policy.title}))
    documents = [
        Document(number, text, payload) for number, (text, payload) in enumerate(chunks, start=1)
    ]
    return documents, facts


def _clause(rng: np.random.Generator, provider: Provider, key: str) -> tuple[str, dict[str, Any]]:
    topic, terms = TOPICS[key], provider.terms
    slots = {
        "p": provider.name,
        "v": topic.fact(terms),
        "cap": terms.penalty_cap_percent,
        "index": terms.revision_index,
    }
    first = str(rng.choice(topic.first)).format(**slots)
    order = rng.permutation(len(topic.body)).tolist()
    body = " ".join(topic.body[place].format(**slots) for place in order)
    return f"{first} {body}", {
        "kind": "framework_clause",
        "provider_id": provider.id,
        "provider": provider.name,
        "clause": topic.clause,
        "topic": topic.title,
    }


def _special(company: Company, contract: Contract) -> tuple[str, dict[str, Any]]:
    special, provider = SPECIALS[contract.special], company.provider(contract.provider_id)
    slots = {"t": contract.title, "p": provider.name, "v": special.fact(contract)}
    details = (
        f"{contract.title} has number {contract.id}; it was signed on {contract.signed_on} over "
        f"{contract.amount} euros. Everything else in {contract.title} follows the standard terms."
    )
    text = " ".join(
        [special.first.format(**slots), *(b.format(**slots) for b in special.body), details]
    )
    return text, {
        "kind": "special_condition",
        "contract_id": contract.id,
        "provider_id": provider.id,
        "provider": provider.name,
        "title": contract.title,
    }


def write_documents(documents: list[Document], out: Path) -> None:
    """documents.jsonl: id, text and payload, a line each."""
    lines = (
        json.dumps({"id": document.id, "text": document.text, "payload": document.payload})
        for document in documents
    )
    (out / "documents.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
