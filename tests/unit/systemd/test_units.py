"""The texts of unit files, and the files that they become."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rowtide.systemd.units import (
    AGENT,
    MONITOR,
    UnitOfOthers,
    UnitSettings,
    UnitsNotWritten,
    Written,
    default_folder,
    describe_units,
    write_units,
)

SYSTEM = UnitSettings(Path("/opt/rowtide/bin/rowtide"), Path("/etc/rowtide/rowtide.toml"), "rowtide")
OF_USER = UnitSettings(Path("/opt/rowtide/bin/rowtide"), Path("/home/ann/rowtide.toml"), None)


def test_a_database_names_the_agents_instance() -> None:
    lines = describe_units(SYSTEM)[AGENT].splitlines()

    assert "ExecStart=/opt/rowtide/bin/rowtide agent run --db %I" in lines
    assert "Environment=ROWTIDE_CONFIG=/etc/rowtide/rowtide.toml" in lines
    assert "RestartPreventExitStatus=64 78" in lines
    assert "User=rowtide" in lines


def test_a_users_manager_gets_no_user_and_no_sandbox() -> None:
    for text in describe_units(OF_USER).values():
        assert "User=" not in text
        assert "ProtectSystem" not in text
        assert "WantedBy=default.target" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("/opt/my tools/rowtide", '"/opt/my tools/rowtide"'),
        ("/opt/100%/rowtide", "/opt/100%%/rowtide"),
        ("/opt/$HOME/rowtide", "/opt/$$HOME/rowtide"),
        ('/opt/"q"/rowtide', '"/opt/\\"q\\"/rowtide"'),
    ],
)
def test_a_program_is_named_as_it_is(given: str, written: str) -> None:
    settings = UnitSettings(Path(given), SYSTEM.config, "rowtide")

    assert f"ExecStart={written} monitor serve" in describe_units(settings)[MONITOR].splitlines()


def test_folders_that_services_may_write_are_named() -> None:
    settings = UnitSettings(SYSTEM.program, SYSTEM.config, "rowtide", writable=(Path("/data/a lake"), Path("/log")))

    lines = describe_units(settings)[AGENT].splitlines()

    assert [line for line in lines if line.startswith("ReadWritePaths")] == [
        'ReadWritePaths=-"/data/a lake"',
        "ReadWritePaths=-/log",
    ]


def test_files_are_written_once_and_readable(tmp_path: Path) -> None:
    folder, units = tmp_path / "new" / "system", describe_units(SYSTEM)
    before = os.umask(0o077)
    try:
        first = write_units(units, folder)
    finally:
        os.umask(before)

    assert set(first.values()) == {Written.NEW}
    assert {stat.S_IMODE(path.stat().st_mode) for path in first} == {0o644}
    assert {path.name: path.read_text() for path in folder.iterdir()} == dict(units)
    assert set(write_units(units, folder).values()) == {Written.UNCHANGED}


def test_files_of_an_earlier_version_are_replaced(tmp_path: Path) -> None:
    write_units(describe_units(SYSTEM), tmp_path)

    moved = describe_units(UnitSettings(Path("/usr/bin/rowtide"), SYSTEM.config, "rowtide"))

    assert set(write_units(moved, tmp_path).values()) == {Written.REPLACED}
    assert (tmp_path / MONITOR).read_text() == moved[MONITOR]


def test_a_unit_of_others_stays_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / MONITOR).write_text("[Service]\nExecStart=/bin/true\n")

    with pytest.raises(UnitOfOthers, match=r"rowtide-monitor\.service exists, and `rowtide install-units` has not"):
        write_units(describe_units(SYSTEM), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [MONITOR]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UnitsNotWritten, match="Not a directory"):
        write_units(describe_units(SYSTEM), tmp_path / "file" / "system")


@pytest.mark.parametrize(
    ("environment", "for_user", "folder"),
    [
        ({}, False, "/etc/systemd/system"),
        ({"XDG_CONFIG_HOME": "/conf"}, True, "/conf/systemd/user"),
        ({"XDG_CONFIG_HOME": "/conf"}, False, "/etc/systemd/system"),
    ],
)
def test_units_are_where_systemd_looks(environment: dict[str, str], *, for_user: bool, folder: str) -> None:
    assert default_folder(environment, for_user=for_user) == Path(folder)
