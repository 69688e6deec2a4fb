"""Machine facts are there and make JSON."""

import msgspec

from bench.engine.machine import machine_facts, versions


def test_facts() -> None:
    facts = machine_facts()
    assert facts["cores_logical"] >= 1
    assert facts["memory_gib"] > 0
    assert facts["os"]
    assert msgspec.json.decode(msgspec.json.encode(facts)) == facts


def test_versions_name_what_is_installed_and_nothing_else() -> None:
    found = versions()
    assert {"python", "msgspec", "httpx"} <= set(found)
    assert all(found.values())
