"""Copies of databases: by template, and by dump and restore; and servers whose files are copied or upgraded."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.capture.captured_databases import LoggedDatabase
from builders.merge.merged_databases import FileMember, Member, ServerMember, open_file_member, open_server_member
from fixtures.servers import drop_database, fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

_numbers = count(1)
METADATA = (
    "select nspname::text from pg_namespace where nspname in ('cdc', 'distribution', 'rowtide') order by 1",
    "select evtname::text from pg_event_trigger where evtname like 'rowtide%'",
    "select pubname::text from pg_publication",
    "select slot_name::text from pg_replication_slots where database = current_database()",
)
"""What rowtide has in a database."""


@contextmanager
def copied(server: EmbeddedServer, original: LoggedDatabase) -> Iterator[str]:
    """Yield the URL of a copy by `create database ... template`; the original's session is a new one from then on."""
    name, template = f"copy_{next(_numbers)}", original.session.info.dbname
    original.session.close()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        # What reads a database may not be there.
        connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", [template]
        )
        command = "create database {} template {}"
        connection.execute(sql.SQL(command).format(sql.Identifier(name), sql.Identifier(template)))
        original.session = psycopg.connect(original.url, autocommit=True)
        try:
            yield server.url(name)
        finally:
            drop_database(connection, name)


@contextmanager
def restored(server: EmbeddedServer, dumped_from: EmbeddedServer, database: str) -> Iterator[str]:
    """Yield the URL of a new database into which the dump of another was restored."""
    with fresh_database(server) as url:
        restore(server, url, dump(dumped_from, server, database))
        yield url


def base_backup(server: EmbeddedServer, place: Path, *options: str) -> None:
    """Make a base backup of a running server, as the data of one that is started in `place`."""
    place.mkdir(mode=0o700)
    data = str(place / "data")
    command = [str(server.binary("pg_basebackup")), "--pgdata", data, "--checkpoint=fast", *options]
    subprocess.run(command, env={**os.environ, **server.environment()}, check=True)
    subprocess.run(["chown", "-R", "--reference", str(server.directory / "data"), data], check=True)


def dump(dumped_from: EmbeddedServer, programs: EmbeddedServer, database: str) -> bytes:
    """Return a database as SQL."""
    command = [str(programs.binary("pg_dump")), "--dbname", database]
    return subprocess.run(
        command, env={**os.environ, **dumped_from.environment()}, capture_output=True, check=True
    ).stdout


def restore(server: EmbeddedServer, url: str, dumped: bytes) -> None:
    """Run a dump in a database."""
    command = [str(server.binary("psql")), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--dbname", url]
    subprocess.run(
        command, env={**os.environ, **server.environment()}, input=dumped, stdout=subprocess.DEVNULL, check=True
    )


def read_metadata(url: str) -> list[list[str]]:
    """Return what rowtide has in a database, as `METADATA` asks for it."""
    with psycopg.connect(url) as connection:
        return [[str(row[0]) for row in connection.execute(query)] for query in METADATA]


NOTHING: list[list[str]] = [[], [], [], []]


@contextmanager
def copied_member(request: pytest.FixtureRequest, member: Member) -> Iterator[Member]:
    """Yield a copy of a member of a merge: of its file, or by template."""
    if isinstance(member, FileMember):
        member.program.execute("pragma wal_checkpoint(truncate)")
        path = Path(str(member.url).removeprefix("sqlite:///"))
        copy = path.with_name(f"copy_{next(_numbers)}.db")
        shutil.copy(path, copy)
        with open_file_member(copy) as opened:
            yield opened
        return
    assert isinstance(member, ServerMember)
    original = LoggedDatabase(member.url, Path("nowhere"), member.program)
    with copied(request.getfixturevalue("server"), original) as url, closing(original.session):
        member.program = original.session
        with open_server_member(url) as opened:
            yield opened


@contextmanager
def moved(logged: LoggedDatabase, server: EmbeddedServer) -> Iterator[str]:
    """Yield the URL of what replaced a database by dump and restore: the original is gone, and this has its tables."""
    name = logged.session.info.dbname
    dumped = dump(server, server, name)
    logged.execute(f"select pg_drop_replication_slot('{logged.cdc.get_source().slot}')")
    logged.session.close()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")
        # The fixture drops one of this name.
        connection.execute(f"create database {name}")
    restore(server, server.url(name), dumped)
    yield server.url(name)
