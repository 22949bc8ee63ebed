"""Whole servers that are killed, each process of them in the same moment, and started again on their data."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from builders.capture.captured_databases import wait_until
from rowtide.databases.postgres.embedded import EmbeddedServer

_SETTINGS = {"max_prepared_transactions": "40", "fsync": "off", "wal_init_zero": "off"}
"""A killed process may leave a page half written: whole pages are in the log. Machines are not killed."""


@dataclass(frozen=True, slots=True)
class Servers:
    """One server each for the publisher, the distribution database and the subscribers."""

    publisher: EmbeddedServer
    distributor: EmbeddedServer
    subscribers: EmbeddedServer

    @property
    def all(self) -> tuple[EmbeddedServer, ...]:
        return self.publisher, self.distributor, self.subscribers


@contextmanager
def open_servers(place: Path) -> Iterator[Servers]:
    """Start three servers."""
    with ExitStack() as opened:
        started = [
            opened.enter_context(EmbeddedServer.start(place / name, settings=_SETTINGS))
            for name in ("publisher", "distributor", "subscribers")
        ]
        yield Servers(*started)


def kill_server(server: EmbeddedServer) -> None:
    """Kill a server's processes; `restart` starts it again."""
    postmaster = server.pid
    assert postmaster is not None
    # Stopped, it starts no more of them.
    os.kill(postmaster, signal.SIGSTOP)
    killed = (*_children(postmaster), postmaster)
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Until then they hold the shared memory.
    wait_until(lambda: all(map(_is_gone, killed)), what=f"{killed} are gone")


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
