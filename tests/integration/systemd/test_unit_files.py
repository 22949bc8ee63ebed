"""Unit files as systemd reads them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rowtide.systemd import AGENT, MONITOR, UnitSettings, describe_units, write_units

_MOST_EXPOSED = 2.0
"""Of ten, as `systemd-analyze security` counts; above two it says more than OK."""
_ANALYSE = shutil.which("systemd-analyze") or Path(__file__).parents[3] / ".venv" / "systemd" / "systemd-analyze"
"""Where `scripts/fetch-systemd` puts it."""


def _analyse(*arguments: str | Path, runtime: Path = Path()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "XDG_RUNTIME_DIR": str(runtime)}
    return subprocess.run([_ANALYSE, *arguments], capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(params=["the system's", "a user's"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> UnitSettings:
    program = tmp_path / "my tools" / "rowtide"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    user = "root" if request.param == "the system's" else None
    return UnitSettings(program, Path("/etc/rowtide/rowtide.toml"), user, writable=(tmp_path / "a lake",))


def test_systemd_finds_no_fault(settings: UnitSettings, tmp_path: Path) -> None:
    written = write_units(describe_units(settings), tmp_path / "units")

    verified = _analyse("verify", *([] if settings.is_of_system else ["--user"]), *written, runtime=tmp_path)

    assert verified.stderr == ""
    assert verified.returncode == 0


@pytest.mark.parametrize("name", [AGENT, MONITOR])
def test_services_of_the_system_are_confined(name: str, tmp_path: Path) -> None:
    settings = UnitSettings(Path("/bin/true"), Path("/etc/rowtide/rowtide.toml"), "rowtide")
    write_units(describe_units(settings), tmp_path)

    found = _analyse("security", "--offline=true", "--no-pager", tmp_path / name)

    exposure = re.search(r"exposure level for \S+ ([\d.]+)", found.stdout)
    assert exposure is not None, found.stderr
    assert float(exposure[1]) <= _MOST_EXPOSED
