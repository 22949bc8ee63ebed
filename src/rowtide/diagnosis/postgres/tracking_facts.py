"""Read facts about change tracking in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, text

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.alterations import read_validity
from rowtide.databases.postgres.catalogue import has_schema, read_tables
from rowtide.databases.postgres.functions import as_seen, view_schema
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.rowguid import rowguid_key
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.tracked_tables import NO_TOMBSTONES, OLD_DAYS, Tombstones, TrackedFacts, TrackingLoss
from rowtide.log.postgres.table_publications import is_of_table
from rowtide.tracking.errors import TrackingKeyMissing
from rowtide.tracking.options import Storage, TrackedTable, TrackingOptions
from rowtide.tracking.postgres.stamps import stamps_of
from rowtide.tracking.postgres.system_tables import TOMBSTONES, find_refusal, list_tracked, read_as_made
from rowtide.tracking.postgres.tracked_tables import CHANGE_BSN, PostgresSubject, find_present, is_trackable, with_key
from rowtide.tracking.postgres.tracking import can_be_given_rowguid, stamp_index_of
from rowtide.tracking.postgres.verification import GROWN, find_damage, find_known

_OUR_TABLES = ("__sysOCSTrackedObjects", "__sysOCSDeletedRows", "__sysAnchors")


@frozen
class Readers:
    """The readers that get a table's columns from the log: publications without a column list, and capture.

    Publications of all tables are omitted.
    """

    publications: tuple[str, ...] = ()
    is_captured: bool = False


@frozen
class StampFacts:
    """Where a tracked table's stamps are: the size of that in bytes, and what the server's statistics know of them.

    `correlation` is that of the stamps with their places, None before the first `analyze`; `has_whole_index` says that
    the index of tracking is there and valid, `has_row_index` that some index is of single rows.
    """

    holder: str
    byte_count: int
    correlation: float | None
    has_whole_index: bool
    has_row_index: bool


@frozen
class TrackedTableFacts:
    """A tracked table; what is beyond `base` is empty where it was dropped or its tracking lost.

    `lost_names` are columns that its triggers name and it has not.
    """

    base: TrackedFacts
    table: SourceTable | None
    lost_names: tuple[str, ...]
    stamps: StampFacts | None
    readers: Readers


@frozen
class CandidateFacts:
    """A table that the user named and that is not tracked; `can_have_rowguid`: enabling makes it one."""

    table: SourceTable
    is_trackable: bool
    has_rowguid: bool
    can_have_rowguid: bool
    readers: Readers


@frozen
class TrackingFacts:
    """What is tracked in the database; `is_readable`: the role may read that.

    `refusal` says why this build does not use what is there; then nothing else is known of tables.
    `whole_publications` are those of all tables.
    """

    is_there: bool
    is_readable: bool
    has_commit_times: bool
    whole_publications: tuple[str, ...]
    refusal: RowtideError | None
    tables: tuple[TrackedTableFacts, ...]
    candidates: tuple[CandidateFacts, ...]


def read_tracking(connection: Connection, named: Collection[int], publication: str | None) -> TrackingFacts:
    """Return what is to be checked: of the named tables, else of all tracked ones.

    `publication` is the one of capture; other publications of a table are listed.
    """
    may_read = _find_readability(connection)
    refusal = find_refusal(connection) if may_read else None
    tracked = list_tracked(connection) if may_read and refusal is None else ()
    present = {one.name: find_present(connection, one)[1] for one in tracked}
    known = {table.source_id for table in present.values() if table is not None}
    chosen = [one for one in tracked if not named or getattr(present[one.name], "source_id", None) in named]
    candidates = read_tables(connection, [source_id for source_id in named if source_id not in known])
    return TrackingFacts(
        is_there=may_read is not None,
        is_readable=may_read is not False,
        has_commit_times=bool(connection.execute(text(_COMMIT_TIMES)).scalar()),
        whole_publications=tuple(connection.execute(text(_WHOLE_PUBLICATIONS)).scalars()),
        refusal=refusal,
        tables=tuple(_read_tracked(connection, chosen, present, publication)),
        candidates=tuple(_read_candidate(connection, table, publication) for table in candidates if refusal is None),
    )


def _find_readability(connection: Connection) -> bool | None:
    """Return whether the role is to read what is tracked; None where nothing is.

    Where there are views for monitors it is one of these: what it lacks to read them is an error that says so.
    """
    may_read: bool | None = connection.execute(
        text(_RIGHTS), {"schema": clock.SCHEMA, "tables": list(_OUR_TABLES)}
    ).scalar()
    return may_read if may_read is None else may_read or has_schema(connection, view_schema(clock.SCHEMA))


def _read_tracked(
    connection: Connection,
    tracked: Sequence[TrackedTable],
    present: dict[str, SourceTable | None],
    publication: str | None,
) -> Iterator[TrackedTableFacts]:
    tombstones = _read_tombstones(connection) if tracked else {}
    for one in tracked:
        table = present[one.name]
        loss = _read_loss(connection, one, table)
        base = TrackedFacts(one, loss, tombstones.get(one.name, NO_TOMBSTONES))
        if table is None:
            yield TrackedTableFacts(base, None, (), None, Readers())
            continue
        subject = PostgresSubject(table, (), one.options, one.storage)
        is_whole = loss is None
        yield TrackedTableFacts(
            base=base,
            table=table,
            lost_names=_find_lost_names(connection, one, table),
            stamps=_read_stamps(connection, subject) if is_whole else None,
            readers=_read_readers(connection, table, publication) if is_whole else Readers(),
        )


def _find_lost_names(connection: Connection, tracked: TrackedTable, table: SourceTable) -> tuple[str, ...]:
    """Return the columns that triggers name and the table has not: writes that need them fail."""
    if tracked.storage is Storage.ROW and TrackingOptions.DELETE not in tracked.options:
        return ()
    present = {column.name for column in table.columns}
    return tuple(name for name in read_as_made(connection, tracked.name).key if name not in present)


def _read_loss(connection: Connection, tracked: TrackedTable, table: SourceTable | None) -> TrackingLoss | None:
    why = find_damage(connection, tracked)
    if why is None and find_known(connection, tracked):
        why = GROWN
    if why is None and tracked.lost_time is None:
        return None
    return TrackingLoss(
        why=why or "what was missing is there again, but it has not been resumed",
        since=tracked.lost_time,
        is_dropped=table is None,
        lacks_key=table is not None and not _has_key(table, tracked),
    )


def _has_key(table: SourceTable, tracked: TrackedTable) -> bool:
    try:
        with_key(table, tracked)
    except TrackingKeyMissing:
        return False
    return True


def _read_tombstones(connection: Connection) -> dict[str, Tombstones]:
    rows = connection.execute(text(as_seen(connection, _TOMBSTONES, clock.SCHEMA)), {"old_days": OLD_DAYS})
    return {name: Tombstones(*counted) for name, *counted in rows}


def _read_stamps(connection: Connection, subject: PostgresSubject) -> StampFacts:
    holder = quote_qualified(*stamps_of(subject).holder)
    row = connection.execute(text(_STAMPS), {"holder": holder, "stamp": CHANGE_BSN}).one()
    is_whole = read_validity(connection, stamp_index_of(subject)) is True
    return StampFacts(holder, row.byte_count, row.correlation, is_whole, row.has_row_index)


def _read_candidate(connection: Connection, table: SourceTable, publication: str | None) -> CandidateFacts:
    return CandidateFacts(
        table=table,
        is_trackable=is_trackable(table),
        has_rowguid=bool(rowguid_key(table)),
        can_have_rowguid=can_be_given_rowguid(connection, table),
        readers=_read_readers(connection, table, publication),
    )


def _read_readers(connection: Connection, table: SourceTable, publication: str | None) -> Readers:
    names = connection.execute(text(_PUBLICATIONS), {"source_id": table.source_id}).scalars().all()
    others = (name for name in names if publication is None or not is_of_table(name, publication))
    return Readers(tuple(name for name in others if name != publication), publication in names)


_RIGHTS = """
select bool_and(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'))
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = :schema and c.relname = any(:tables)
"""

_COMMIT_TIMES = "select current_setting('track_commit_timestamp') = 'on'"

_TOMBSTONES = f"""
select "__sysTN", count(*), count(*) filter (where "__sysDeletedTime" <= now() - :old_days * interval '1 day'),
       (extract(epoch from now() - min("__sysDeletedTime")) / 86400)::float8
from {TOMBSTONES}
group by 1
"""

_STAMPS = """
select pg_relation_size(c.oid)::bigint as byte_count,
       (select s.correlation::float8 from pg_stats s
        where s.schemaname = n.nspname and s.tablename = c.relname and s.attname = :stamp
          and not s.inherited) as correlation,
       exists (select from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
               join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
               where i.indrelid = c.oid and i.indisvalid and m.amname = 'btree'
                 and a.attname = :stamp) as has_row_index
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass(:holder)
"""

_WHOLE_PUBLICATIONS = "select pubname::text from pg_publication where puballtables order by 1"

# A publication that lists a table's columns has not those that are added.
_PUBLICATIONS = """
with tree as (select relid::oid as oid from pg_partition_tree(cast(:source_id as oid))
              union select cast(:source_id as oid))
select p.pubname::text
from pg_publication p
where not p.puballtables and exists (
        select from pg_publication_tables t join pg_namespace n on n.nspname = t.schemaname
        join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
        where t.pubname = p.pubname and c.oid in (select oid from tree))
  and not exists (
        select from pg_publication_rel r
        where r.prpubid = p.oid and r.prrelid in (select oid from tree) and to_jsonb(r) ->> 'prattrs' is not null)
order by 1
"""
