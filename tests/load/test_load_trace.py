"""Traces: CSV with the Azure columns, JSONL of our own; what is wrong is told with its line."""

from pathlib import Path

import pytest

from bench.errors import ScenarioError
from bench.load.trace import Arrival, played, read_trace

AZURE = Path(__file__).parents[3] / "shared" / "data" / "AzureLLMInferenceTrace_conv.csv"


def write(tmp_path: Path, name: str, *lines: str) -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_csv_starts_with_its_first_stamp_and_is_sorted(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 23:59:59.9000000,374,44",
        "2023-11-17 00:00:01.4000000,396,109",
        "2023-11-17 00:00:00.1500000,879,55",
    )
    assert [arrival.at_s for arrival in read_trace(path)] == pytest.approx([0.0, 0.25, 1.5])


def test_jsonl_keeps_its_times_and_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"at_s": 3, "task": "t1", "note": 1}', "", '{"at_s": 0.5}')
    assert read_trace(path) == [Arrival(0.5), Arrival(3.0, "t1")]


def test_speed_and_length() -> None:
    arrivals = [Arrival(at_s) for at_s in (0.0, 2.0, 4.0, 6.0)]
    assert [a.at_s for a in played(arrivals, 2.0, 3.0)] == [0.0, 1.0, 2.0]
    assert [a.at_s for a in played(arrivals, 0.5, 8.5)] == [0.0, 4.0, 8.0]


@pytest.mark.skipif(not AZURE.exists(), reason="../shared/data is not present")
def test_the_azure_trace() -> None:
    arrivals = read_trace(AZURE)
    assert len(arrivals) == 19366
    assert arrivals[1].at_s == pytest.approx(4.314579)
    assert arrivals[-1].at_s == pytest.approx(3501.72, abs=0.01)


@pytest.mark.parametrize(
    ("name", "lines", "sentence"),
    [
        ("a.csv", ["when,what", "1,2"], "has no column TIMESTAMP"),
        ("a.csv", ["TIMESTAMP", "yesterday"], "a.csv:2: TIMESTAMP is no time"),
        ("a.csv", ["TIMESTAMP"], "holds no arrival"),
        ("a.csv", ["TIMESTAMP", "2024-05-10 00:00:00+00:00", "2024-05-10"], "time zone"),
        ("a.jsonl", ['{"at_s": 1}', '{"at": 1}'], "a.jsonl:2: is no arrival"),
        ("a.jsonl", ['{"at_s": -1}'], "before the start"),
        ("a.jsonl", [""], "holds no arrival"),
    ],
)
def test_a_wrong_file_is_one_sentence(
    name: str, lines: list[str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=sentence) as raised:
        read_trace(write(tmp_path, name, *lines))
    assert "\n" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"load\.traces=.*cannot be read"):
        read_trace(tmp_path / "none.csv")
