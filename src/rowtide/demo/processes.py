"""The demo's child processes: each with a file for its messages; neither they nor their children are left behind.

The demo's working folder: temporary, or one to keep.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO

from rowtide.core.values import frozen
from rowtide.databases.file_access import make_place
from rowtide.demo.errors import DirectoryNotEmpty, DirectoryNotWritable, ProcessEnded, ProcessSilent


@frozen
class Directory:
    """The demo's folder and its contents."""

    root: Path
    is_kept: bool

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def messages(self) -> Path:
        """The folder of the processes' messages, one file each."""
        return self.root / "messages"

    @property
    def scratch(self) -> Path:
        """Files needed only during the run: a copy of the source's tables, and Spark's working directory."""
        return self.root / "scratch"

    @property
    def targets(self) -> Path:
        """The folder of the targets' tables."""
        return self.root / "targets"

    @property
    def final(self) -> Path:
        """The tables after the workload."""
        return self.scratch / "final"


@contextmanager
def open_directory(keep: Path | None) -> Iterator[Directory]:
    """Create the folder; remove it at the end, unless it is to be kept.

    Raises `DirectoryNotEmpty`, `DirectoryNotWritable`.
    """
    if keep is None:
        directory = Directory(Path(tempfile.mkdtemp(prefix="rowtide-demo-")).resolve(), is_kept=False)
    else:
        directory = Directory(_make_empty(keep.expanduser().absolute()), is_kept=True)
    try:
        for folder in (directory.messages, directory.final):
            make_place(folder)
        yield directory
    finally:
        shutil.rmtree(directory.scratch if directory.is_kept else directory.root, ignore_errors=True)


def _make_empty(path: Path) -> Path:
    try:
        make_place(path)
        found = any(path.iterdir())
    except FileExistsError as error:
        raise DirectoryNotEmpty(str(path)) from error
    except OSError as error:
        raise DirectoryNotWritable(str(path), error.strerror or str(error)) from error
    if found:
        raise DirectoryNotEmpty(str(path))
    if not os.access(path, os.W_OK):
        raise DirectoryNotWritable(str(path), "Permission denied")
    return path


SHORT_LIVED_JAVA = MappingProxyType({"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"})
"""Environment for a short-lived JVM: optimizing code takes more CPU than it saves (measured: half)."""

_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.05


class Child:
    """A program in its own session: Ctrl-C at the terminal reaches only the demo, which then ends the program.

    Its standard error, and its standard output unless `answers`, go to a file of its name. Every process that can still
    write to that file holds a lock on it: when the lock is free, the program has ended. A JVM that it started writes
    elsewhere, and is found by its process group.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Directory,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
        answers: bool = False,
    ) -> None:
        self.name = name
        self._messages = directory.messages / name
        with self._messages.open("ab") as output:
            fcntl.flock(output, fcntl.LOCK_EX)
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*_ended_with_us(), *command],
                stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
                stdout=subprocess.PIPE if answers else output,
                stderr=output,
                env={**os.environ, **environment},
                cwd=directory.scratch,
                start_new_session=True,
                bufsize=0,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def require_alive(self) -> None:
        """Raise `ProcessEnded`, with the last line of its messages, if it is not running."""
        code = self._process.poll()
        if code is not None:
            how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
            raise ProcessEnded(self.name, how, last_line(self._messages.read_text(errors="replace")))

    def send(self, line: bytes) -> None:
        """Write a line to the program. Raises `ProcessEnded`."""
        try:
            _pipe(self._process.stdin).write(line + b"\n")
        except BrokenPipeError:
            self._process.wait(_STOP_TIMEOUT_S)
            self.require_alive()

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the program's next line; None after a timeout. Raises `ProcessEnded`."""
        output = _pipe(self._process.stdout)
        if not select.select([output], [], [], timeout_s)[0]:
            return None
        line = output.readline()
        if not line:
            self._process.wait(_STOP_TIMEOUT_S)
            self.require_alive()
        return line

    def stop(self) -> None:
        """End it by closing its input and SIGTERM, else by SIGKILL; return when all its processes have ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number) if number is signal.SIGKILL else self._process.send_signal(number)
            if self._is_gone_within(_STOP_TIMEOUT_S):
                break
        self._process.wait(_STOP_TIMEOUT_S)

    def wait(self, timeout_s: float) -> None:
        """Return when the program has exited successfully. Raises `ProcessEnded`, `ProcessSilent`."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ProcessSilent(self.name, int(timeout_s), "it does not end") from error
        if code != 0:
            self.require_alive()

    def _is_gone_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._messages.open("rb") as probe:
            while time.monotonic() < deadline:
                self._process.poll()
                with suppress(BlockingIOError):
                    fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not _is_running(self.pid):
                        return True
                time.sleep(_POLL_S)
        return False


def last_line(messages: str) -> str:
    """Return a program's own error line if it wrote one, else its last line."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()] or ["it said nothing"]
    errors = [line for line in lines if line.startswith("RT-")]
    return (errors or lines)[-1].rstrip(".")


def _is_running(group: int) -> bool:
    """Return whether a process of a group runs (Linux); a zombie does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in ("Z", "X"):
                return True
    return False


def _ended_with_us() -> list[str]:
    """Return the command prefix that asks a program to end when this process is killed (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig=TERM"] if setpriv is not None else []


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "started with answers=True"
    return pipe
