"""`rowtide agent run` in a process, with what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE_S = 120.0


def is_running(pid: int | str) -> bool:
    """Return whether a process has not ended; one that nobody has waited for has."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


class RunningAgent:
    """The process, killed at the end of the block; it has no controlling terminal."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rowtide", "agent", "run", *arguments],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> RunningAgent:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()

    @property
    def output(self) -> str:
        """What it has printed."""
        return "".join(self._lines)

    def pid_of(self, name: str) -> int:
        """Return the last process of a task."""
        return int(re.findall(rf"^{name}: started, process (\d+)$", self.output, re.MULTILINE)[-1])

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until something is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, self.output
            assert self.process.poll() is None, self.output
            time.sleep(0.1)

    def wait_for_output(self, text: str) -> None:
        """Wait until it has printed a text."""
        self.wait_for(lambda: text in self.output)

    def stop(self) -> int:
        """Stop it by SIGTERM, and return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            self._lines.extend(stderr)
