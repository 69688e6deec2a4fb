"""The error tree. Every message is one sentence: what=value: why it cannot be; what to do.

    BenchError
    ├── ConfigError      a key, a value or a combination of values
    ├── ScenarioError    tasks, tools or corpus of a scenario
    ├── EngineError      the engine did not start, or died
    ├── ToolError        a tool's service did not start, or died
    ├── LoadError        Locust or the episode host failed
    ├── RecordError      records cannot be written or read
    ├── AnalysisError    records are there but do not allow the analysis
    └── Stopped          a signal ended the run; what was recorded is kept

The command line prints `str(error)` and exits with `error.exit_code`; a traceback is a defect.
"""

from __future__ import annotations

import signal


class BenchError(Exception):
    """An expected failure, told as `<what>: <why>; <remedy>`.

    `what` names the thing and its value (`load.users=0`), `why` says why it cannot be,
    `remedy` what the reader should do now.
    """

    exit_code = 64

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        # OmegaConf and pickle build an error anew from its whole message alone.
        super().__init__(f"{what}: {why}; {remedy}" if why else what)
        self.what = what
        self.why = why
        self.remedy = remedy


class ConfigError(BenchError):
    """A configuration key, value or combination that cannot be."""

    exit_code = 65


class ScenarioError(BenchError):
    """Tasks, tools or corpus of a scenario that cannot be used."""

    exit_code = 66


class EngineError(BenchError):
    """The engine did not become healthy, or died during the run."""

    exit_code = 69


class ToolError(BenchError):
    """A tool's service did not start, or died during the run."""

    exit_code = 69


class LoadError(BenchError):
    """Locust or the episode host failed."""

    exit_code = 70


class RecordError(BenchError):
    """Records that cannot be written (disk) or read back (format)."""

    exit_code = 74


class AnalysisError(BenchError):
    """Records that are readable but do not allow the analysis asked for."""

    exit_code = 67


class Stopped(BenchError):
    """SIGTERM or Ctrl-C: the run is sealed as incomplete and no further launch begins.

    `exit_code` becomes 128 + the signal's number, as shells have it: 143 SIGTERM, 130 SIGINT.
    """

    exit_code = 143

    @classmethod
    def by(cls, number: signal.Signals, run: str) -> Stopped:
        """The error of a run that this signal stopped."""
        error = cls(f"run={run}", f"was stopped by {number.name}", "start it again with bench run")
        error.exit_code = 128 + number
        return error
