"""Remove old tombstones; anchors that might still need them are refused from then on."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres import clock
from rowtide.tracking.changes import EnumerationRequest
from rowtide.tracking.options import PurgeType
from rowtide.tracking.postgres.enumeration import enumerate_changes
from rowtide.tracking.postgres.system_tables import (
    TOMBSTONES,
    get_tracked,
    list_tracked,
    require_tracking,
    set_min_valid,
)

_CHUNK_ROWS = 10_000
_OLD_TOMBSTONE = {
    PurgeType.TIME_BASED: "\"__sysDeletedTime\" <= now() - :value * interval '1 day'",
    PurgeType.CSN_BASED: "csn <= :value",
}
_OLD_TRANSACTION = {
    PurgeType.TIME_BASED: "\"__sysCommitTime\" <= now() - :value * interval '1 day'",
    PurgeType.CSN_BASED: '"__sysTxCsn" <= :value',
}


def purge_tombstones(engine: Engine, table: str | None, purge_type: PurgeType, value: int) -> int:
    """Remove tombstones of one table or of all; return how many.

    In the same transactions, tables' minimum valid CSN advances to the highest removed one. Then anchors that no table
    accepts are removed too. Raises `NotTracked`, `NothingTracked`.
    """
    with engine.connect() as connection:
        if table is not None:
            get_tracked(connection, table)
    with enumerate_changes(engine, EnumerationRequest(())) as numbered, engine.connect() as connection:
        tables = list_tracked(connection) if table is None else (get_tracked(connection, table),)
        seen = clock.find_anchor_snapshot(connection, numbered.anchor).snapshot
        connection.commit()
        purged = sum(_purge_table(connection, tracked.name, purge_type, value, seen) for tracked in tables)
        clock.forget_anchors(connection, min(tracked.min_valid_csn for tracked in list_tracked(connection)))
        connection.commit()
    return purged


def purge_transactions(engine: Engine, purge_type: PurgeType, value: int) -> int:
    """Remove transactions from the commit sequence; return how many.

    Transactions with tombstones stay: without its transaction's CSN, a tombstone would count as older than it is.
    """
    statement = (
        f"delete from {clock.COMMIT_SEQUENCE} s where {_OLD_TRANSACTION[purge_type]} and not exists "
        f'(select from {TOMBSTONES} d where d."__sysDeleteTxBsn" = s."__sysTxBsn")'
    )
    with engine.begin() as connection:
        require_tracking(connection)
        return connection.execute(text(statement), {"value": value}).rowcount


def _purge_table(connection: Connection, table: str, purge_type: PurgeType, value: int, seen: str) -> int:
    """Remove a table's old tombstones in batches, of transactions that already have a CSN.

    They must be visible to the last anchor: a lower number alone does not suffice, as the transaction may have
    committed after the anchor.
    """
    purged = 0
    while chunk := _purge_chunk(connection, table, purge_type, value, seen):
        purged += chunk
    return purged


def _purge_chunk(connection: Connection, table: str, purge_type: PurgeType, value: int, seen: str) -> int:
    parameters = {"table": table, "value": value, "seen": seen}
    with connection.begin():
        removed = connection.execute(text(_PURGE.format(is_old=_OLD_TOMBSTONE[purge_type])), parameters).scalars().all()
        if removed:
            set_min_valid(connection, table, max(removed))
        failpoint("postgres_purge.before")
    failpoint("postgres_purge.after")
    return len(removed)


_PURGE = f"""
with numbered as (
    select d.ctid as place, d."__sysDeletedTime", coalesce(s."__sysTxCsn", d."__sysDeleteTxBsn") as csn
    from {TOMBSTONES} d left join {clock.COMMIT_SEQUENCE} s on s."__sysTxBsn" = d."__sysDeleteTxBsn"
    where d."__sysTN" = :table
    and pg_visible_in_snapshot(d."__sysDeleteTxBsn"::text::xid8, cast(:seen as pg_snapshot))),
chosen as (select place, csn from numbered where {{is_old}} limit {_CHUNK_ROWS})
delete from {TOMBSTONES} d using chosen where d.ctid = chosen.place returning chosen.csn
"""
