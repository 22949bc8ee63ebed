"""Log, contents and tombstone tables of a SQLite file.

Triggers write the log; the agent applies it to the other tables.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import Connection, insert, select

from rowtide.databases.sqlite import clock
from rowtide.merge import definitions
from rowtide.merge.catalogue import new_nickname
from rowtide.merge.definitions import device_metadata, metadata, replinfo, row_hashes
from rowtide.merge.nodes.sqlite import exact_numbers
from rowtide.merge.versions.apply import Tables

CONTENTS = definitions.CONTENTS
TOMBSTONE = definitions.TOMBSTONE
LOG = "MSmerge_log"
"""Users' changes since the log was last applied, in order; `columns` has 1 for each changed column, else 0."""

DISPLACED = "MSmerge_displaced"
"""Rows that the row being written may displace, by the packed key of that one and the moment of the statement.

`place` is the log's last line then; the row with `has_key` has the same primary key; `own` is the rowguid of an updated
row. Nothing in it lasts.
"""

AGENT = "MSmerge_agent"
"""Has a row in the agent's write transactions, by which programs' triggers can leave its writes out.

It is also what opens the guards of our tables.
"""

INDEXES = {CONTENTS: "MSmerge_contents_stamp", TOMBSTONE: "MSmerge_tombstone_stamp"}

TABLES = Tables(CONTENTS, TOMBSTONE, LOG, mappings=definitions.partition_mappings.name)

# `origin` is the node that a version came from, null for a change of this one's.
_COLUMNS = {
    CONTENTS: "origin integer, priority real, lineage blob, last blob, colv blob, own_columns text, bases text",
    TOMBSTONE: "type integer not null, origin integer, priority real, lineage blob, last blob",
}
DEFINITIONS = (
    exact_numbers.DEFINITION,
    f"create table if not exists {AGENT} (is_writing integer not null)",
    (
        f"create table if not exists {LOG} "
        "(tablenick integer not null, rowguid text not null, kind integer not null, columns text, base text)"
    ),
    (
        f"create table if not exists {DISPLACED} (tablenick integer not null, rowguid text not null, "
        "written text not null, moment real not null, place integer not null, has_key integer, columns text, "
        "base text, own text)"
    ),
    f"create index if not exists {DISPLACED}_moment on {DISPLACED} (moment, written)",
)
"""The statements that create the other tables."""


def create(connection: Connection, session: sqlite3.Connection) -> None:
    """Create the tables that do not exist, and give the node its nickname, in the caller's transaction."""
    clock.create(session)
    metadata.create_all(connection)
    for table, columns in _COLUMNS.items():
        session.execute(
            f"create table if not exists {table} (tablenick integer not null, rowguid text not null, "
            f"stamp integer not null, {columns}, primary key (tablenick, rowguid)) without rowid"
        )
        session.execute(f"create index if not exists {INDEXES[table]} on {table} (tablenick, stamp)")
    for definition in DEFINITIONS:
        session.execute(definition)
    if connection.execute(select(replinfo.c.nickname)).first() is None:
        connection.execute(insert(replinfo).values(nickname=new_nickname()))


def drop(connection: Connection, session: sqlite3.Connection) -> None:
    """Remove all tables, in the caller's transaction."""
    metadata.drop_all(connection)
    definitions.notes_metadata.drop_all(connection)
    device_metadata.drop_all(connection)
    for table in (*_COLUMNS, LOG, DISPLACED, exact_numbers.EXACT):
        session.execute(f"drop table if exists {table}")
    clock.drop(session)
    # A program's trigger that asks it would fail without it.
    asked = "select 1 from main.sqlite_schema where type = 'trigger' and sql like ?"
    if session.execute(asked, (f"%{AGENT}%",)).fetchone() is None:
        session.execute(f"drop table if exists {AGENT}")


def forget(session: sqlite3.Connection, nickname: int) -> None:
    """Remove the metadata of a table's rows, in the caller's transaction."""
    for table in (*_COLUMNS, LOG, DISPLACED, exact_numbers.EXACT, row_hashes.name):
        session.execute(f"delete from {table} where tablenick = ?", (nickname,))
