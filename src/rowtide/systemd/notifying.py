"""What a service tells systemd: that it runs, what it does, and that it lives (sd_notify(3))."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping

log = logging.getLogger("rowtide.systemd")

_ADDRESS = "NOTIFY_SOCKET"
_WATCHDOG_US, _WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"
_MOST_STATUS = 200


class ServiceManager:
    """The manager that started this process, if one did: without it, nothing is sent."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        """The time in which it expects a sign of life; None: it expects none."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], pid: int) -> ServiceManager:
        """Return what the variables of sd_notify(3) and sd_watchdog_enabled(3) say to the process with a pid."""
        interval = environment.get(_WATCHDOG_US, "")
        is_meant = environment.get(_WATCHDOG_PID, str(pid)) == str(pid)
        watchdog_s = int(interval) / 1e6 if is_meant and interval.isdecimal() and int(interval) else None
        return cls(environment.get(_ADDRESS, ""), watchdog_s)

    def report_ready(self, status: str) -> None:
        """Report that the service runs, or waits as a standby; again is harmless."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def report_status(self, status: str) -> None:
        """Report what the service does, as `systemctl status` shows it."""
        self._send(f"STATUS={_one_line(status)}")

    def report_alive(self) -> None:
        """Report a sign of life."""
        self._send("WATCHDOG=1")

    def report_stopping(self) -> None:
        """Report that the service ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # An abstract address begins with @ in the variable, and with a zero byte for the kernel.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(address)
                sender.sendall(message.encode())
        except OSError as error:
            # The service works on; a manager that waits for it restarts it.
            log.warning("service_manager_not_told: %s", error)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_STATUS]
