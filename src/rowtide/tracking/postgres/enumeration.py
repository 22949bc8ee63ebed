"""What changed in PostgreSQL tables since an anchor, all tables in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sqlalchemy import Connection, Engine, text

from rowtide.core.anchors import Anchor
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.clock import Taken
from rowtide.databases.postgres.connect import load_texts
from rowtide.databases.postgres.quoting import statement
from rowtide.tracking.changes import Change, Changes, Request
from rowtide.tracking.errors import AnchorTooOld, TrackingLost
from rowtide.tracking.options import TrackedTable
from rowtide.tracking.postgres.new_partitions import take_in_partitions
from rowtide.tracking.postgres.queries import (
    Query,
    Window,
    all_rows,
    deleted,
    stamps_since,
    tombstones_since,
    touched,
    was_truncated,
    written,
)
from rowtide.tracking.postgres.subjects import subject_of
from rowtide.tracking.postgres.system_tables import (
    get_tracked,
    list_tracked,
    note_loss,
    require_tracking,
    settle_truncations,
)
from rowtide.tracking.postgres.verification import find_loss

_FETCHED_ROWS = 5_000


@contextmanager
def enumerate_changes(engine: Engine, request: Request) -> Iterator[Changes]:
    """Yield the changes, from a snapshot that another connection keeps: the clock is free while they are read.

    Raises `NotTracked`, `TrackingLost`, `AnchorTooOld`, `UnknownAnchor`, `ServerIsStandby`.
    """
    with engine.connect() as writer, ExitStack() as stack:
        take_in_partitions(writer, engine)
        try:
            with clock.taking_anchors(writer):
                changes = _open_window(writer, engine, request, stack)
        except TrackingLost as loss:
            _note(writer, loss)
            raise
        yield changes


def find_touched(connection: Connection, table: str, packed: Sequence[str], since: Anchor, own_bsn: int | None) -> str:
    """Return the query whether a row was written or deleted after an anchor, but for the transaction `own_bsn`.

    It is to be run on the connection that is about to write. Raises as enumerating does.
    """
    tracked = get_tracked(connection, table)
    taken = clock.find_taken(connection, since)
    _check(connection, tracked)
    _check_age(connection, tracked, taken)
    return touched(subject_of(connection, tracked), packed, taken, own_bsn)


def _open_window(writer: Connection, engine: Engine, request: Request, stack: ExitStack) -> Changes:
    tracked = [get_tracked(writer, name) for name in request.tables]
    require_tracking(writer)
    since = None if request.since is None else clock.find_taken(writer, request.since)
    tables, deletes, writes = [], [], []
    for table in tracked:
        _check(writer, table)
        subject = subject_of(writer, table)
        tables.append(subject.declared)
        if since is None or request.since_of(table.name) is None:
            writes.append(all_rows(subject))
            continue
        _check_age(writer, table, since)
        window = Window(since, request.exclude_context)
        deletes.append(deleted(subject, window))
        writes.append(written(subject, window))
    lowest = max((table.min_valid_csn for table in list_tracked(writer)), default=0)
    taken = clock.take_anchor(writer, lambda last: _stamps_since(writer, last), lowest_csn=lowest)
    settle_truncations(writer, taken.anchor.csn)
    reader = _import_snapshot(writer, engine, stack)
    if request.as_texts:
        load_texts(reader)
    # Parents are named before their children, whose deletes go first.
    return Changes(taken.anchor, tuple(tables), _read(reader, [*reversed(deletes), *writes]))


def _check(connection: Connection, tracked: TrackedTable) -> None:
    loss = find_loss(connection, tracked)
    if loss is not None:
        raise loss


def _check_age(connection: Connection, tracked: TrackedTable, since: Taken) -> None:
    is_cut = connection.execute(statement(was_truncated(tracked.name, since))).scalar()
    if since.anchor.csn < tracked.min_valid_csn or is_cut:
        raise AnchorTooOld(tracked.name, since.anchor, tracked.min_valid_csn)


def _stamps_since(connection: Connection, last: Taken) -> Iterable[int]:
    """Return the BSNs of all tracked tables' stamps that an anchor does not see; those that were lost have none."""
    found = set(connection.execute(statement(tombstones_since(last))).scalars())
    for tracked in list_tracked(connection):
        if find_loss(connection, tracked) is None:
            subject = subject_of(connection, tracked)
            found |= set(connection.execute(statement(stamps_since(subject, last))).scalars())
    return found


def _import_snapshot(writer: Connection, engine: Engine, stack: ExitStack) -> Connection:
    """Return another connection in a transaction with the writer's snapshot."""
    name = writer.execute(text("select pg_export_snapshot()")).scalar_one()
    reader = stack.enter_context(engine.connect())
    reader = reader.execution_options(isolation_level="REPEATABLE READ")
    reader.execute(text(f"set transaction snapshot '{name}'"))
    return reader


def _read(reader: Connection, queries: Sequence[Query]) -> Iterator[Change]:
    for query in queries:
        for row in reader.execute(statement(query.sql), execution_options={"yield_per": _FETCHED_ROWS}):
            yield query.as_change(row)


def _note(writer: Connection, loss: TrackingLost) -> None:
    with writer.begin():
        note_loss(writer, loss.table)
