"""`rowtide cdc run` as a process, with failpoints that a test arms while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from builders.captured_databases import wait_until


class CaptureProcess:
    """The command, from start to whatever ends it; what it prints goes to `log`."""

    def __init__(self, url: str, directory: Path) -> None:
        self._failpoints = directory / "failpoints"
        self._failpoints.mkdir(exist_ok=True)
        self.log = directory / "capture.log"
        environment = {**os.environ, "ROWTIDE_DB": url, "ROWTIDE_FAILPOINTS": str(self._failpoints)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rowtide", "cdc", "run"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def arm(self, failpoint: str) -> None:
        """Kill the process, or its log reader, at the next passage of a failpoint; return when that has happened."""
        place = self._failpoints / failpoint
        place.touch()
        wait_until(lambda: not place.exists(), what=f"a passage of {failpoint}")

    def wait_killed(self) -> None:
        """Wait until SIGKILL has ended the process."""
        assert self.process.wait(60) == -9

    def require_alive(self) -> None:
        assert self.process.poll() is None, self.log.read_text()

    def terminate(self) -> int:
        """Ask it to stop; return its exit code."""
        self.process.terminate()
        return self.process.wait(60)

    def __enter__(self) -> CaptureProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
