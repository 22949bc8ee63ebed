"""Messages to a service manager, received from a socket as systemd's."""

from __future__ import annotations

import logging
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowtide.systemd import (
    AGENT,
    MONITOR,
    ServiceManager,
    UnitOfOthers,
    UnitSettings,
    UnitsNotWritten,
    Written,
    default_folder,
    describe_units,
    write_units,
)


@pytest.fixture(params=["a path", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    name = f"rowtide-{tmp_path.name}" if request.param == "an abstract name" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}" if request.param == "an abstract name" else name)
        receiver.settimeout(5)
        yield receiver, f"@{name}" if request.param == "an abstract name" else name


def test_messages_arrive_one_by_one(manager: tuple[socket.socket, str]) -> None:
    receiver, address = manager
    sender = ServiceManager.from_environment({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "120000000"}, 7)

    sender.beat()
    sender.beat()
    sender.report_status("capture:\nstarted")
    sender.report_status("x" * 1_000)
    sender.report_stopping()

    received = [receiver.recv(4096).decode() for _ in range(5)]
    assert received == ["READY=1", "WATCHDOG=1", "STATUS=capture: started", f"STATUS={'x' * 200}", "STOPPING=1"]
    assert sender.watchdog_s == 120.0


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "7"}, 5.0),
    ],
)
def test_a_watchdog_is_expected_of_its_process(environment: dict[str, str], watchdog_s: float | None) -> None:
    assert ServiceManager.from_environment(environment, 7).watchdog_s == watchdog_s


def test_a_manager_that_is_gone_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager(str(tmp_path / "gone")).beat()

    assert "service_manager_not_told" in caplog.text


def test_a_manager_that_receives_nothing_holds_nobody_up(manager: tuple[socket.socket, str]) -> None:
    receiver, address = manager
    sender = ServiceManager(address)
    before = time.monotonic()
    sent = 0
    while sender._send("STATUS=" + "x" * 1_000):
        sent += 1
    sender.beat()
    assert time.monotonic() - before < 5
    for _ in range(sent):
        receiver.recv(4096)

    sender.beat()
    sender.beat()

    # What was not received is told again.
    assert [receiver.recv(4096) for _ in range(2)] == [b"READY=1", b"WATCHDOG=1"]


def test_without_a_manager_nothing_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager().beat()

    assert not caplog.records


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
