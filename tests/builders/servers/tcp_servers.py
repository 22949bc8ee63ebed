"""A server that is reached over TCP, by a role that needs a password."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from rowtide.databases.postgres.embedded import EmbeddedServer

ROLE, REJECTED = "remote", "rejected"


@contextmanager
def start_tcp_server(place: Path, password: str) -> Iterator[tuple[EmbeddedServer, int]]:
    """Start a server on 127.0.0.1, and yield it with its port; the superuser `ROLE` needs a password there.

    No line lets `REJECTED` in; whether there is such a role, the server does not say.
    """
    with EmbeddedServer.start(place) as server, psycopg.connect(server.url(), autocommit=True) as session:
        session.execute(sql.SQL(f"create role {ROLE} login superuser password {{}}").format(password))
    rules = place / "data" / "pg_hba.conf"
    # The first rule that fits decides, and those that are there trust everybody.
    own = (f"{ROLE} 127.0.0.1/32 scram-sha-256", f"{REJECTED} 127.0.0.1/32 reject")
    rules.write_text("".join(f"host all,replication {rule}\n" for rule in own) + rules.read_text())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with EmbeddedServer.start(place, settings={"listen_addresses": "127.0.0.1", "port": str(port)}) as server:
        yield server, port
