"""Log, contents and tombstone tables of a PostgreSQL node, and the database in which they were made.

Triggers write the log; the agent applies it to the other tables.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, text

from rowtide.databases.postgres.alterations import create_tables
from rowtide.databases.postgres.functions import own_schema, view_schema
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.merge import definitions
from rowtide.merge.catalogue import new_nickname
from rowtide.merge.definitions import SCHEMA, genhistory, metadata, replinfo, row_hashes
from rowtide.merge.nodes.postgres.metadata.identity import read_identity
from rowtide.merge.versions.apply import Tables

CONTENTS = quote_qualified(SCHEMA, definitions.CONTENTS)
TOMBSTONE = quote_qualified(SCHEMA, definitions.TOMBSTONE)
LOG = quote_qualified(SCHEMA, "MSmerge_log")
"""Users' changes since the log was last applied; `columns` has one boolean per column: whether it was changed.

`key` is the text of a deleted row's primary key.
"""
LOG_INDEX = f'create index if not exists "MSmerge_log_deleted" on {LOG} (stamp, key) where kind = 3'
"""The statement of the index by which a transaction finds the rows that it has deleted."""
LOG_ORDER = quote_qualified(SCHEMA, "MSmerge_log_order")
"""Orders the entries of rows with an additive column."""

OF_TABLE = "(tablenick + 0)"
"""The table's number as an expression that only the indexes by stamp match; queries by rowguid do not use these."""

# A server that believes a table empty, as it does until it looks again, takes any way to read it for as good as the
# one by rowguid, and reads all of it for each row. A subquery that it may not take apart leaves it that one.
# Synchronisations of 100,000 rows took one to five minutes instead of four seconds. Statistics cannot be relied on:
# `analyze` waits for an autovacuum, or passes the table over; and settings such as enable_seqscan forbid one plan, and
# hold for the user's triggers too. Look-ups make downloads slower by up to a tenth.
_LOOKUP = "left join lateral (select * from {table} {alias} where {condition} offset 0) {alias} on true "
_REMOVAL = (
    "delete from {table} where ctid = any (array(select o.ctid from ({rows}) n, lateral (select m.ctid from {table} m "
    "where m.tablenick = {nickname} and m.rowguid = n.rowguid offset 0) o))"
)
# Here a recursive query may be named once in itself.
_STEPS = ("select rowtide_step.* from {name} {row} cross join lateral ({steps}) rowtide_step", " union all ")
TABLES = Tables(
    CONTENTS,
    TOMBSTONE,
    LOG,
    _LOOKUP,
    _REMOVAL,
    "(select) rowtide_one",
    _STEPS,
    "string_agg({}, ',')",
    replaces=False,
    mappings=quote_qualified(SCHEMA, definitions.partition_mappings.name),
)

GENHISTORY = quote_qualified(SCHEMA, genhistory.name)
SEEN = "(split_part(snapshot, ':', 2)::bigint)"
"""The transaction from which on a generation's snapshot sees nothing."""
GENERATIONS_INDEX = (
    f'create index if not exists "MSmerge_genhistory_seen" on {GENHISTORY} ({SEEN}, generation) '
    "where snapshot is not null"
)
"""The statement of the index by which a transaction's generation is found."""

# `origin` is the node that a version came from, null for a change of this one's.
_COLUMNS = {
    CONTENTS: (
        "origin bigint, priority double precision, lineage bytea, last bytea, colv bytea, own_columns bigint[], "
        "bases text"
    ),
    TOMBSTONE: "type smallint not null, origin bigint, priority double precision, lineage bytea, last bytea",
}
_INDEXES = {CONTENTS: "MSmerge_contents_stamp", TOMBSTONE: "MSmerge_tombstone_stamp"}


def create(connection: Connection) -> None:
    """Create the tables that do not exist, and give the node its nickname, in the caller's transaction."""
    for creation in own_schema(SCHEMA):
        connection.execute(statement(creation))
    create_tables(connection, metadata)
    for table, columns in _COLUMNS.items():
        connection.execute(
            text(
                f"create table if not exists {table} (tablenick int not null, rowguid uuid not null, "
                f"stamp bigint not null, {columns}, primary key (rowguid, tablenick))"
            )
        )
        connection.execute(text(f'create index if not exists "{_INDEXES[table]}" on {table} (stamp, {OF_TABLE})'))
    # Its lines are deleted as soon as they are applied: autovacuum has to remove dead ones often, whatever the table's
    # size.
    connection.execute(
        text(
            f"create table if not exists {LOG} (tablenick int not null, rowguid uuid not null, kind smallint not null, "
            "stamp bigint not null, columns boolean[], base text, ordinal bigint, key text) "
            "with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"
        )
    )
    connection.execute(text(LOG_INDEX))
    connection.execute(text(f"create sequence if not exists {LOG_ORDER}"))
    connection.execute(statement(GENERATIONS_INDEX))
    if connection.execute(select(replinfo.c.nickname)).first() is None:
        connection.execute(insert(replinfo).values(nickname=new_nickname(), place=read_identity(connection)))


def drop(connection: Connection) -> None:
    """Remove all tables, in the caller's transaction."""
    connection.execute(text(f"drop schema {SCHEMA} cascade"))
    connection.execute(text(f"drop schema if exists {view_schema(SCHEMA)} cascade"))


def forget(connection: Connection, nickname: int) -> None:
    """Remove the metadata of a table's rows, in the caller's transaction."""
    for table in (*_COLUMNS, LOG, _HASHES):
        connection.execute(text(f"delete from {table} where tablenick = :nickname"), {"nickname": nickname})


_HASHES = quote_qualified(SCHEMA, row_hashes.name)
