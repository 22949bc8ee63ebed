"""Changes of PostgreSQL tables since an anchor, all tables in one snapshot, and the purge of old tombstones."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress

from psycopg.errors import InvalidSchemaName, UndefinedTable
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import ProgrammingError

from rowtide.core.anchors import Anchor
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.clock import AnchorSnapshot
from rowtide.databases.postgres.connect import load_texts
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.tracking.changes import Change, EnumerationRequest, TrackedChanges
from rowtide.tracking.errors import AnchorTooOld, TrackingLost
from rowtide.tracking.options import PurgeType, Storage, TrackedTable
from rowtide.tracking.postgres.queries import (
    PostgresAnchorWindow,
    PostgresChangeQuery,
    all_rows,
    deleted,
    stamps_since,
    tombstones_since,
    touched,
    was_truncated,
    written,
)
from rowtide.tracking.postgres.stamps import stamps_of
from rowtide.tracking.postgres.system_tables import (
    STAMPED,
    TOMBSTONES,
    get_tracked,
    list_tracked,
    note_loss,
    require_tracking,
    set_min_valid,
    settle_truncations,
)
from rowtide.tracking.postgres.tracked_tables import PostgresSubject, require_own_plans
from rowtide.tracking.postgres.verification import attach_partitions, look_at

_FETCHED_ROWS = 5_000
_READING = text(
    "select set_config('enable_seqscan', 'off', true), set_config('row_security', 'off', true), "
    "case when current_setting('restrict_nonsystem_relation_kind', true) is not null "
    "then set_config('restrict_nonsystem_relation_kind', 'view', true) end"
)
"""Sets a transaction's settings.

The planner cannot estimate how few rows have recent stamps, and would scan the whole table. A policy that hides rows is
an error: an anchor counts as if its holder had them, and tombstones have no policies. A view in a table's place
would call its owner's functions with the rights of the reader; an owner can rename the schema of a locked table.
"""


class _TablesMoved(Exception):
    """A tracked table was replaced by another of its name since the tables were listed."""


@contextmanager
def enumerate_changes(engine: Engine, request: EnumerationRequest) -> Iterator[TrackedChanges]:
    """Yield the changes, in a snapshot held by another connection, so that the clock's lock is released meanwhile.

    A table truncated or rewritten before it is locked appears empty, even in earlier snapshots; everything is then read
    in a later snapshot. So it is if another one has a table's name. Raises `NotTracked`, `TrackingLost`,
    `TrackedPlanCallsCode`, `AnchorTooOld`, `UnknownAnchor`, `ServerIsStandby`.
    """
    with engine.connect() as writer:
        attach_partitions(writer, engine)
        while True:
            # Again from a new snapshot where a table was rewritten before it was locked; the anchor that was taken for
            # it is harmless.
            with ExitStack() as stack, suppress(_TablesMoved):
                opened = _open_window(writer, engine, request, stack)
                if _lock_as_seen(writer, opened):
                    if request.as_texts:
                        load_texts(opened.reader)
                    # It is closed where the caller has not read to the end, before the connection is.
                    declared = tuple(subject.declared for subject in opened.subjects)
                    yield TrackedChanges(opened.anchor, declared, stack.enter_context(closing(_read(opened))))
                    return


def find_touched(
    connection: Connection, table: str, packed: Sequence[str], since: Anchor, own_bsn: int | None
) -> tuple[PostgresSubject, str]:
    """Return the query whether a row was written or deleted after an anchor, except by transaction `own_bsn`.

    Run it on the connection that is about to write, once it has locked the subject and `is_safe` says so, with
    `row_security` off. Raises as enumerating.
    """
    tracked = get_tracked(connection, table)
    taken = clock.find_anchor_snapshot(connection, since)
    subject = _require(look_at(connection, tracked))
    _check_age(connection, tracked, taken)
    return subject, touched(subject, packed, taken, own_bsn)


def locking(subjects: Iterable[PostgresSubject]) -> str:
    """Return the statement that prevents tables from being truncated, altered or renamed."""
    holders = (quote_qualified(*stamps_of(subject).holder) for subject in subjects)
    return _locking([*(subject.quoted for subject in subjects), *holders])


def _locking(names: Iterable[str]) -> str:
    return f"lock table {', '.join(dict.fromkeys(names))} in access share mode"


def is_safe(connection: Connection, subjects: Collection[PostgresSubject]) -> bool:
    """Return whether locked tables are those that were checked, in a new snapshot, without waiting for other sessions.

    An owner could have put another relation in a table's place, or made an index, while a lock of its own was waited
    for. Raises `TrackedPlanCallsCode`.
    """
    expected = {subject.quoted: subject.table.source_id for subject in subjects}
    named = {"names": list(expected), "ids": list(expected.values())}
    if connection.execute(text(_IS_MOVED), named).scalar():
        return False
    require_own_plans(connection, subjects)
    return True


@frozen
class _OpenedWindow:
    """A window whose anchor is taken; `reader` has its snapshot."""

    anchor: Anchor
    reader: Connection
    subjects: tuple[PostgresSubject, ...]
    queries: tuple[PostgresChangeQuery, ...]


def _open_window(writer: Connection, engine: Engine, request: EnumerationRequest, stack: ExitStack) -> _OpenedWindow:
    try:
        names = _list_read(writer)
        with clock.taking_anchors(writer):
            return _take_window(writer, engine, request, stack, names)
    except TrackingLost as loss:
        _note(writer, loss)
        raise


def _list_read(writer: Connection) -> list[str]:
    """Return the quoted names of the tables that have their rows' stamps."""
    is_any = list_tracked(writer) != ()
    found = writer.execute(text(STAMPED)).all() if is_any else ()
    writer.commit()
    return [quote_qualified(schema, name) for schema, name in found]


def _take_window(
    writer: Connection, engine: Engine, request: EnumerationRequest, stack: ExitStack, names: Collection[str]
) -> _OpenedWindow:
    # Locked first: a lock takes no snapshot, so the transaction's snapshot, in which the tables are checked, is later,
    # and they cannot change until their stamps are read.
    _lock(writer, _locking(names) if names else None)
    writer.execute(_READING)
    tracked = [get_tracked(writer, name) for name in request.tables]
    require_tracking(writer)
    since = None if request.since is None else clock.find_anchor_snapshot(writer, request.since)
    whole = {get_tracked(writer, name).name for name in request.whole}
    all_tracked = list_tracked(writer)
    looks = {table.name: look_at(writer, table) for table in all_tracked}
    # An anchor depends on the stamps of all tables: a transaction that wrote one that is not asked for, too, needs its
    # number now.
    whole_ones = [look for look in looks.values() if isinstance(look, PostgresSubject)]
    if not {look.quoted for look in whole_ones if look.storage is Storage.ROW} <= {*names}:
        raise _TablesMoved
    reader = stack.enter_context(engine.connect())
    # In a snapshot of its own: looking at tables that are not locked here may have waited for their owners.
    require_own_plans(reader, whole_ones)
    reader.commit()
    subjects: list[PostgresSubject] = []
    deletes, writes = [], []
    for table in tracked:
        subject = _require(looks[table.name])
        subjects.append(subject)
        if since is None or table.name in whole:
            writes.append(all_rows(subject))
            continue
        _check_age(writer, table, since)
        window = PostgresAnchorWindow(since, request.exclude_context)
        deletes.append(deleted(subject, window))
        writes.append(written(subject, window))
    lowest = max((table.min_valid_csn for table in all_tracked), default=0)
    taken = clock.take_anchor(writer, lambda last: _stamps_since(writer, whole_ones, last), lowest_csn=lowest)
    settle_truncations(writer, taken.anchor.csn)
    reader = _import_snapshot(writer, reader)
    # Parents are named before their children, whose deletes go first.
    return _OpenedWindow(taken.anchor, reader, tuple(subjects), (*reversed(deletes), *writes))


def _require(look: PostgresSubject | TrackingLost) -> PostgresSubject:
    if isinstance(look, TrackingLost):
        raise look
    return look


def _check_age(connection: Connection, tracked: TrackedTable, since: AnchorSnapshot) -> None:
    # A TRUNCATE of many rows leaves no tombstones: readers that have the rows begin again with a full copy.
    is_cut = connection.execute(statement(was_truncated(tracked.name, since))).scalar()
    if since.anchor.csn < tracked.min_valid_csn or is_cut:
        raise AnchorTooOld(tracked.name, since.anchor, tracked.min_valid_csn)


def _stamps_since(connection: Connection, subjects: Sequence[PostgresSubject], last: AnchorSnapshot) -> Iterable[int]:
    """Return the BSNs, in all tombstones and in some tables' stamps, that an anchor does not see."""
    found = set(connection.execute(statement(tombstones_since(last))).scalars())
    for subject in subjects:
        found |= set(connection.execute(statement(stamps_since(subject, last))).scalars())
    return found


def _import_snapshot(writer: Connection, reader: Connection) -> Connection:
    """Return another connection, in a transaction with the writer's snapshot."""
    # Rows are read by another transaction with the same snapshot: the writer can then commit, and other anchors be
    # taken.
    name = writer.execute(text("select pg_export_snapshot()")).scalar_one()
    reader = reader.execution_options(isolation_level="REPEATABLE READ")
    reader.execute(text(f"set transaction snapshot '{name}'"))
    reader.execute(_READING)
    return reader


def _lock_as_seen(writer: Connection, opened: _OpenedWindow) -> bool:
    """Lock the tables; return whether they are as they were in the snapshot: neither truncated nor rewritten since.

    Raises `TrackedPlanCallsCode`.
    """
    if not opened.subjects:
        return True
    # TRUNCATE and rewrites are not transactional for earlier snapshots (PostgreSQL, "Caveats" of MVCC): once locked,
    # they can be looked for and cannot come later.
    _lock(opened.reader, locking(opened.subjects))
    parts = [part for subject in opened.subjects for part in subject.table_ids]
    is_rewritten = opened.reader.execute(text(_IS_REWRITTEN), {"parts": parts}).scalar()
    with writer.begin():
        return not is_rewritten and is_safe(writer, opened.subjects)


def _lock(connection: Connection, locks: str | None) -> None:
    """Lock tables. Raises `_TablesMoved` if there is none of a name any more."""
    if locks is None:
        return
    try:
        connection.execute(statement(locks))
    except ProgrammingError as error:
        if isinstance(error.orig, (UndefinedTable, InvalidSchemaName)):
            raise _TablesMoved from error
        raise


_IS_MOVED = """
select exists (
    select from unnest(cast(:names as text[]), cast(:ids as oid[])) looked(name, id)
    where to_regclass(looked.name) is distinct from looked.id)
"""


# The catalogue is read as the snapshot has it, the function's result as it is now.
_IS_REWRITTEN = """
select exists (
    select from pg_class where oid = any(cast(:parts as oid[]))
    and relfilenode is distinct from coalesce(pg_relation_filenode(oid), 0))
"""


def _read(opened: _OpenedWindow) -> Generator[Change]:
    options = {"yield_per": _FETCHED_ROWS}
    for query in opened.queries:
        with translated(), opened.reader.execute(statement(query.sql), execution_options=options) as rows:
            for row in rows:
                yield query.as_change(row)


def _note(writer: Connection, loss: TrackingLost) -> None:
    with writer.begin():
        note_loss(writer, loss.table, loss.lost_time)


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
            # In the transaction that removes the tombstones: an anchor older than these is refused from the moment when
            # they are gone.
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
