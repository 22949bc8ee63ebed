"""Log, contents and tombstone tables of a SQLite file.

Triggers write the log; the agent applies it to the other tables.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import Connection, insert, select

from rowtide.databases.sqlite import clock
from rowtide.merge.catalogue import new_nickname
from rowtide.merge.definitions import complete, metadata, replinfo
from rowtide.merge.nodes.sqlite import exact_numbers
from rowtide.merge.versions.apply import Tables

CONTENTS = "MSmerge_contents"
TOMBSTONE = "MSmerge_tombstone"
LOG = "MSmerge_log"
"""Users' changes since the log was last applied, in order; `columns` has 1 for each changed column, else 0."""

AGENT = "MSmerge_agent"
"""Has a row while the agent writes, by which programs' triggers can leave its writes out."""

TABLES = Tables(CONTENTS, TOMBSTONE, LOG)

# `origin` is the node that a version came from, null for a change of this one's.
_COLUMNS = {
    CONTENTS: "origin integer, priority real, lineage blob, last blob, colv blob, own_columns text, bases text",
    TOMBSTONE: "type integer not null, origin integer, priority real, lineage blob, last blob",
}
_DEFINITIONS = {
    exact_numbers.EXACT: exact_numbers.DEFINITION,
    AGENT: f"create table if not exists {AGENT} (is_writing integer not null)",
}

_COLUMNS_PRESENT = (
    "select t.name, c.name from main.sqlite_schema t, pragma_table_info(t.name) c "
    "where t.type = 'table' and (t.name like 'MSmerge%' or t.name like 'sysmerge%')"
)


def create(connection: Connection, session: sqlite3.Connection) -> None:
    """Create the tables that do not exist, and give the node its nickname, in the caller's transaction."""
    clock.create(session)
    metadata.create_all(connection)
    for table, columns in _COLUMNS.items():
        session.execute(
            f"create table if not exists {table} (tablenick integer not null, rowguid text not null, "
            f"stamp integer not null, {columns}, primary key (tablenick, rowguid)) without rowid"
        )
        session.execute(f"create index if not exists {table}_stamp on {table} (tablenick, stamp)")
    for definition in _DEFINITIONS.values():
        session.execute(definition)
    session.execute(
        f"create table if not exists {LOG} "
        "(tablenick integer not null, rowguid text not null, kind integer not null, columns text, base text)"
    )
    if connection.execute(select(replinfo.c.nickname)).first() is None:
        connection.execute(insert(replinfo).values(nickname=new_nickname()))


def find_missing(connection: Connection, session: sqlite3.Connection) -> list[str]:
    """Return the statements that add what a file of an earlier version lacks; none of a file without merge."""
    present: dict[str, set[str]] = {}
    for table, column in session.execute(_COLUMNS_PRESENT):
        present.setdefault(table, set()).add(column)
    if CONTENTS not in present:
        return []
    made = [definition for table, definition in _DEFINITIONS.items() if table not in present]
    return [*made, *complete(present, connection.dialect)]


def drop(connection: Connection, session: sqlite3.Connection) -> None:
    """Remove all tables, in the caller's transaction."""
    metadata.drop_all(connection)
    for table in (*_COLUMNS, LOG, exact_numbers.EXACT):
        session.execute(f"drop table if exists {table}")
    clock.drop(session)
    # A program's trigger that asks it would fail without it.
    asked = "select 1 from main.sqlite_schema where type = 'trigger' and sql like ?"
    if session.execute(asked, (f"%{AGENT}%",)).fetchone() is None:
        session.execute(f"drop table if exists {AGENT}")


def forget(session: sqlite3.Connection, nickname: int) -> None:
    """Remove the metadata of a table's rows, in the caller's transaction."""
    for table in (*_COLUMNS, LOG, exact_numbers.EXACT):
        session.execute(f"delete from {table} where tablenick = ?", (nickname,))
