"""The Makefile's choice of a Python: the first that can make a virtual environment."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")

WITHOUT_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexit 0\n'
WHOLE = "#!/bin/sh\nexit 0\n"


def choose(tmp_path: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    for name, script in pythons.items():
        path = tmp_path / name.replace("_", ".")
        path.write_text(script)
        path.chmod(0o755)
    (tmp_path / "echo").symlink_to("/bin/echo")
    assert MAKE is not None
    command = [MAKE, "-s", "-C", str(ROOT), "python"]
    return subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=30
    )


def test_one_that_cannot_make_an_environment_is_passed_over(tmp_path: Path) -> None:
    chosen = choose(tmp_path, python3_12=WITHOUT_VENV, python3_11=WHOLE, python3=WHOLE)
    assert chosen.returncode == 0
    assert chosen.stdout == "python3.11\n"


def test_none_is_one_sentence(tmp_path: Path) -> None:
    chosen = choose(tmp_path, python3_12=WITHOUT_VENV)
    assert chosen.returncode != 0
    assert "install python3 and python3-venv" in chosen.stdout
