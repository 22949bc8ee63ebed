"""A server that demands TLS and a client's certificate: everything that rowtide opens shows it."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trustme
from sqlalchemy.engine import make_url

import rowtide
from builders.servers.tls_proxy import Identity, TlsProxy, demanding_tls
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import ConnectionFailed, translated

ROLE = 'cdc:agent@"1"/%?#'
"""Needs to be written in URLs otherwise than it is."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the certificates are: paths that URLs write otherwise, too."""
    return tmp_path / "my certificates"


@pytest.fixture
def encrypted(each_server: EmbeddedServer, tmp_path: Path) -> Iterator[tuple[str, TlsProxy]]:
    """A database's name, and what stands before its server."""
    with fresh_database(each_server) as url:
        given = make_url(url)
        with psycopg.connect(url, autocommit=True) as session:
            quoted = ROLE.replace('"', '""')
            session.execute(f'drop role if exists "{quoted}"')
            session.execute(f'create role "{quoted}" superuser login')
        assert given.database is not None
        with demanding_tls(each_server, tmp_path) as proxy:
            yield given.database, proxy


def _url(proxy: TlsProxy, database: str, parameters: str, *, host: str = "localhost") -> str:
    user = "".join(f"%{byte:02X}" for byte in ROLE.encode())
    return f"postgresql://{user}@{host}:{proxy.listening}/{database}?{parameters}"


def test_capture_and_delivery_are_encrypted(encrypted: tuple[str, TlsProxy], folder: Path, tmp_path: Path) -> None:
    database, proxy = encrypted
    url = _url(proxy, database, Identity.issue(proxy.authority, proxy.authority, ROLE, folder).parameters())
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("create table orders (id int primary key, note text)")
    opened = rowtide.connect(url)
    opened.cdc.enable_db(lake=str(tmp_path / "lake"))
    opened.cdc.enable_table("orders")
    opened.replication.add_publication("shop")
    opened.replication.add_article("shop", "orders")
    opened.replication.add_subscription("shop", f"sqlite:///{tmp_path}/copy.db")
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("insert into orders values (1, 'encrypted')")
    before = proxy.let_in.value

    opened.cdc.run(once=True)
    opened.replication.run(once=True)

    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("select note from orders").fetchall() == [("encrypted",)]
    # The stream of the log is one of them.
    assert proxy.let_in.value > before


REFUSED = {
    "no encryption": ("sslmode=disable", "no encryption"),
    "no certificate": ("sslmode=verify-full&sslrootcert={authority}", "certificate required"),
    "another role's certificate": ("{another}", "certificate authentication failed"),
    "a certificate of an unknown authority": ("{unknown}", "unknown ca"),
    "a server of an unknown authority": ("{untrusting}", "certificate verify failed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_reason_of_a_refusal_is_said(encrypted: tuple[str, TlsProxy], folder: Path, case: str) -> None:
    database, proxy = encrypted
    other = trustme.CA()
    template, reason = REFUSED[case]
    issued = {
        "another": (proxy.authority, proxy.authority, "somebody"),
        "unknown": (other, proxy.authority, ROLE),
        "untrusting": (proxy.authority, other, ROLE),
    }
    made = {name: Identity.issue(*given, folder / name).parameters() for name, given in issued.items()}
    trusted = Identity.issue(proxy.authority, proxy.authority, ROLE, folder / "own").authority
    parameters = template.format(authority=trusted, **made)

    with pytest.raises(ConnectionFailed, match=f"(?i){reason}"), translated():
        open_engine(_url(proxy, database, parameters)).connect()


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no loopback address of IPv6")
def test_an_address_of_ipv6_is_written_in_brackets(server: EmbeddedServer, folder: Path) -> None:
    with fresh_database(server) as url, demanding_tls(server, folder.parent, "::1") as proxy:
        parameters = Identity.issue(proxy.authority, proxy.authority, "postgres", folder).parameters()
        opened = open_engine(
            f"postgresql://postgres@[::1]:{proxy.listening}/{make_url(url).database}?{parameters}"
        ).connect()
        with opened:
            assert opened.exec_driver_sql("select current_user").scalar_one() == "postgres"
        assert proxy.let_in.value == 1


def test_a_server_of_another_name_is_refused(encrypted: tuple[str, TlsProxy], folder: Path) -> None:
    database, proxy = encrypted
    identity = Identity.issue(proxy.authority, proxy.authority, ROLE, folder)
    misnamed = identity.parameters() + "&hostaddr=127.0.0.1"

    with pytest.raises(ConnectionFailed, match="does not match host name"), translated():
        open_engine(_url(proxy, database, misnamed, host="db.example")).connect()
