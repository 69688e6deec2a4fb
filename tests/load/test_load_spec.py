"""The specs of the two processes survive their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import LoadError
from bench.load.spec import HostSpec, LoadSpec, point_spec, read_spec, write_spec


def test_both_specs_are_read_back_as_written(spec: HostSpec, tmp_path: Path) -> None:
    write_spec(tmp_path / "host.json", spec)
    assert read_spec(tmp_path / "host.json", HostSpec) == spec
    load_spec = point_spec(spec, "u3", 3)
    write_spec(tmp_path / "load.json", load_spec)
    assert read_spec(tmp_path / "load.json", LoadSpec) == load_spec
    assert (load_spec.users, load_spec.stagger_s, load_spec.point) == (3, 0.3, "u3")


def test_no_secret_is_written(spec: HostSpec, tmp_path: Path) -> None:
    write_spec(tmp_path / "host.json", spec)
    assert "sesame" not in (tmp_path / "host.json").read_text()


def test_a_file_of_another_kind_is_told(spec: HostSpec, tmp_path: Path) -> None:
    write_spec(tmp_path / "load.json", point_spec(spec, "u3", 3))
    with pytest.raises(LoadError, match="is no HostSpec"):
        read_spec(tmp_path / "load.json", HostSpec)
    with pytest.raises(LoadError, match="No such file"):
        read_spec(tmp_path / "none.json", LoadSpec)
