"""`rowtide cdc run`, `agent run` and `replication run` as processes, with failpoints that a test arms while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType

from builders.capture.captured_databases import LoggedDatabase, wait_until

LOG_READER, JVM = "rowtide.agents.log_reader_child", "SparkSubmit"
"""What the command lines of its children have in them. The first log reader is a fork in a session of its own."""


CAPTURE = ("cdc", "run")
AGENT = ("agent", "run")
DELIVERY = ("replication", "run")


class CaptureProcess:
    """The command, from start to whatever ends it; what it prints goes to `log`."""

    def __init__(
        self,
        url: str,
        directory: Path,
        command: Sequence[str] = CAPTURE,
        environment: Mapping[str, str] = MappingProxyType({}),
        program: Sequence[str] = ("-m", "rowtide"),
    ) -> None:
        """`program` is what the interpreter runs."""
        self._failpoints = directory / "failpoints"
        self._failpoints.mkdir(exist_ok=True)
        self.log = directory / "capture.log"
        own = {"ROWTIDE_DB": url, "ROWTIDE_FAILPOINTS": str(self._failpoints)}
        with self.log.open("ab") as log:
            self._logged_before = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, *program, *command],
                env={**os.environ, **own, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def arm(self, failpoint: str) -> None:
        """Kill the process, or its log reader, at the next hit of a failpoint; return when that has happened."""
        place = self._failpoints / failpoint
        place.touch()
        wait_until(lambda: not place.exists(), what=f"a hit of {failpoint}")

    def stop_at(self, *failpoints: str, cause: Callable[[], object]) -> None:
        """Stop the process (SIGSTOP) at the hit of a failpoint that `cause` brings about, from there at the next hit of
        the second one, and so on; return when it stands at the last.
        """
        for failpoint in failpoints:
            armed = self._failpoints / failpoint
            written = armed.with_suffix(".new")
            written.write_text(signal.SIGSTOP.name)
            written.rename(armed)
            cause()
            wait_until(lambda: not armed.exists() and self._is_stopped(), what=f"stopped at {failpoint}")  # noqa: B023
            cause = self.resume

    def pause(self) -> None:
        """Stop it, and its log reader, as in a paused machine."""
        for pid in (self.process.pid, *find_children(self.process.pid, LOG_READER)):
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stopped process continue, and its log reader."""
        for pid in (*find_children(self.process.pid, LOG_READER), self.process.pid):
            os.kill(pid, signal.SIGCONT)

    def _is_stopped(self) -> bool:
        """Return whether the process stands; where its log reader does, let it stand, too: it would start another."""
        self.require_alive()
        if any(_stands(pid) for pid in find_children(self.process.pid, LOG_READER)):
            self.pause()
        return _stands(self.process.pid)

    def messages(self) -> str:
        """Return what it has printed."""
        return self.log.read_bytes()[self._logged_before :].decode()

    def wait_child(self, kind: str) -> int:
        """Return the process id of its log reader or of its JVM, once there is one."""
        found: list[int] = []

        def find() -> bool:
            self.require_alive()
            found[:] = find_children(self.process.pid, kind)
            return bool(found)

        wait_until(find, what=f"a child {kind}")
        return found[0]

    def wait_published(self, logged: LoggedDatabase) -> None:
        """Wait until all that is committed now is published."""
        target, manifest = logged.mark(), logged.manifest()

        def is_published() -> bool:
            self.require_alive()
            return manifest.refresh().readers["cdc"].position.log > target

        wait_until(is_published, what=f"published up to {target:X}")

    def wait_killed(self) -> None:
        """Wait until SIGKILL has ended the process."""
        assert self.process.wait(60) == -9

    def require_alive(self) -> None:
        assert self.process.poll() is None, self.log.read_text()

    def interrupt(self) -> int:
        """Press Ctrl-C, so to speak; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

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


def _stands(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def find_children(parent: int, kind: str) -> list[int]:
    """Return the process ids of a process's children of a kind."""
    with suppress(OSError):
        listed = [children.read_text().split() for children in Path(f"/proc/{parent}/task").glob("*/children")]
        return [int(pid) for pids in listed for pid in pids if _is_of_kind(int(pid), parent, kind)]
    return []


def _is_of_kind(pid: int, parent: int, kind: str) -> bool:
    line, line_of_parent = (Path(f"/proc/{one}/cmdline").read_text() for one in (pid, parent))
    is_fork = line == line_of_parent and os.getsid(pid) == pid
    return kind in line or (kind == LOG_READER and is_fork)
