"""PgBouncer before a server of the tests."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg

from rowtide.databases.postgres.embedded import EmbeddedServer, launcher

_FOLDER = Path(__file__).parents[3] / ".venv" / "pgbouncer"
"""Where `scripts/fetch-pgbouncer` puts it, with its libraries."""
IGNORING = "ignore_startup_parameters = options, extra_float_digits"
Mode = Literal["session", "transaction", "statement"]


@dataclass(frozen=True)
class Pooler:
    """A pooler that takes every user."""

    port: int

    def url(self, direct: str) -> str:
        """Return the URL of a database through the pooler, given the one past it."""
        name = psycopg.conninfo.conninfo_to_dict(direct)["dbname"]
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def administrate(self, command: str) -> None:
        """Run a command of its console."""
        url = f"postgresql://postgres@127.0.0.1:{self.port}/pgbouncer"
        with closing(psycopg.Connection.connect(url, autocommit=True, prepare_threshold=None)) as console:
            console.execute(command.encode())


@contextmanager
def pooling(server: EmbeddedServer, folder: Path, mode: Mode, *more: str) -> Iterator[Pooler]:
    """Let a pooler stand before a server, with more lines of its configuration."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    users, configuration, log = folder / "users.txt", folder / "pgbouncer.ini", folder / "pgbouncer.log"
    users.write_text('"postgres" ""\n')
    behind = f"host={server.socket_directory} port={server.settings['port']}"
    configuration.write_text(
        "\n".join(
            (
                "[databases]",
                f"* = {behind}",
                "[pgbouncer]",
                "listen_addr = 127.0.0.1",
                f"listen_port = {port}",
                "unix_socket_dir =",
                "auth_type = trust",
                f"auth_file = {users}",
                "admin_users = postgres",
                f"pool_mode = {mode}",
                "default_pool_size = 20",
                *more,
                "",
            )
        )
    )
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*launcher(), str(_FOLDER / "pgbouncer"), str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env={"PATH": os.defpath, "LD_LIBRARY_PATH": str(_FOLDER)},
        )
    try:
        await_listening(process, port, log)
        yield Pooler(port)
    finally:
        process.kill()
        process.wait()


def await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once a process listens on a port; fail with its log if it ends before."""
    while True:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            continue
        return
