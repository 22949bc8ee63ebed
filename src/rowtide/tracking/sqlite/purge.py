"""Remove old tombstones; anchors that might still need them are refused from then on."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from rowtide.core.formats import StoreFormat
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import write_transaction
from rowtide.databases.sqlite.guarding import writing
from rowtide.tracking.options import PurgeType, TrackedTable
from rowtide.tracking.sqlite.system_tables import (
    COMMIT_SEQUENCE,
    TOMBSTONES,
    get_tracked,
    list_tracked,
    put_tracked,
    require_tracking,
)

_CHUNK_ROWS = 10_000

_OLD_TOMBSTONE = {
    PurgeType.TIME_BASED: "__sysDeletedTime <= julianday('now') - :value",
    PurgeType.CSN_BASED: "__sysDeleteTxBsn <= :value",
}
_OLD_TRANSACTION = {
    PurgeType.TIME_BASED: "__sysCommitTime <= julianday('now') - :value",
    PurgeType.CSN_BASED: "__sysTxCsn <= :value",
}


def purge_tombstones(connection: sqlite3.Connection, table: str | None, purge_type: PurgeType, value: int) -> int:
    """Remove tombstones of one table or of all; return how many.

    In the same transactions, tables' minimum valid CSN advances to the highest removed one. Then anchors that no table
    accepts are removed too. Raises `NotTracked`, `FileBusy`.
    """
    require = StoreFormat.require_writable
    tables = list_tracked(connection, require) if table is None else (get_tracked(connection, table, require),)
    purged = sum(_purge_table(connection, tracked.name, _OLD_TOMBSTONE[purge_type], value) for tracked in tables)
    with write_transaction(connection):
        forget_anchors(connection, list_tracked(connection))
    return purged


def purge_transactions(connection: sqlite3.Connection, purge_type: PurgeType, value: int) -> int:
    """Remove transactions from the commit sequence; return how many. Raises `NothingTracked`."""
    statement = f"delete from {COMMIT_SEQUENCE} where {_OLD_TRANSACTION[purge_type]}"
    require_tracking(connection)
    with write_transaction(connection), writing(connection):
        return connection.execute(statement, {"value": value}).rowcount


def _purge_table(connection: sqlite3.Connection, table: str, condition: str, value: int) -> int:
    """Remove a table's old tombstones in batches, so that other writers can write in between."""
    purged = 0
    while chunk := _purge_chunk(connection, table, condition, value):
        purged += chunk
    return purged


def _purge_chunk(connection: sqlite3.Connection, table: str, condition: str, value: int) -> int:
    chunk = (
        f"select __sysId, __sysDeleteTxBsn as bsn from {TOMBSTONES} "
        f"where __sysTN = :table and {condition} order by __sysId limit {_CHUNK_ROWS}"
    )
    parameters = {"table": table, "value": value}
    with write_transaction(connection):
        highest = connection.execute(f"select max(bsn) from ({chunk})", parameters).fetchone()[0]
        if highest is None:
            return 0
        tracked = get_tracked(connection, table)
        put_tracked(connection, replace(tracked, min_valid_csn=max(tracked.min_valid_csn, highest)))
        delete = f"delete from {TOMBSTONES} where __sysId in (select __sysId from ({chunk}))"
        with writing(connection):
            return connection.execute(delete, parameters).rowcount


def forget_anchors(connection: sqlite3.Connection, tables: Sequence[TrackedTable]) -> None:
    """Remove the anchors that every table would refuse, in the caller's transaction."""
    if tables:
        clock.forget_anchors(connection, min(tracked.min_valid_csn for tracked in tables))
