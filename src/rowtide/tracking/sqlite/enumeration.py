"""Changes of SQLite tables since an anchor, all tables in one snapshot, and the purge of old tombstones."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

from rowtide.core.anchors import Anchor
from rowtide.core.formats import StoreFormat
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import path_of, write_transaction
from rowtide.databases.sqlite.errors import translated
from rowtide.databases.sqlite.guarding import writing
from rowtide.databases.sqlite.sql_text import text_encoding, unpack
from rowtide.databases.sqlite.values import decode_text, text_of
from rowtide.databases.types.value_type import SqliteValue
from rowtide.tracking.changes import Change, EnumerationRequest, TrackedChanges
from rowtide.tracking.errors import AnchorTooOld, NothingTracked, TrackingKeyShared
from rowtide.tracking.options import PurgeType, TrackedTable
from rowtide.tracking.sqlite.queries import (
    KEY_FUNCTION,
    SqliteAnchorWindow,
    SqliteChangeQuery,
    all_rows,
    deleted,
    shared_key,
    touched,
    written,
)
from rowtide.tracking.sqlite.stamps import stamps_of
from rowtide.tracking.sqlite.system_tables import (
    COMMIT_SEQUENCE,
    TOMBSTONES,
    changed_triggers,
    find_loss,
    get_tracked,
    has_tracked_objects,
    list_tracked,
    put_tracked,
    repair,
    require_tracking,
)
from rowtide.tracking.sqlite.tracked_tables import CHANGE_BSN, SqliteSubject, subject_of


@contextmanager
def enumerate_changes(writer: sqlite3.Connection, request: EnumerationRequest) -> Iterator[TrackedChanges]:
    """Yield the changes.

    `writer` holds the write lock while the anchor is taken; without WAL, until all changes are in a temporary table.
    Raises `NotTracked`, `TrackingLost`, `AnchorTooOld`, `UnknownAnchor`, `FileBusy`, `FileFailed`.
    """
    path = path_of(writer)
    with ExitStack() as stack:
        with translated(path):
            is_tracking = has_tracked_objects(writer, StoreFormat.require_writable)
            _prepare(writer, request.tables)
            if not is_tracking:
                raise NothingTracked
            with write_transaction(writer):
                changes = _open_window(writer, request, stack)
        yield changes


def _prepare(writer: sqlite3.Connection, names: Sequence[str]) -> None:
    """Record lost tracking, and repair what is possible, in transactions before the snapshot's.

    Alterations in between are found, and rows stamped, by the next enumeration. Raises `NotTracked`, `TrackingLost`.
    """
    for tracked in [get_tracked(writer, name) for name in names]:
        loss = find_loss(writer, tracked)
        if loss is not None:
            with write_transaction(writer):
                put_tracked(writer, replace(tracked, lost_time=loss.lost_time))
            raise loss
        if changed_triggers(writer, tracked):
            with write_transaction(writer):
                repair(writer, tracked)


def _open_window(writer: sqlite3.Connection, request: EnumerationRequest, stack: ExitStack) -> TrackedChanges:
    if request.since is not None:
        clock.check(writer, request.since)
    tables, deletes, writes = [], [], []
    for tracked in [get_tracked(writer, name) for name in request.tables]:
        _check_loss(writer, tracked)
        subject = subject_of(writer, tracked)
        tables.append(subject.declared)
        window, stamps = _window(writer, tracked, request), stamps_of(subject, tracked)
        _check_keys(writer, subject, shared_key(subject, stamps, window), window)
        if window is None:
            writes.append(all_rows(subject))
        else:
            deletes.append(deleted(subject, window, text_encoding(writer)))
            writes.append(written(subject, stamps, window))
    # The write lock is held since before the windows were made: nothing is written between them and the anchor.
    anchor = clock.take_anchor(writer, changed_since=partial(_is_changed, writer))
    reader = stack.enter_context(clock.snapshot(writer))
    # Parents are named before their children, whose deletes go first.
    queries = [*reversed(deletes), *writes]
    reading = _read(reader, queries) if reader is not writer else _spool(writer, queries, stack)
    # It is closed where the caller has not read to the end, before the tables or the connection that it reads are.
    found = stack.enter_context(closing(reading))
    if request.as_texts:
        found = stack.enter_context(closing(_as_texts(reader, found)))
    return TrackedChanges(anchor, tuple(tables), found)


def changed_since(connection: sqlite3.Connection, table: str, packed: str, since: Anchor, own_bsn: int | None) -> bool:
    """Return whether the row with a packed key was written or deleted after an anchor, except by transaction `own_bsn`.

    Writes nothing, so that it can be called within a transaction. Raises as enumerating.
    """
    clock.check(connection, since)
    tracked = get_tracked(connection, table)
    _check_age(tracked, since)
    _check_loss(connection, tracked)
    subject = subject_of(connection, tracked)
    window = SqliteAnchorWindow(tracked.name, since.csn, _first_tombstone(connection, since.csn), None)
    _teach_keys(connection)
    statement = touched(subject, stamps_of(subject, tracked))
    parameters = {**window.as_parameters(), "packed": packed, "own": own_bsn}
    return bool(connection.execute(statement, parameters).fetchone()[0])


def _check_loss(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    loss = find_loss(connection, tracked)
    if loss is not None:
        raise loss


def _check_age(tracked: TrackedTable, since: Anchor) -> None:
    if since.csn < tracked.min_valid_csn:
        raise AnchorTooOld(tracked.name, since, tracked.min_valid_csn)


def _check_keys(
    connection: sqlite3.Connection, subject: SqliteSubject, query: str | None, window: SqliteAnchorWindow | None
) -> None:
    # No reader can distinguish such rows, and the delete of one would be hidden by the other.
    if query is None:
        return
    _teach_keys(connection)
    found = connection.execute(query, {} if window is None else window.as_parameters()).fetchone()
    if found is not None:
        raise TrackingKeyShared(subject.name, str(unpack(found[0], text_encoding(connection))))


def _window(
    connection: sqlite3.Connection, tracked: TrackedTable, request: EnumerationRequest
) -> SqliteAnchorWindow | None:
    """Return the window for a table; None for a full copy."""
    since = request.since_of(tracked.name)
    if since is None:
        return None
    _check_age(tracked, since)
    context = None if request.exclude_context is None else str(request.exclude_context)
    return SqliteAnchorWindow(tracked.name, since.csn, _first_tombstone(connection, since.csn), context)


def _is_changed(connection: sqlite3.Connection, csn: int) -> bool:
    """Whether any tracked table has stamps above a CSN, or is tracked only since then."""
    # The cheaper check first: tombstones are found by bisection, stamps by an index of each table.
    if _first_tombstone(connection, csn) <= _last_tombstone(connection):
        return True
    return any(_is_table_changed(connection, tracked, csn) for tracked in list_tracked(connection))


def _is_table_changed(connection: sqlite3.Connection, tracked: TrackedTable, csn: int) -> bool:
    if tracked.min_valid_csn > csn:
        return True
    # Its stamps are no longer valid; an enumeration of the table raises the error.
    if find_loss(connection, tracked) is not None:
        return False
    source = stamps_of(subject_of(connection, tracked), tracked).source
    statement = f"select 1 from {source} where {CHANGE_BSN} > ? limit 1"
    return connection.execute(statement, (csn,)).fetchone() is not None


def _first_tombstone(connection: sqlite3.Connection, csn: int) -> int:
    """Return the first id of tombstones above a CSN: ids and CSNs increase together."""
    # Bisected through the primary key, which saves tombstones an index of their own that each delete would have to
    # write. Purged ids are skipped: the next existing one stands for them.
    low, high = 1, _last_tombstone(connection) + 1
    statement = f"select __sysId, __sysDeleteTxBsn from {TOMBSTONES} where __sysId >= ? order by __sysId limit 1"
    while low < high:
        middle = (low + high) // 2
        number, bsn = connection.execute(statement, (middle,)).fetchone()
        low, high = (low, middle) if bsn > csn else (number + 1, high)
    return low


def _last_tombstone(connection: sqlite3.Connection) -> int:
    return int(connection.execute(f"select coalesce(max(__sysId), 0) from {TOMBSTONES}").fetchone()[0])


def _read(reader: sqlite3.Connection, queries: Sequence[SqliteChangeQuery]) -> Generator[Change]:
    with translated(path_of(reader)), _reading_any_text(reader):
        _teach_keys(reader)
        for query in queries:
            with closing(reader.execute(query.sql, query.parameters)) as rows:
                for row in rows:
                    yield query.as_change(row)


def _spool(writer: sqlite3.Connection, queries: Sequence[SqliteChangeQuery], stack: ExitStack) -> Generator[Change]:
    """Copy the queries' rows to temporary tables, to be read after the lock is released; return their queries."""
    _teach_keys(writer)
    spools = [(f"temp.rowtide_{secrets.token_hex(8)}", query) for query in queries]
    for name, query in spools:
        writer.execute(f"create table {name} as {query.sql}", query.parameters)
        stack.callback(writer.execute, f"drop table {name}")
    return _read_spools(writer, spools)


def _read_spools(writer: sqlite3.Connection, spools: Sequence[tuple[str, SqliteChangeQuery]]) -> Generator[Change]:
    with translated(path_of(writer)), _reading_any_text(writer):
        for name, query in spools:
            with closing(writer.execute(f"select * from {name}")) as rows:
                for row in rows:
                    yield query.as_change(row)


def _as_texts(reader: sqlite3.Connection, changes: Iterator[Change]) -> Generator[Change]:
    texts_before = reader.text_factory
    reader.text_factory = decode_text
    try:
        for change in changes:
            yield replace(change, row=tuple(map(text_of, cast(tuple[SqliteValue, ...], change.row))))
    finally:
        reader.text_factory = texts_before


@contextmanager
def _reading_any_text(reader: sqlite3.Connection) -> Iterator[None]:
    """Read texts that are not valid UTF-8, too, unless the connection's user reads texts as something else."""
    texts_before = reader.text_factory
    if texts_before is str:
        reader.text_factory = decode_text
    try:
        yield
    finally:
        reader.text_factory = texts_before


def _teach_keys(connection: sqlite3.Connection) -> None:
    """Register the SQL function that unpacks keys."""
    encoding = text_encoding(connection)

    def unpacked(packed: str, place: int) -> SqliteValue:
        value = unpack(packed, encoding)[place]
        if not isinstance(value, str):
            return value
        data = value.encode("utf-8", "surrogateescape")
        # What is not valid cannot be returned as a text: no row is found by it, and it counts as deleted.
        return value if data.decode("utf-8", "ignore") == value else data

    connection.create_function(KEY_FUNCTION, 2, unpacked, deterministic=True)


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
        # In the transaction that removes the tombstones: an anchor that needs them is refused from then on.
        put_tracked(connection, replace(tracked, min_valid_csn=max(tracked.min_valid_csn, highest)))
        delete = f"delete from {TOMBSTONES} where __sysId in (select __sysId from ({chunk}))"
        with writing(connection):
            return connection.execute(delete, parameters).rowcount


def forget_anchors(connection: sqlite3.Connection, tables: Sequence[TrackedTable]) -> None:
    """Remove the anchors that every table would refuse, in the caller's transaction."""
    if tables:
        clock.forget_anchors(connection, min(tracked.min_valid_csn for tracked in tables))
