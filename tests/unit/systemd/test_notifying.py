"""Messages to a service manager, received from a socket as systemd's."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowtide.systemd.notifying import ServiceManager


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
