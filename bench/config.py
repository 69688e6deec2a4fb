"""Hydra's one doorway: registers the schema, turns words into a Scenario, errors into sentences."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench.errors import BenchError, ConfigError, Stopped
from bench.run import new_run_directory
from bench.scenario import Scenario

CONF = Path(__file__).resolve().parents[1] / "conf"
OPTIONS = ("-m", "--multirun")
Job = Callable[[Scenario, Path], None]


def run_words(words: list[str], job: Job) -> tuple[Path, list[BenchError]]:
    """Compose the words with Hydra and call `job(scenario, directory)` for each launch.

    Returns the directory of the run, or of the campaign when the scenario sweeps, and the errors
    of the launches that failed: in a sweep the remaining launches are still run.
    Raises ConfigError for words that do not compose.
    """
    _check_words(words)
    ConfigStore.instance().store(name="schema", node=Scenario)
    stamp = new_run_directory(Path(), "").name  # one for all launches of a campaign
    OmegaConf.register_new_resolver("stamp", lambda: stamp, replace=True)
    directories: list[Path] = []
    failures: list[BenchError] = []

    def launch(config: DictConfig) -> None:
        settings = HydraConfig.get()
        swept = settings.mode is not None and settings.mode.name == "MULTIRUN"
        directories.append(Path(settings.sweep.dir if swept else settings.run.dir))
        if any(isinstance(failure, Stopped | ConfigError) for failure in failures):
            return
        try:
            job(to_scenario(config), Path(settings.runtime.output_dir))
        except BenchError as error:  # kept, because Hydra would print its own account of it
            failures.append(error)

    decorated = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(launch)
    argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["bench run", *words]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise instead of printing and leaving
    try:
        decorated()
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error) from error
    except OSError as error:  # Hydra makes the run's directory
        raise ConfigError(
            f"results={error.filename or ''}",
            f"cannot be made ({error.strerror})",
            "set results=DIR to a directory that can be written",
        ) from error
    finally:
        for directory in directories:
            _remove_empty(directory)
        sys.argv = argv
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
    for failure in failures:
        if isinstance(failure, ConfigError):
            raise failure
    return directories[0] if directories else Path(), failures  # none: Hydra only showed something


def _check_words(words: list[str]) -> None:
    """Refuse what Hydra would answer by leaving, or by putting the run where nobody looks."""
    for word in words:
        key = word.partition("=")[0].lstrip("+~")
        if word.startswith("-") and word not in OPTIONS:
            raise BenchError(
                f"option={word}", "is no option of bench run", f"use KEY=VALUE or {OPTIONS[0]}"
            )
        if key == "hydra" or key.startswith(("hydra.", "hydra/", "hydra@")):
            raise ConfigError(
                word, "a run's place and its launcher are not Hydra's here", "set results=DIR"
            )


def _remove_empty(directory: Path) -> None:
    """Hydra makes the directory before the job is asked; a job that wrote nothing leaves none."""
    (directory / "multirun.yaml").unlink(missing_ok=True)  # each launch's run.json says it all
    for path in [*sorted(directory.glob("*")), directory, directory.parent]:
        with contextlib.suppress(OSError):  # not empty, or not a directory: it stays
            path.rmdir()


def to_scenario(config: DictConfig) -> Scenario:
    """A composed config as a Scenario, every part checked.

    Raises ConfigError naming every missing value (`???`) or the first that cannot be.
    """
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(
            f"{missing[0]}=???",
            f"must be given ({', '.join(missing)})",
            f"add {' '.join(f'{key}=VALUE' for key in missing)}",
        )
    try:
        scenario = OmegaConf.to_object(config)
    except ConfigError as error:
        raise ConfigError(str(error).splitlines()[0]) from error  # OmegaConf adds lines of its own
    if not isinstance(scenario, Scenario):
        raise ConfigError("config.yaml", "does not start from the schema", "restore `- schema`")
    if not scenario.slo.objectives:
        raise ConfigError(
            "slo.objectives=[]",
            "nothing would be judged, and nothing is not passed",
            "name at least one, as conf/slo/agent.yaml does",
        )
    return scenario


def explain(error: Exception) -> BenchError:
    """Hydra's or OmegaConf's complaint as one sentence with the nearest valid key."""
    text = str(error)
    if match := re.search(r"Key '([^']+)' (?:is not in struct|not in '\w+')", text):
        full = re.search(r"full_key: (\S+)", text)
        return _unknown_key(full.group(1) if full else match.group(1))
    if match := re.search(r"[Cc]ould not find '([^']+)'", text):
        return _unknown_choice(match.group(1))
    if match := re.search(r"Could not override '([^']+)'", text):
        entries, inner = _entries(Scenario, ""), re.match(r"Key '([^']+)'", str(error.__cause__))
        if inner and match.group(1) in entries:  # a key of an entry of a list
            names = ", ".join(entries[match.group(1)])
            return ConfigError(f"{match.group(1)}.{inner.group(1)}", "is no key", f"use {names}")
        return _unknown_key(match.group(1))
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return ConfigError(
            match.group(1),
            "names several values, and this scenario is one launch",
            "put -m before the words to run each value as a launch of its own",
        )
    if match := re.search(r"Error merging override (\S+)", text):
        reason = str(error.__cause__ or "has a value of another type").splitlines()[0]
        return ConfigError(match.group(1), reason, "give it a value of its type, as in conf/")
    first = text.strip().splitlines()[0]
    return ConfigError("words", first, "write group=CHOICE or key=value, as in README.md")


def _unknown_key(key: str) -> ConfigError:
    keys = list(_keys(Scenario, ""))
    nearest = difflib.get_close_matches(key, keys, n=1, cutoff=0.0)
    tail = [known for known in keys if known.rpartition(".")[2] == key.rpartition(".")[2]]
    suggestion = (tail or nearest)[0]
    return ConfigError(key, "is no key", f"did you mean {suggestion}? (all keys are in conf/)")


def _unknown_choice(choice: str) -> ConfigError:
    group, _, name = choice.rpartition("/")
    files = sorted(path.stem for path in (CONF / group).glob("*.yaml")) if group else []
    if not files:
        return _unknown_key(choice)
    nearest = difflib.get_close_matches(name, files, n=1, cutoff=0.0)[0]
    return ConfigError(
        f"{group}={name}",
        "is no choice",
        f"did you mean {group}={nearest}? (choices: {', '.join(files)})",
    )


def _keys(kind: Any, prefix: str) -> list[str]:
    keys: list[str] = []
    hints = typing.get_type_hints(kind)
    for part in dataclasses.fields(kind):
        keys.append(prefix + part.name)
        if dataclasses.is_dataclass(hints[part.name]):
            keys += _keys(hints[part.name], f"{prefix}{part.name}.")
    return keys


def _entries(kind: Any, prefix: str) -> dict[str, list[str]]:
    """The lists of parts, and the keys of one entry of each."""
    found: dict[str, list[str]] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            found |= _entries(hint, f"{prefix}{name}.")
        for entry in typing.get_args(hint):
            if dataclasses.is_dataclass(entry):
                found[prefix + name] = [part.name for part in dataclasses.fields(entry)]
    return found
