"""A server that demands passwords by SCRAM: where libpq and the configuration file keep them, everything finds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.commands.configuration_files import write_file, write_secret
from builders.servers.tcp_servers import REJECTED, ROLE, start_tcp_server
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

PASSWORD = "p@:/?#%' \"\\é"
Run = Callable[[str, str], str]


@dataclass(frozen=True)
class Place:
    """A database's server, behind which a password is asked for."""

    server: EmbeddedServer
    port: int

    def url(self, database: str, password: str | None = None) -> str:
        """Return the URL of a database, as it is typed."""
        given = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{ROLE}{given}@127.0.0.1:{self.port}/{database}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with start_tcp_server(tmp_path_factory.mktemp("scram"), PASSWORD) as (server, port):
        yield Place(server, port)


@pytest.fixture
def shop(place: Place) -> Iterator[str]:
    """The name of a database with a row."""
    with fresh_database(place.server) as url:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("create table orders (id int primary key, note text)")
            session.execute("insert into orders values (1, 'sent')")
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command where the environment says nothing of PostgreSQL's; no password is in what it prints."""
    for name in [one for one in os.environ if one.startswith(("PG", "ROWTIDE_"))]:
        monkeypatch.delenv(name)

    def run(command: str, db: str) -> str:
        ended = rowtide(*command.split(), "--db", db)
        assert ended.code == 0, (command, ended)
        assert PASSWORD not in ended.output + ended.errors
        return ended.output

    return run


def test_a_wrong_password_is_refused(place: Place, shop: str, run: Run) -> None:
    refusal = rowtide("cdc", "status", "--db", place.url(shop, "wrong")).require_error(1101)
    assert "password authentication failed" in refusal


@pytest.mark.parametrize(("command", "code"), [("cdc run", 78), ("cdc status", 1)])
def test_whom_no_line_lets_in_needs_a_person(place: Place, shop: str, run: Run, command: str, code: int) -> None:
    ended = rowtide(*command.split(), "--db", f"postgresql://{REJECTED}@127.0.0.1:{place.port}/{shop}")
    assert (ended.code, "RT-1169" in ended.errors) == (code, True), ended


def test_a_password_in_a_url_is_read_with_its_escapes(place: Place, shop: str, run: Run, tmp_path: Path) -> None:
    url = place.url(shop, PASSWORD)
    run(f"cdc enable-db --lake {tmp_path / 'lake'}", url)
    run("cdc enable-table orders", url)
    run("cdc run --once", url)
    assert "orders" in run("cdc instances", url)


def test_delivery_finds_passwords_of_a_file_and_of_pgpass(
    place: Place, shop: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher's is named by the configuration file, the subscriber's is in .pgpass: its URL is stored without."""
    secret = write_secret(tmp_path / "secret", PASSWORD)
    text = f"[databases.shop]\nurl = '{place.url(shop)}'\npassword = {{ file = '{secret}' }}\n"
    monkeypatch.setenv("ROWTIDE_CONFIG", str(write_file(tmp_path / "configuration", text)))
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    with fresh_database(place.server) as branch_url:
        branch = branch_url.partition("?")[0].rpartition("/")[2]
        monkeypatch.setenv(
            "PGPASSFILE", str(write_secret(tmp_path / "pgpass", f"127.0.0.1:{place.port}:{branch}:{ROLE}:{escaped}\n"))
        )
        run(f"replication add-publication p --lake {tmp_path / 'lake'}", "shop")
        run("replication add-article p orders", "shop")
        run(f"replication add-subscription p --subscriber {place.url(branch)}", "shop")
        run("replication run --once", "shop")
        with psycopg.connect(branch_url) as session:
            assert session.execute("select note from orders").fetchall() == [("sent",)]


@pytest.mark.parametrize("url", ["postgresql://?service=shop", "service=shop", "postgresql://"])
def test_a_service_is_read_for_the_stream_of_the_log_too(
    place: Place, shop: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    lines = ("[shop]", "host=127.0.0.1", f"port={place.port}", f"dbname={shop}", f"user={ROLE}", f"password={PASSWORD}")
    file = write_secret(tmp_path / "services", "\n".join((*lines, "")))
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    if "service" not in url:
        monkeypatch.setenv("PGSERVICE", "shop")
    run(f"cdc enable-db --lake {tmp_path / 'lake'}", url)
    run("cdc enable-table orders", url)
    run("cdc run --once", url)
    assert "orders" in run("cdc instances", url)
