import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.errors import RecordError
from bench.record import EpisodeRecord, LLMOutcome, ScheduledRecord
from bench.run import (
    Appender,
    Started,
    ToolAddresses,
    find_runs,
    new_run_directory,
    open_run,
    read_run,
    seal_run,
    write_atomically,
    write_started,
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


@pytest.mark.parametrize("change", ["edited", "removed", "added", "appended"])
def test_records_that_are_not_those_sealed_make_the_run_incomplete(
    tmp_path: Path, change: str
) -> None:
    directory = written(tmp_path / "a", 3, 3)
    seal_run(directory, "complete")
    path = directory / "episodes-0.jsonl"
    match change:
        case "edited":
            path.write_bytes(path.read_bytes().replace(b'"user":0', b'"user":1'))
        case "removed":
            path.unlink()
        case "added":
            path = directory / "episodes-1.jsonl"
            path.write_bytes((directory / "episodes-0.jsonl").read_bytes())
        case _:
            path.write_bytes(path.read_bytes() + msgspec.json.encode(ended(3)) + b"\n")
    run = read_run(directory)
    assert not run.complete
    assert run.incomplete_reason == f"its records differ from the manifest: {path.name}"


def test_a_lost_episode_makes_the_run_incomplete(tmp_path: Path) -> None:
    manifest = seal_run(written(tmp_path / "a", 3, 2), "complete")
    assert manifest.status == "incomplete"
    assert manifest.reason.startswith("3 episodes were scheduled and 2 recorded; the first")
    assert "episode 2 of user 0 at u1: scheduled 1 times, recorded 0 times" in manifest.reason


def test_equal_numbers_of_other_episodes_are_no_complete_run(tmp_path: Path) -> None:
    directory = written(tmp_path / "a", 2, 0)
    episodes = Appender[EpisodeRecord](directory / "episodes-0.jsonl")
    for _ in range(2):
        episodes.append(ended(0))
    episodes.close()
    manifest = seal_run(directory, "complete")
    assert (manifest.scheduled, manifest.episodes) == (2, 2)
    assert manifest.status == "incomplete"
    assert "episode 0 of user 0 at u1: scheduled 1 times, recorded 2 times" in manifest.reason


def test_what_answers_is_told_after_the_start(tmp_path: Path) -> None:
    open_run(tmp_path / "a", FACTS)
    assert read_run(tmp_path / "a").facts == FACTS, "readable before anything has started"
    endpoint = msgspec.structs.replace(FACTS.endpoint, base_url="http://y/v1", version="1")
    tools = ToolAddresses(web_url="http://z")
    write_started(tmp_path / "a", Started(endpoint=endpoint, tools=tools))
    facts = read_run(tmp_path / "a").facts
    assert (facts.endpoint, facts.tools) == (endpoint, tools)
    assert facts.scenario == FACTS.scenario


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a file's size as Linux has them")
def test_half_a_line_is_taken_back_and_nothing_follows(tmp_path: Path) -> None:
    """In a child: the limit makes the kernel write the part that fits, as a full disk does."""
    directory = written(tmp_path / "a", 1, 1)
    path = directory / "episodes-0.jsonl"
    whole = path.read_bytes()
    child = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from bench.errors import RecordError; from bench.run import Appender\n"
        "from makers import make_episode\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"episodes = Appender(Path({str(path)!r}))\n"
        f"limit = {len(whole) + 20}\n"
        "for size in (limit, resource.RLIM_INFINITY):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
        "    try:\n"
        "        episodes.append(make_episode(episode=1))\n"
        "    except RecordError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", child],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("cannot be written") == 2, "once failed, it takes nothing more"
    assert path.read_bytes() == whole
    assert len(read_run(directory).episodes) == 1


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
