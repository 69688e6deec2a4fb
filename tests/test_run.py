from pathlib import Path

import msgspec
import pytest

from bench.errors import RecordError
from bench.record import EpisodeRecord, LLMOutcome, ScheduledRecord
from bench.run import (
    Appender,
    find_runs,
    new_run_directory,
    open_run,
    read_run,
    seal_run,
    write_atomically,
)
from makers import make_call, make_episode, make_facts, make_run

FACTS = make_facts()


def scheduled(episode: int) -> ScheduledRecord:
    return ScheduledRecord(point="u1", user=0, episode=episode, scheduled_ns=episode)


def ended(episode: int) -> EpisodeRecord:
    return make_episode(episode=episode, scheduled_ns=episode)


def written(directory: Path, asked: int, done: int) -> Path:
    open_run(directory, FACTS)
    write_atomically(directory / "material" / "tools.json", b"[]")
    orders = Appender[ScheduledRecord](directory / "scheduled-0.jsonl")
    episodes = Appender[EpisodeRecord](directory / "episodes-0.jsonl")
    for number in range(asked):
        orders.append(scheduled(number))
    for number in range(done):
        episodes.append(ended(number))
    orders.close()
    episodes.close()
    return directory


def test_a_run_is_opened_once(tmp_path: Path) -> None:
    open_run(tmp_path / "a", FACTS)
    with pytest.raises(RecordError, match="holds a run already"):
        open_run(tmp_path / "a", FACTS)


def test_a_sealed_run_is_read_back(tmp_path: Path) -> None:
    directory = written(tmp_path / "a", 3, 3)
    manifest = seal_run(directory, "complete")
    run = read_run(directory)
    assert run.complete
    assert run.facts == FACTS
    assert [order.episode for order in run.scheduled] == [0, 1, 2]
    assert run.episodes == [ended(0), ended(1), ended(2)]
    assert manifest.scheduled == manifest.episodes == 3
    assert manifest.files["episodes-0.jsonl"].lines == 3


def test_a_lost_episode_makes_the_run_incomplete(tmp_path: Path) -> None:
    manifest = seal_run(written(tmp_path / "a", 3, 2), "complete")
    assert manifest.status == "incomplete"
    assert manifest.reason == "3 episodes were scheduled and 2 recorded"


def test_a_killed_run_is_readable_up_to_the_torn_line(tmp_path: Path) -> None:
    directory = written(tmp_path / "a", 2, 2)
    with (directory / "episodes-0.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(ended(2))[:20])
    run = read_run(directory)
    assert not run.complete
    assert run.incomplete_reason == "the run was killed before it was sealed"
    assert (len(run.episodes), run.torn) == (2, 1)


def test_a_damaged_record_in_the_middle_is_named(tmp_path: Path) -> None:
    directory = written(tmp_path / "a", 1, 1)
    path = directory / "episodes-0.jsonl"
    path.write_bytes(b"{broken}\n" + path.read_bytes())
    with pytest.raises(RecordError, match=r"episodes-0.jsonl:1: cannot be read"):
        read_run(directory)


def test_runs_of_a_campaign_are_found_in_order(tmp_path: Path) -> None:
    for name in ("10", "1", "0"):
        written(tmp_path / name, 1, 1)
    (tmp_path / "analysis").mkdir()
    (tmp_path / "2").mkdir()  # it has lost its run.json
    assert [path.name for path in find_runs(tmp_path)] == ["0", "1", "2", "10"]
    assert find_runs(tmp_path / "1") == [tmp_path / "1"]
    with pytest.raises(RecordError, match=r"is no directory"):
        find_runs(tmp_path / "nowhere")
    with pytest.raises(RecordError, match=r"is no directory"):
        find_runs(tmp_path / "1" / "run.json")
    with pytest.raises(RecordError, match=r"holds no run.json"):
        find_runs(tmp_path / "analysis")


@pytest.mark.parametrize("parts", [("",), ("0", "1")])
def test_a_folder_of_several_runs_is_no_campaign(parts: tuple[str, ...], tmp_path: Path) -> None:
    for run in ("20261201T000000Z-aaaaaa", "20261202T000000Z-bbbbbb"):
        for part in parts:
            written(tmp_path / run / part, 1, 1)
    with pytest.raises(RecordError, match=r"holds 2.*; name one run, e.g. .*-bbbbbb"):
        find_runs(tmp_path)


def test_a_run_that_lost_its_material_is_incomplete(tmp_path: Path) -> None:
    directory = written(tmp_path, 1, 1)
    seal_run(directory, "complete")
    assert read_run(directory).complete
    (directory / "material" / "tools.json").unlink()
    run = read_run(directory)
    assert not run.complete
    assert run.incomplete_reason.startswith("its material/ is missing")


def test_a_full_disk_is_one_sentence() -> None:
    full = Appender[EpisodeRecord](Path("/dev/full"))
    with pytest.raises(RecordError, match=r"No space left on device.*free disk"):
        full.append(ended(0))
    full.close()


def test_a_derived_file_that_cannot_be_written_leaves_no_half(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(RecordError, match="cannot be written"):
        write_atomically(blocked / "report.html", b"x")
    write_atomically(tmp_path / "analysis" / "a.json", b"{}")
    assert [path.name for path in (tmp_path / "analysis").iterdir()] == ["a.json"]


def test_directories_of_two_runs_never_collide(tmp_path: Path) -> None:
    names = {new_run_directory(tmp_path, "demo") for _ in range(50)}
    assert len(names) == 50


def test_a_run_is_served_when_one_call_succeeded() -> None:
    refused = make_call(outcome=LLMOutcome.transport_error, error="HTTP 401")
    facts = make_facts()
    assert not make_run(facts, []).served
    assert not make_run(facts, [], llm=[refused]).served
    assert make_run(facts, [], llm=[refused, make_call()]).served
