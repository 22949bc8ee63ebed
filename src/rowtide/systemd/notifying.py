"""What a service reports to systemd: that it runs, what it does, and that it lives (sd_notify(3))."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping

log = logging.getLogger("rowtide.systemd")

_ADDRESS = "NOTIFY_SOCKET"
_WATCHDOG_US, _WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"
MANAGERS_VARIABLES = (_ADDRESS, _WATCHDOG_US, _WATCHDOG_PID)
"""Variables for the process that the manager has started, and none of those that it starts."""
_MOST_STATUS = 200
_LONGEST_PAUSE_S = 10.0


class ServiceManager:
    """The manager that started this process, if one did: without it, nothing is sent."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = address
        self._is_ready = False
        self.watchdog_s = watchdog_s
        """The time in which it expects a sign of life; None: it expects none."""

    @property
    def is_there(self) -> bool:
        """Whether a manager started this process."""
        return bool(self._address)

    @property
    def pause_s(self) -> float:
        """The longest pause between two signs of life."""
        return _LONGEST_PAUSE_S if self.watchdog_s is None else min(_LONGEST_PAUSE_S, self.watchdog_s / 2)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], pid: int) -> ServiceManager:
        """Return what the variables of sd_notify(3) and sd_watchdog_enabled(3) say to the process with a pid."""
        interval = environment.get(_WATCHDOG_US, "")
        is_meant = environment.get(_WATCHDOG_PID, str(pid)) == str(pid)
        watchdog_s = int(interval) / 1e6 if is_meant and interval.isdecimal() and int(interval) else None
        return cls(environment.get(_ADDRESS, ""), watchdog_s)

    def beat(self) -> None:
        """Report a sign of life: at first that the service runs, or waits as a standby."""
        if self._send("WATCHDOG=1" if self._is_ready else "READY=1"):
            self._is_ready = True

    def report_status(self, status: str) -> None:
        """Report what the service does, as `systemctl status` shows it."""
        self._send(f"STATUS={_one_line(status)}")

    def report_stopping(self) -> None:
        """Report that the service ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> bool:
        """Send a message, unless the manager does not receive; return whether it was sent."""
        if not self._address:
            return False
        # An abstract address begins with @ in the variable, and with a zero byte for the kernel.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                # A manager whose queue is full is not waited for: the next sign of life comes soon.
                sender.settimeout(0)
                sender.connect(address)
                sender.sendall(message.encode())
        except OSError as error:
            # The service works on; a manager that waits for it restarts it.
            log.warning("service_manager_not_told: %s", error)
            return False
        return True


NO_MANAGER = ServiceManager()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_STATUS]
