"""Services of systemd: the unit files of agents and monitor, and what a service reports of itself (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from rowtide.core.errors import AlreadyExists, Denied
from rowtide.core.values import frozen

log = logging.getLogger("rowtide.systemd")

_ADDRESS = "NOTIFY_SOCKET"
_WATCHDOG_US, _WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"
MANAGERS_VARIABLES = (_ADDRESS, _WATCHDOG_US, _WATCHDOG_PID)
"""Variables for the process that the manager started, which its children must not inherit."""
_MOST_STATUS = 200
_LONGEST_PAUSE_S = 10.0


class ServiceManager:
    """The service manager that started this process; without one, nothing is sent."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = address
        self._is_ready = False
        self.watchdog_s = watchdog_s
        """The interval of its watchdog; None without one."""

    @property
    def is_there(self) -> bool:
        """Whether a manager started this process."""
        return bool(self._address)

    @property
    def pause_s(self) -> float:
        """The longest pause between two notifications of the watchdog."""
        return _LONGEST_PAUSE_S if self.watchdog_s is None else min(_LONGEST_PAUSE_S, self.watchdog_s / 2)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], pid: int) -> ServiceManager:
        """Return what the variables of sd_notify(3) and sd_watchdog_enabled(3) say to the process with a pid."""
        interval = environment.get(_WATCHDOG_US, "")
        is_meant = environment.get(_WATCHDOG_PID, str(pid)) == str(pid)
        watchdog_s = int(interval) / 1e6 if is_meant and interval.isdecimal() and int(interval) else None
        return cls(environment.get(_ADDRESS, ""), watchdog_s)

    def beat(self) -> None:
        """Notify the watchdog; the first time, report that the service is ready, or waits as a standby."""
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
                # If the manager's queue is full, the message is dropped: the next one follows soon.
                sender.settimeout(0)
                sender.connect(address)
                sender.sendall(message.encode())
        except OSError as error:
            # The service continues; its manager restarts it if it waits for the message.
            log.warning("service_manager_not_told: %s", error)
            return False
        return True


NO_MANAGER = ServiceManager()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_STATUS]


class UnitOfOthers(AlreadyExists, number=1220):
    """A unit file that `install-units` has not written is in the way."""

    fact = "{path} exists, and `rowtide install-units` has not written it"
    hint = "Move it away, or name another folder with --folder. Your own settings belong in a drop-in (systemctl edit)."
    path: str


class UnitsNotWritten(Denied, number=1221):
    """The folder of the unit files cannot be written."""

    fact = "unit files cannot be written to {folder}: {reason}"
    hint = "Run it as root, install them for your own user manager with --user, or name another folder with --folder."
    folder: str
    reason: str


AGENT = "rowtide-agent@.service"
MONITOR = "rowtide-monitor.service"
WATCHDOG_S = 120
"""systemd restarts a service that has not reported for this long."""
_STOP_S = 30
_FIRST_LINE = "# Written by rowtide install-units. Settings of your own belong in a drop-in, which stays: {edit}"
_NEVER_RESTARTED = (64, 78)
"""Exit codes after which another start would end as this one did: wrong usage, and what a person has to correct."""
_HARDENED = """
CapabilityBoundingSet=
LockPersonality=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""
"""What a system manager takes from a service. A JVM compiles while it runs: no `MemoryDenyWriteExecute`."""


@frozen
class UnitSettings:
    """What differs between installations. `user` and `group` are None in the units of a user's own manager."""

    program: Path
    config: Path
    user: str | None
    group: str | None = None
    writable: tuple[Path, ...] = ()
    """Folders of lakes and log stores, which the services may write besides their own."""

    @property
    def is_of_system(self) -> bool:
        """Whether the units are of the system's manager."""
        return self.user is not None


class Written(StrEnum):
    """The outcome of writing a unit file."""

    NEW = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


def describe_units(settings: UnitSettings) -> Mapping[str, str]:
    """Return the texts of the unit files by their names. Pure."""
    return {AGENT: "\n".join(_agent(settings)) + "\n", MONITOR: "\n".join(_monitor(settings)) + "\n"}


def write_units(units: Mapping[str, str], folder: Path) -> Mapping[Path, Written]:
    """Write unit files, each at once or not at all, and return what became of them.

    Raises `UnitOfOthers` before anything is written, `UnitsNotWritten`.
    """
    found = {folder / name: _find_state(folder / name, text) for name, text in units.items()}
    for path, state in found.items():
        if state is not Written.UNCHANGED:
            _replace(path, units[path.name])
    return found


def default_folder(environment: Mapping[str, str], *, for_user: bool) -> Path:
    """Return the folder in which systemd looks for an administrator's or a user's units."""
    if not for_user:
        return Path("/etc/systemd/system")
    given = environment.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "systemd" / "user"


def _agent(settings: UnitSettings) -> Iterator[str]:
    yield _first_line(AGENT, settings)
    yield from _unit("rowtide's agent of the database %I")
    yield from _service(settings, ["agent", "run", "--db", "%I"])


def _monitor(settings: UnitSettings) -> Iterator[str]:
    yield _first_line(MONITOR, settings)
    yield from _unit("rowtide's monitor")
    yield from _service(settings, ["monitor", "serve"])


def _first_line(name: str, settings: UnitSettings) -> str:
    return _FIRST_LINE.format(edit=f"systemctl {'' if settings.is_of_system else '--user '}edit {name}")


def _unit(description: str) -> Iterator[str]:
    yield from ("", "[Unit]", f"Description={description}")
    yield from ("Wants=network-online.target", "After=network-online.target")
    # Restarts are paced by RestartSec; a database that is down for a night is no reason to stop retrying.
    yield "StartLimitIntervalSec=0"


def _service(settings: UnitSettings, command: list[str]) -> Iterator[str]:
    # The configuration file comes from the environment, where a drop-in can change it.
    yield from ("", "[Service]", "Type=notify", "NotifyAccess=main")
    yield f"Environment={_word(f'ROWTIDE_CONFIG={_literal(settings.config)}')}"
    yield f"ExecStart={' '.join([_word(_command_literal(settings.program)), *command])}"
    yield "ExecReload=/bin/kill -HUP $MAINPID"
    if settings.user is not None:
        # A user of its own that stays, in place of DynamicUser: its .pgpass and its lakes of mode 0600 are its own.
        yield f"User={settings.user}"
    if settings.group is not None:
        yield f"Group={settings.group}"
    yield from ("StateDirectory=rowtide", "CacheDirectory=rowtide", "UMask=0077", "NoNewPrivileges=yes")
    yield f"WatchdogSec={WATCHDOG_S}"
    # The first start fetches Spark's jars.
    yield from ("TimeoutStartSec=300", f"TimeoutStopSec={_STOP_S}", "KillMode=mixed")
    yield from ("Restart=on-failure", "RestartSec=5")
    yield f"RestartPreventExitStatus={' '.join(map(str, _NEVER_RESTARTED))}"
    if settings.is_of_system:
        yield from _HARDENED.split("\n")[1:-1]
        yield from ("Environment=XDG_CACHE_HOME=%C", "Environment=XDG_STATE_HOME=%S")
        # The service starts even if a folder does not exist yet.
        yield from (f"ReadWritePaths=-{_word(_literal(path))}" for path in settings.writable)
    yield from ("", "[Install]", f"WantedBy={'multi-user' if settings.is_of_system else 'default'}.target")


def _word(text: str) -> str:
    """Return a word of a unit file, quoted where it has what parts words."""
    if text and not any(char in text for char in " \t\"'\\"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _literal(path: Path) -> str:
    """Return a path in which systemd replaces nothing."""
    return str(path).replace("%", "%%")


def _command_literal(path: Path) -> str:
    """Return a program of a command line, in which no variable is replaced either."""
    return _literal(path).replace("$", "$$")


def _find_state(path: Path, text: str) -> Written:
    """Return what writing a file will be. Raises `UnitOfOthers`, `UnitsNotWritten`."""
    try:
        present = path.read_text()
    except FileNotFoundError:
        return Written.NEW
    except (OSError, UnicodeDecodeError) as error:
        raise UnitsNotWritten(str(path.parent), str(error)) from error
    if present == text:
        return Written.UNCHANGED
    if not present.startswith(_FIRST_LINE.partition("{")[0]):
        raise UnitOfOthers(str(path))
    return Written.REPLACED


def _replace(path: Path, text: str) -> None:
    """Write a file that everybody may read, whatever the umask. Raises `UnitsNotWritten`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UnitsNotWritten(str(path.parent), error.strerror or str(error)) from error
