"""Removes type widening from tables, for readers without it: on request, beside the cycles of capture.

`mend_tables` inserts a request for each instance and waits for the holder of the lake lease; if there is none, it takes
the lease itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

from sqlalchemy import Connection, Engine, func, insert, select, update

from rowtide.cdc.access import own_source
from rowtide.cdc.definitions import mend_requests, require_complete
from rowtide.cdc.errors.capturing import MendingFailed
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.published import base_table_path, change_table_path, list_table_paths
from rowtide.cdc.snapshot_requests import choose_instances
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.json_records import JsonOf
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.widening_removal import Mended, mend, plan_mending as plan_table_mending
from rowtide.lake.stores import locate
from rowtide.log.errors import LeaseHeld, LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_own_manifest, open_store

BeforeCommit = Callable[[], None]


@frozen
class MendedTable:
    """A table of an instance, and what mending it does.

    `files` had narrower types and are written again: `read_bytes` of them, and `written_bytes`, None of a plan. A table
    that was not marked with type widening is left as it is.
    """

    capture_instance: str
    path: str
    was_marked: bool
    files: int
    read_bytes: int
    written_bytes: int | None

    @classmethod
    def of(cls, capture_instance: str, path: str, mended: Mended) -> MendedTable:
        """Return a table with what is done to it."""
        return cls(capture_instance, path, mended.was_marked, mended.files, mended.read_bytes, mended.written_bytes)


def plan_instance(lake: str, capture_instance: str) -> tuple[MendedTable, ...]:
    """Return what mending an instance's tables would do; the ends of their files are read. Raises `LakeReadFailed`."""
    found = _open_tables(lake, capture_instance)
    return tuple(MendedTable.of(capture_instance, path, plan_table_mending(snapshot)) for path, snapshot in found)


def mend_instance(
    lake: str,
    capture_instance: str,
    before_commit: BeforeCommit,
    on_progress: Callable[[MendedTable], None] = lambda _mended: None,
) -> tuple[MendedTable, ...]:
    """Remove type widening from an instance's change table and base; idempotent, and resumes after a kill.

    Readers of earlier versions keep the old files until a vacuum. Raises `LakeWriteFailed`, `LakeReadFailed`,
    `TableUnreadable`, `TableUnwritable`.
    """
    mended: list[MendedTable] = []
    for path, snapshot in _open_tables(lake, capture_instance):

        def report(done: Mended, path: str = path) -> None:
            on_progress(MendedTable.of(capture_instance, path, done))

        failpoint("table_mended.before")
        done = mend(snapshot.location, before_commit=before_commit, on_progress=report)
        failpoint("table_mended.after")
        mended.append(MendedTable.of(capture_instance, path, done))
    return tuple(mended)


def _open_tables(lake: str, capture_instance: str) -> Iterator[tuple[str, Snapshot]]:
    """Yield the tables of an instance that are there: capture makes the one, and its first snapshot the other."""
    for path in (change_table_path(lake, capture_instance), base_table_path(lake, capture_instance)):
        snapshot = open_snapshot(locate(path))
        if snapshot is not None:
            yield path, snapshot


_POLL_S = 1.0
_PAUSE_S = 0.2

Start = Callable[[Callable[[BeforeCommit], None]], "Future[None]"]
"""Starts long work, which calls what it is given in front of each commit."""
OnProgress = Callable[[MendedTable], None]


@frozen
class _Outcome:
    """What was done for a request, or why nothing more was."""

    mended: tuple[MendedTable, ...] = ()
    failure: str | None = None


_OUTCOME = JsonOf[_Outcome](_Outcome)


@frozen
class _Work:
    """An instance whose tables are mended; `request_id` None: for this run itself."""

    capture_instance: str
    request_id: int | None = None


class Mending:
    """Removes type widening, one instance at a time: for requests, oldest first, then for the instances of this run's
    own.

    `step` is called in the holder's thread, between its cycles.
    """

    def __init__(
        self,
        connection: Connection,
        lake: str,
        start: Start,
        own: Iterable[str] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        """`connection` commits each statement by itself; `own` are the instances that the run mends by itself."""
        self._connection = connection
        self._lake = lake
        self._start = start
        self._own = deque(_Work(name) for name in own)
        self._on_progress = on_progress or (lambda _mended: None)
        self._running: tuple[_Work, Future[None]] | None = None
        self._mended: tuple[MendedTable, ...] = ()
        self._next_poll = 0.0

    @property
    def is_done(self) -> bool:
        """Whether all is mended that the run is to mend by itself."""
        return not self._own and (self._running is None or self._running[0].request_id is not None)

    def step(self) -> bool:
        """Take the next request, or end the present one; return whether there was anything to do.

        Raises what keeps the run from mending what it is to mend by itself.
        """
        if self._running is None:
            return self._take()
        work, ended = self._running
        if not ended.done():
            return False
        self._running = None
        self._end(work, ended)
        return True

    def _take(self) -> bool:
        work = self._own.popleft() if self._own else self._poll()
        if work is None:
            return False

        def mend(before_commit: BeforeCommit) -> None:
            self._mended = mend_instance(self._lake, work.capture_instance, before_commit, self._on_progress)

        self._mended = ()
        self._running = work, self._start(mend)
        return True

    def _poll(self) -> _Work | None:
        if time.monotonic() < self._next_poll:
            return None
        self._next_poll = time.monotonic() + _POLL_S
        columns = mend_requests.c
        query = select(columns.capture_instance, columns.request_id).where(columns.finished_at.is_(None))
        with translated():
            row = self._connection.execute(query.order_by(columns.request_id).limit(1)).one_or_none()
        return _Work(*row) if row is not None else None

    def _end(self, work: _Work, ended: Future[None]) -> None:
        try:
            ended.result()
        except LeaseLost:
            # The next holder carries it out.
            raise
        except RowtideError as error:
            if work.request_id is None:
                raise
            outcome = _Outcome(failure=str(error))
        else:
            outcome = _Outcome(self._mended)
        if work.request_id is not None:
            _finish(self._connection, work.request_id, outcome)
            self._next_poll = 0.0


def plan_mending(engine: Engine, database: str, name: str) -> tuple[MendedTable, ...]:
    """Return what `mend_tables` would do. Raises as that, but for `MendingFailed`."""
    with translated(), engine.connect() as connection:
        source = own_source(connection, database)
        chosen = [one.capture_instance for one in choose_instances(connection, name)]
    return tuple(mended for instance in chosen for mended in plan_instance(source.lake, instance))


def mend_tables(
    engine: Engine,
    database: str,
    name: str,
    on_progress: OnProgress = lambda _mended: None,
    on_wait: Callable[[str], None] = lambda _holder: None,
) -> tuple[MendedTable, ...]:
    """Remove type widening from the tables of an instance, or of all instances of a table; return what was done.

    `on_wait` is called with the process that captures, which does it; `on_progress` while this one does. Raises
    `InstanceUnknown`, `NotOwner`, `MendingFailed`.
    """
    mended: list[MendedTable] = []
    # Each request is committed immediately, so that another process sees it.
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        source = own_source(connection, database)
        require_complete(connection)
        names = [one.capture_instance for one in choose_instances(connection, name)]
        # All are requested before the first is waited for: the process that captures carries out one after the other.
        requests = [(instance, _request(connection, instance)) for instance in names]
        for instance, request_id in requests:
            outcome = _await(engine, connection, source, request_id, on_progress, on_wait)
            if outcome.failure is not None:
                raise MendingFailed(instance, outcome.failure)
            mended += outcome.mended
    return tuple(mended)


def _await(
    engine: Engine,
    connection: Connection,
    source: SourceDefinition,
    request_id: int,
    on_progress: OnProgress,
    on_wait: Callable[[str], None],
) -> _Outcome:
    """Return the outcome of a request, which this process carries out if no other one has the lake."""
    while (outcome := _find_outcome(connection, request_id)) is None:
        try:
            # Without waiting: the process that has the lake carries out the request.
            lease = AdvisoryLease.take(engine, LAKE, patience_s=0)
        except LeaseHeld as error:
            on_wait(error.holder)
            time.sleep(_PAUSE_S)
            continue
        with lease:
            _work_off(source, lease, request_id, on_progress)
    return outcome


def _work_off(source: SourceDefinition, lease: AdvisoryLease, request_id: int, on_progress: OnProgress) -> None:
    """Carry out requests up to this process's own."""
    store = open_store(source.log_store)
    verify_provenance(lease.connection, open_own_manifest(source, store))
    lake_lease = LakeLease.take(store, lease, source.lake, list_table_paths)

    def start(work: Callable[[BeforeCommit], None]) -> Future[None]:
        done: Future[None] = Future()
        try:
            work(lake_lease.require)
        except RowtideError as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    mending = Mending(lease.connection, source.lake, start, on_progress=on_progress)
    while _find_outcome(lease.connection, request_id) is None:
        if not mending.step():
            time.sleep(_PAUSE_S)
    lake_lease.release()


def _request(connection: Connection, capture_instance: str) -> int:
    statement = insert(mend_requests).values(capture_instance=capture_instance).returning(mend_requests.c.request_id)
    return int(connection.execute(statement).scalar_one())


def _finish(connection: Connection, request_id: int, outcome: _Outcome) -> None:
    is_it = mend_requests.c.request_id == request_id
    values = {"finished_at": func.now(), "outcome": _OUTCOME.encode(outcome)}
    with translated():
        connection.execute(update(mend_requests).where(is_it).values(**values))


def _find_outcome(connection: Connection, request_id: int) -> _Outcome | None:
    """Return the outcome of a request, None while it is open."""
    found = connection.execute(select(mend_requests.c.outcome).where(mend_requests.c.request_id == request_id)).scalar()
    return _OUTCOME.decode(found) if found is not None else None
