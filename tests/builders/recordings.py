"""Recordings of what builds of each format stored, opened in new folders; `scripts/record_fixtures.py` makes them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from fixtures.servers import drop_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.sqlite.sql_text import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = Path(__file__).parent.parent / "recordings"
CONTENTS, DATABASES, FILES = "contents.json", "databases", "files.tar.xz"
FOLDER_MARK, SERVER_MARK = "{folder}", "{server}"
"""What stands in a database's dump for the folder of the recorded files, and for the server's socket directory."""

Rows = list[list[Any]]


@dataclass(frozen=True)
class Recording:
    """One recording, its files unpacked into a folder."""

    source: Path
    folder: Path

    @classmethod
    def unpack(cls, source: Path, folder: Path) -> Recording:
        """Unpack the files; those that know each other's places know the new ones."""
        with tarfile.open(source / FILES) as archive:
            archive.extractall(folder, filter="data")
        recording = cls(source, folder)
        for path in folder.glob("*.db"):
            _relocate(path, recording.contents["folder"], str(folder))
        return recording

    @cached_property
    def contents(self) -> dict[str, Any]:
        """What the recorded version found in its files, lakes and databases, by their names."""
        return dict(json.loads((self.source / CONTENTS).read_text()))

    def source_id(self, name: str) -> str:
        """Return under which identity a database's lake was written."""
        text = (self.source / DATABASES / f"{name}.sql").read_text()
        return text.partition("COPY rowtide.source (source_id,")[2].splitlines()[1].partition("\t")[0]

    @contextmanager
    def restore(self, server: EmbeddedServer, name: str) -> Iterator[str]:
        """Restore a database on a server under its name, with psql; yield its URL, and drop it at the end.

        Its oid, and the server's system identifier, are not the original's: by its own metadata it is a copy, which has
        the original's publication and no slot. Its log store and lake are this recording's.
        """
        text = (self.source / DATABASES / f"{name}.sql").read_text()
        text = text.replace(FOLDER_MARK, str(self.folder)).replace(SERVER_MARK, str(server.socket_directory))
        with _made_database(server, name):
            subprocess.run(
                [server.binary("psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--dbname={name}"],
                env={**os.environ, **server.environment()},
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            yield server.url(name)

    def claim(self, name: str, session: psycopg.Connection) -> None:
        """Make a restored database the one that its log store names, as if it had not been moved."""
        (system_identifier, slot) = session.execute(_IDENTITY).fetchone() or ("", "")
        (recorded,) = session.execute("select array[system_identifier, slot] from rowtide.source").fetchone() or ([],)
        session.execute(_CLAIM, {"system_identifier": system_identifier, "slot": slot})
        for path in (self.folder / name / "log" / "manifest").iterdir():
            text = path.read_text()
            for before, after in zip(recorded, (system_identifier, slot), strict=True):
                text = text.replace(f'"{before}"', f'"{after}"')
            path.write_text(text)


_IDENTITY = """
select system_identifier::text, 'rowtide_' || oid
from pg_control_system(), pg_database
where datname = current_database()
"""
_CLAIM = "update rowtide.source set system_identifier = %(system_identifier)s, slot = %(slot)s"


def list_recordings() -> list[Path]:
    """Return the recordings, the oldest first."""
    return sorted(path.parent for path in RECORDINGS.glob(f"*/{CONTENTS}"))


def read_server_tables(url: str) -> dict[str, Rows]:
    """Return the rows, as texts, of the application's tables in a database, by the tables' names."""
    with psycopg.connect(url, options="-c timezone=UTC -c datestyle=ISO") as session:
        return {name: _rows_of(session, name) for (name,) in session.execute(_TABLES).fetchall()}


def read_file_tables(path: Path) -> dict[str, Rows]:
    """Return the rows of the application's tables in a SQLite file, by the tables' names."""
    with closing(sqlite3.connect(path)) as session:
        names = session.execute("select name from sqlite_schema where type = 'table' order by 1").fetchall()
        return {name: _rows_in_file(session, name) for (name,) in names if not name.startswith(_OWN_PREFIXES)}


def read_change_rows(spark: SparkSession, lake: str, capture_instance: str) -> dict[str, Any]:
    """Return what a lake's readers say of an instance: its interval, columns and types, change rows, net changes."""
    from rowtide.cdc.spark_changes import Changes
    from rowtide.lake.session import pinned

    changes = Changes(pinned(spark), lake)
    interval = changes.get_validity_interval(capture_instance)
    rows = changes.get_all_changes(capture_instance, row_filter_option="all update old")
    found = {
        "low": interval.low.value,
        "high": interval.high.value,
        "columns": [list(column) for column in rows.dtypes],
        "rows": [[as_plain(value) for value in row] for row in rows.collect()],
        "history": [[change.ddl_command, change.ddl_lsn.value] for change in changes.get_ddl_history(capture_instance)],
    }
    if changes.get_recorded_instance(capture_instance).instance.supports_net_changes:
        net = changes.get_net_changes(capture_instance, is_ordered=True)
        found["net"] = [[as_plain(value) for value in row] for row in net.collect()]
    return found


def as_plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return bytes(value).hex()
        case _:
            return str(value)


def _rows_of(session: psycopg.Connection, name: str) -> Rows:
    query = sql.SQL("select t::text from only {} t order by 1").format(sql.Identifier(name))
    return [list(row) for row in session.execute(query)]


def _rows_in_file(session: sqlite3.Connection, name: str) -> Rows:
    rows = session.execute(f"select * from {quote(name)}").fetchall()
    return sorted(([as_plain(value) for value in row] for row in rows), key=repr)


def _relocate(path: Path, before: str, after: str) -> None:
    """Give a file's own tables the place where its neighbours are now."""
    with closing(sqlite3.connect(path, isolation_level=None)) as session:
        names = [name for (name,) in session.execute("select name from sqlite_schema where type = 'table'")]
        guards = session.execute(
            "select name, sql from sqlite_schema where type = 'trigger' and name like '%!_guard!_%' escape '!'"
        ).fetchall()
        for guard, _ in guards:
            session.execute(f"drop trigger {quote(guard)}")
        for name in names:
            for _, column, *_ in session.execute(f"pragma table_info({quote(name)})").fetchall():
                session.execute(
                    f"update {quote(name)} set {quote(column)} = replace({quote(column)}, ?, ?) "
                    f"where typeof({quote(column)}) = 'text' and instr({quote(column)}, ?) > 0",
                    [before, after, before],
                )
        for _, statement in guards:
            session.execute(statement)


@contextmanager
def _made_database(server: EmbeddedServer, name: str) -> Iterator[None]:
    """Make a database, and the role that recorded databases grant something to, which stays."""
    with psycopg.connect(server.url(), autocommit=True) as session:
        if session.execute("select from pg_roles where rolname = 'reporter'").fetchone() is None:
            session.execute("create role reporter")
        session.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield
        finally:
            drop_database(session, name)


_TABLES = "select relname::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1"
_OWN_PREFIXES = ("MS", "__sys", "sysmerge", "sqlite_")
"""What tables of rowtide's begin with in a SQLite file."""
