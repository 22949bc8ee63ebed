"""The demo's child processes: PostgreSQL and its workload; neither they nor their children are left behind.

Each has a file for its messages in the demo's working folder, which is temporary, or one to keep.
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
from typing import IO, LiteralString

import psycopg

from rowtide.core.lsn import parse_log_position
from rowtide.core.values import frozen
from rowtide.databases.file_access import make_place
from rowtide.databases.postgres.embedded import EmbeddedServer
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


KEYS = {"pgbench_accounts": "aid", "pgbench_branches": "bid", "pgbench_tellers": "tid", "pgbench_history": None}
"""The workload's tables with their primary keys; the history has none."""

TARGETED = "pgbench_accounts"
"""The table that targets follow."""

NULL = r"\N"
"""Represents NULL in copies of the tables."""

SCALE = 10
CLIENTS = 4
TRANSACTIONS_PER_S = 100
"""Rate for pgbench: on two cores, PostgreSQL, the log reader, the agent with its JVM and the checker share the rest."""

ACCOUNT, TELLER, BRANCH = 4711, 7, 1
"""Of the bookings by hand."""
DEPOSIT, WITHDRAWAL = 500, -120

_INITIALIZE_TIMEOUT_S = 300
_SESSIONS_END_TIMEOUT_S = 30


@frozen
class SourceState:
    """State of the source: number of committed transactions, and the log position before or after them."""

    transactions: int
    log_position: int


class Workload:
    """pgbench's tables in one database; `connection` is in autocommit."""

    def __init__(
        self, server: EmbeddedServer, connection: psycopg.Connection[tuple[object, ...]], directory: Directory
    ) -> None:
        self._server = server
        self._directory = directory
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, server: EmbeddedServer, directory: Directory) -> Iterator[Workload]:
        """Connect to the server."""
        with psycopg.connect(server.url(), autocommit=True, application_name="rowtide demo") as connection:
            yield cls(server, connection, directory)

    def server_version(self) -> str:
        """Return PostgreSQL's version."""
        return str(self._ask("select current_setting('server_version')")).split()[0]

    def initialize(self) -> None:
        """Create and fill the tables. Raises `ProcessEnded`."""
        command = [self._program("pgbench"), "--initialize", f"--scale={SCALE}", "--quiet"]
        with Child("pgbench-initialize", command, self._directory, environment=self._server.environment()) as child:
            child.wait(_INITIALIZE_TIMEOUT_S)

    def start(self, *, seconds: int) -> Child:
        """Start TPC-B; it ends when stopped, or after `seconds`."""
        command = [
            self._program("pgbench"),
            "--builtin=tpcb-like",
            f"--client={CLIENTS}",
            f"--rate={TRANSACTIONS_PER_S}",
            f"--time={seconds}",
            "--progress=5",
            "--no-vacuum",  # which also truncates the history
        ]
        return Child("pgbench", command, self._directory, environment=self._server.environment())

    def state(self) -> SourceState:
        """Query the source's state."""
        row = self._connection.execute("select count(*), pg_current_wal_lsn()::text from pgbench_history").fetchone()
        assert row is not None
        return SourceState(int(str(row[0])), parse_log_position(str(row[1])))

    def await_end_of_sessions(self) -> None:
        """Wait until pgbench has no session left: one whose client has ended may still be committing.

        Raises `ProcessSilent`.
        """
        deadline = time.monotonic() + _SESSIONS_END_TIMEOUT_S
        while self._ask("select count(*) from pg_stat_activity where application_name = 'pgbench'"):
            if time.monotonic() > deadline:
                raise ProcessSilent("PostgreSQL", _SESSIONS_END_TIMEOUT_S, "sessions of pgbench do not end")
            time.sleep(0.05)

    def book(self, delta: int) -> int:
        """Commit a TPC-B transaction on `ACCOUNT`; return a log position at or below that of its commit.

        Every earlier commit is below it.
        """
        given = {"delta": delta, "account": ACCOUNT, "teller": TELLER, "branch": BRANCH}
        with self._connection.transaction():
            for statement in _BOOKING:
                self._connection.execute(statement, given)
            return parse_log_position(str(self._ask("select pg_current_wal_insert_lsn()::text")))

    def copy_tables(self, folder: Path) -> None:
        """Write the tables as CSV, every value the server's own text in quotes. Raises `ProcessEnded`."""
        copies = [
            f"\\copy {table} to '{folder / table}.csv' with (format csv, header, force_quote *, null '{NULL}')"
            for table in KEYS
        ]
        command = [self._program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
        command += [f"--command={copy}" for copy in copies]
        with Child("psql", command, self._directory, environment=self._server.environment()) as child:
            child.wait(_INITIALIZE_TIMEOUT_S)

    def _program(self, name: str) -> str:
        return str(self._server.binary(name))

    def _ask(self, query: LiteralString) -> object:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row[0]


_BOOKING = (
    "update pgbench_accounts set abalance = abalance + %(delta)s where aid = %(account)s",
    "update pgbench_tellers set tbalance = tbalance + %(delta)s where tid = %(teller)s",
    "update pgbench_branches set bbalance = bbalance + %(delta)s where bid = %(branch)s",
    "insert into pgbench_history values (%(teller)s, %(branch)s, %(account)s, %(delta)s, current_timestamp)",
)
