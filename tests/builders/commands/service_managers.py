"""A service manager that starts programs and receives what they tell it, as systemd does."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 120.0
WATCHDOG_S = 4.0


class Service:
    """A program with a socket for its messages, and in a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes], receiver: socket.socket, log: Path) -> None:
        self.process = process
        self.messages: list[str] = []
        self._log = log
        self._receiver = receiver

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._log.read_text()

    def receive_until(self, is_met: Callable[[list[str]], bool]) -> None:
        """Receive messages until they meet a condition; it fails where the watchdog would have ended the service."""
        deadline = time.monotonic() + PATIENCE_S
        is_watched = "READY=1" in self.messages
        while not is_met(self.messages):
            wait_s = WATCHDOG_S if is_watched else deadline - time.monotonic()
            is_readable = bool(select.select([self._receiver], [], [], max(0.0, wait_s))[0])
            assert is_readable, f"no message for {wait_s:.1f} s after {self.messages}\n{self.output}"
            self.messages.append(self._receiver.recv(4096).decode())
            is_watched = is_watched or "READY=1" in self.messages
            assert time.monotonic() < deadline, (self.messages, self.output)

    def receive(self, message: str) -> None:
        """Receive messages until one is `message`, or begins with it."""
        self.receive_until(lambda found: found[-1:] != [] and found[-1].startswith(message))

    def receive_beats(self, number: int = 3) -> None:
        """Receive signs of life from now on."""
        until = self.messages.count("WATCHDOG=1") + number
        self.receive_until(lambda found: found.count("WATCHDOG=1") >= until)

    def stop(self, patience_s: float = 20.0) -> int:
        """Stop it by SIGTERM, receive what it still has to say, and return its exit code."""
        self.process.terminate()
        code = self.process.wait(patience_s)
        while select.select([self._receiver], [], [], 0)[0]:
            self.messages.append(self._receiver.recv(4096).decode())
        return code


@contextmanager
def service(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Start `rowtide` as a service; it is killed at the end of the block."""
    folder.mkdir(exist_ok=True)
    address, log = f"@rowtide-test-{os.getpid()}-{folder.name}", folder / "service.log"
    manager = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver, log.open("wb") as written:
        receiver.bind(f"\0{address[1:]}")
        process = subprocess.Popen(
            [sys.executable, "-m", "rowtide", *arguments],
            env={**os.environ, **manager, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            yield Service(process, receiver, log)
        finally:
            process.kill()
            process.wait()
