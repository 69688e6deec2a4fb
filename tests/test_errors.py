import pickle
import signal

from bench.errors import BenchError, ConfigError, EngineError, RecordError, Stopped


def test_message_has_what_why_and_remedy() -> None:
    error = ConfigError("load.users=0", "must be above 0", "set load.users=4")
    assert str(error) == "load.users=0: must be above 0; set load.users=4"
    assert (error.what, error.why, error.remedy) == (
        "load.users=0",
        "must be above 0",
        "set load.users=4",
    )


def test_an_error_can_be_built_from_its_message_alone() -> None:
    error = EngineError("engine", "died", "start it again")
    assert str(EngineError(str(error))) == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_exit_codes_never_collide_with_verdicts() -> None:
    kinds: list[type[BenchError]] = [BenchError, *BenchError.__subclasses__()]
    assert {RecordError, Stopped} < set(kinds)
    assert all(kind.exit_code >= 64 for kind in kinds)


def test_a_stopped_run_exits_as_its_signal_says() -> None:
    stopped = Stopped.by(signal.SIGINT, "r1")
    assert stopped.exit_code == 130
    assert str(stopped) == "run=r1: was stopped by SIGINT; start it again with bench run"
    assert Stopped.by(signal.SIGTERM, "r1").exit_code == 143
