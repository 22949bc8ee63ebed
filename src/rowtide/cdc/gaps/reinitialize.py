"""Continues after changes that cannot be read: after a gap, in the log's next epoch, or after one transaction that is
skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, Executable, select, update

from rowtide.agents.runs import Agent, run_agent
from rowtide.cdc.definitions import (
    FEATURE,
    EnabledTable,
    are_made,
    captured_columns,
    change_tables,
    index_columns,
    list_catalogue,
    list_enabled,
    read_source,
)
from rowtide.cdc.enabling import postgres
from rowtide.cdc.enabling.administration import register_reader, require_alone
from rowtide.cdc.enabling.table_rules import reconsider_steps
from rowtide.cdc.jobs import definitions as job_definitions
from rowtide.cdc.published import read_publication
from rowtide.core.lsn import CommitLsn, Position, format_log_position
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.log import catalogue
from rowtide.log.errors import TransactionReadable, TransactionUnreadable
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres import slot
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.log_restart import restart_log
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.rebinding import NOWHERE, Rebound
from rowtide.log.reader import LogReader
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import find_own_manifest, open_own_manifest, require_timeline


@frozen
class CaptureLoss:
    """The loss by a reinitialization: everything after `after`, and, for queries, everything before it too.

    `after` is None if the log store has no manifest: then it is all that is not published. `known_epoch` is the last
    epoch of the log that the lake knows.
    """

    after: Position | None
    server: str
    instances: tuple[str, ...]
    known_epoch: int = 0

    def __str__(self) -> str:
        names = ", ".join(self.instances) or "no instance"
        after = f"after {self.after}" if self.after is not None else "after what is published (the log store is lost)"
        return (
            f"changes that committed {after} and before now ({self.server}) will be missing from {names}; "
            "their change rows from before are no longer returned, because a range over the gap would be incomplete"
        )


def find_loss(engine: Engine, database: str) -> CaptureLoss:
    """Return what `reinitialize` would lose. Raises `DatabaseNotEnabled`, `LogStillRead`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        require_alone(connection)
        manifest = find_own_manifest(source)
        if manifest is not None:
            require_timeline(manifest.state.source, read_server_identity(connection).timeline)
            verify_provenance(connection, manifest)
        published = read_publication(source.lake)
        known = published.lsn.epoch if published is not None and published.lsn is not None else 0
        now = slot.read_log_end(connection)
        names = tuple(enabled.capture_instance for enabled in list_enabled(connection))
        after = None if manifest is None else manifest.state.position
        return CaptureLoss(after, format_log_position(now), names, known)


def reinitialize(
    engine: Engine, database: str, reason: str, on_wait: Callable[[str], None] = lambda _whom: None
) -> CaptureLoss:
    """Create publication and slot again, open the next epoch, and announce every instance again in the new log.

    Creating the slot waits for open transactions; `on_wait` is called with the one it waits for. Raises `LeaseHeld`
    while a process runs, `LogStillRead` beside publications, which cannot continue. After a crash, repeat it.
    """
    loss = find_loss(engine, database)
    with translated(), AdvisoryLease.take(engine, "lake"), AdvisoryLease.take(engine, "log"):
        with engine.connect() as connection:
            source = read_source(connection, database)
        restart_log(engine, source, announce_instances, reason, on_wait, known_epoch=loss.known_epoch)
        if loss.after is None:
            register_reader(open_own_manifest(source))
    return loss


def announce_instances(alterations: Alterations, source: SourceDefinition, but: Collection[str] = frozenset()) -> None:
    """Announce every instance in a new log, `but` those of some member ids, each in a transaction; none where nothing
    is captured.
    """
    enabled = alterations.transact(lambda connection: list_enabled(connection) if are_made(connection) else ())
    if not enabled:
        return
    alterations.transact(job_definitions.complete)
    catalogued = alterations.transact(list_catalogue)
    tables = {name: f"{schema}.{table}" for name, schema, table, *_ in catalogued}
    for instance in enabled:
        if instance.member_id not in but:
            _announce_again(alterations, source, instance, tables[instance.capture_instance])


def _announce_again(alterations: Alterations, source: SourceDefinition, enabled: EnabledTable, table: str) -> None:
    def plan(connection: Connection) -> Sequence[Executable]:
        return postgres.plan_announce_again(connection, source, enabled)

    run_membership_change(alterations, table, plan)


def list_names(connection: Connection) -> tuple[str, ...]:
    """Return the names of all instances, oldest first; none if capture is not enabled."""
    return tuple(enabled.capture_instance for enabled in list_enabled(connection)) if are_made(connection) else ()


def rebind_steps(connection: Connection, rebound: Sequence[Rebound]) -> list[Executable]:
    """Return the statements that record the present oids of tables and numbers of columns."""
    ours = [member for member in rebound if member.feature == FEATURE]
    return [*(step for member in ours for step in _rebind(connection, member)), *reconsider_steps(connection)]


def announce_again(alterations: Alterations, source: SourceDefinition) -> None:
    """Announce all instances again, each in a transaction."""
    announce_instances(alterations, source)


def _rebind(connection: Connection, member: Rebound) -> Iterator[Executable]:
    yield (
        update(change_tables)
        .where(change_tables.c.member_id == member.member_id)
        .values(source_object_id=member.source_id)
    )
    columns = member.table.columns if member.table is not None else ()
    numbers = {column.name: column.number for column in columns}
    for table, ordinal in ((captured_columns, "column_ordinal"), (index_columns, "index_ordinal")):
        rows = (select(table).join(change_tables, change_tables.c.object_id == table.c.object_id)).where(
            change_tables.c.member_id == member.member_id
        )
        for row in connection.execute(rows):
            name = member.column_names.get(row.column_id, row.column_name)
            place = (table.c.object_id == row.object_id, table.c[ordinal] == getattr(row, ordinal))
            yield update(table).where(*place).values(column_id=numbers.get(name, NOWHERE))


Act = Callable[[LogReader, TransactionUnreadable], None]


def find_unreadable(engine: Engine, url: str, lsn: CommitLsn) -> TransactionUnreadable:
    """Read the log up to the transaction that commits at an LSN, and return why it cannot be read.

    Raises `TransactionReadable` if it can, `TransactionUnreadable` for an earlier one, `LeaseHeld` while a process
    reads the log.
    """
    return _at_unreadable(engine, url, lsn, lambda _reader, _error: None)


def skip_transaction(engine: Engine, url: str, lsn: CommitLsn) -> TransactionUnreadable:
    """Continue after the transaction that commits at an LSN; return why it cannot be read.

    Everything committed before it is durable first; the gap is recorded, and ranges that contain it are refused. Raises
    as `find_unreadable`.
    """

    def skip(reader: LogReader, error: TransactionUnreadable) -> None:
        reader.skip(lsn, f"{error.subject}: {error.reason}")

    return _at_unreadable(engine, url, lsn, skip)


def _at_unreadable(engine: Engine, url: str, lsn: CommitLsn, act: Act) -> TransactionUnreadable:
    with translated(), engine.begin() as connection:
        catalogue.read_source(connection, url)  # also of a database whose log is read for publications alone
        # The search ends at this mark, because everything that is committed now lies below it.
        target = mark_log(connection)
    stop = threading.Event()
    found: list[TransactionUnreadable] = []

    def act_and_stop(reader: LogReader, error: TransactionUnreadable) -> None:
        act(reader, error)
        found.append(error)
        stop.set()

    @contextmanager
    def open_search() -> Iterator[Agent]:
        with open_log_reader(url) as reader:
            yield _UnreadableChangeSearch(reader, lsn, target, act_and_stop)

    # Several connections may be needed: the first may find only the transaction, and the second its table.
    run_agent(open_search, stop=stop, idle_s=0)
    return found[0]


class _UnreadableChangeSearch:
    """Reads until a change cannot be read, at most to a log position after everything committed so far."""

    def __init__(self, reader: LogReader, lsn: CommitLsn, target: int, act: Act) -> None:
        self._reader = reader
        self._lsn = lsn
        self._target = target
        self._act = act

    def step(self) -> bool:
        if self._reader.position.log > self._target:
            raise TransactionReadable(str(self._lsn), str(self._reader.position))
        try:
            return self._reader.step()
        except TransactionUnreadable as error:
            if error.lsn != str(self._lsn):
                raise
            self._act(self._reader, error)
            return True
