"""Continue after a gap: the log is read from now on, in its next epoch, and each instance is announced again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from sqlalchemy import Connection, Engine, Executable, select, update

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
from rowtide.core.lsn import Position, format_log_position
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres import slot
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.log_restart import restart_log
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.rebinding import NOWHERE, Rebound
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
