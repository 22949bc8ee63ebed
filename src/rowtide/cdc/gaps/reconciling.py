"""Reconciles a gap of the log: capture publishes what the log has, then the next epoch begins with the difference.

The base is each table as of the last published LSN, the other side the table at the new slot's start. Nothing starts
again: instances, consumers and targets read the difference like any transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlalchemy import Connection, Engine, select, text

from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.definitions import FEATURE, list_enabled, read_source, require_complete
from rowtide.cdc.errors.capturing import DifferenceImpossible
from rowtide.cdc.gaps.comparison import ComparedTable, GapComparison, LockedTables, lock_tables
from rowtide.cdc.gaps.reinitialize import announce_instances
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_continuity import require_continued
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.lake_readers.grouping import GroupingDatabase as QueryEngine, open_engine
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import ENABLED, RecordedInstance, list_table_paths, read_instances, read_publication
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position, format_log_position
from rowtide.core.operations import Operation
from rowtide.core.tables import ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import LOG, members_table
from rowtide.log.membership import Member
from rowtide.log.postgres import slot
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.log_restart import ReconciliationPoint, reconcile_gap, verify_reconcilable
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import Difference, Segment, TableGiven
from rowtide.log.store.location import open_own_manifest, open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import write_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def order_by_references(connection: Connection, source_ids: Collection[int]) -> list[int]:
    """Return tables, given by their oids, ordered after those that they refer to; in any order if references form a
    cycle.
    """
    found = connection.execute(text(_REFERENCES), {"tables": sorted(source_ids)}).all()
    return order({one: {row.to_id for row in found if row.from_id == one} for one in sorted(source_ids)})


def order(references: Mapping[int, set[int]]) -> list[int]:
    """Return tables after those that they refer to, where that is possible. Pure."""
    try:
        return list(TopologicalSorter(references).static_order())
    except CycleError:
        return list(references)


_REFERENCES = """
select distinct conrelid::bigint as from_id, confrelid::bigint as to_id from pg_constraint
where contype = 'f' and conrelid <> confrelid and conrelid::bigint = any(:tables) and confrelid::bigint = any(:tables)
"""


_SEGMENT_BYTES = 32 * 1024 * 1024


@frozen
class OpenGap:
    """What is reconciled: from `after` to the server's present end, for these instances.

    `restarted` are the others, with the reason: they begin again after the gap.
    """

    after: Position
    server: str
    instances: tuple[str, ...]
    restarted: Mapping[str, str]
    is_promoted: bool

    def __str__(self) -> str:
        single = f"the single changes that committed after {self.after} and before now ({self.server})"
        described = [f"{single}: {', '.join(self.instances)} get what they changed in all, as one transaction"]
        described += (
            f"{name} gets nothing of them, and its change rows from before are no longer returned: {reason}"
            for name, reason in self.restarted.items()
        )
        if self.is_promoted:
            described.append("this server was promoted: if it is a copy of one still in use, that one's capture stops")
        return "; ".join(described)


@frozen
class BridgedGap:
    """A gap was reconciled by a transaction with `rows` row changes at `lsn`."""

    lsn: CommitLsn
    rows: int


def find_gap(engine: Engine, database: str) -> OpenGap:
    """Return the gap that `reconcile` would reconcile, without changes. Raises as that, but `LeaseHeld`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        require_complete(connection)
        manifest = open_own_manifest(source)
        server = verify_reconcilable(connection, source, manifest)
        publication = read_publication(source.lake)
        recorded = read_instances(source.lake, publication.cycle) if publication is not None else {}
        state = manifest.state
        sides = _find_sides(connection, source.lake, _enabled(recorded), state.members)
        return OpenGap(
            after=state.position,
            server=format_log_position(slot.read_log_end(connection)),
            instances=tuple(base.instance.capture_instance for base in sides.bases.values()),
            restarted=sides.restarted,
            is_promoted=server.timeline != state.source.timeline,
        )


def reconcile(
    engine: Engine,
    url: str,
    database: str,
    reason: str,
    make_spark: Callable[[], SparkSession],
    restart: Collection[str] = (),
    on_wait: Callable[[str], None] = lambda _whom: None,
) -> BridgedGap:
    """Reconcile the gap between what was read and the server's log as it is now. After a crash, repeat it.

    Publishes what the log store has first. Creating the slot waits for open transactions: `on_wait` is called with
    them. Truncates and DDL of captured tables wait until these are read. Articles continue too, if their tables are
    captured. Instances that cannot be compared begin again after the gap if `restart` names them.

    Raises `DifferenceImpossible`, `LeaseHeld` while a process runs, and what `verify_reconcilable` raises.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        require_complete(connection)
        verify_reconcilable(connection, source, open_own_manifest(source))
    with translated(), AdvisoryLease.take(engine, LAKE) as lease, AdvisoryLease.take(engine, "log"):
        instances, position = _publish_rest(source, lease, make_spark)
        manifest = Manifest.open(open_store(source.log_store))
        with engine.connect() as connection:
            sides = _find_sides(connection, source.lake, instances, manifest.state.members)
            sides.require_only(restart)
            if sides.articles:
                # The difference begins where the lake ends, articles where the log store does.
                require_continued(source.lake, position, manifest.state, manifest.store, is_read_on=False)
            compared = {base.instance.source_id for base in sides.bases.values()}
            order = order_by_references(connection, compared)
        announce_others = partial(announce_instances, but=frozenset(sides.bases))
        # Locked before the slot is created, because a table that is altered between the slot's snapshot and the
        # comparison could not be read in that snapshot.
        with lock_tables(engine, url, order) as tables:
            compare = _Comparing(engine, sides, tables, order).compare
            difference = reconcile_gap(engine, url, source, manifest, reason, compare, announce_others, on_wait)
    return BridgedGap(difference.lsn, sum(segment.rows for segment in difference.segments))


def _publish_rest(
    source: SourceDefinition, lease: AdvisoryLease, make_spark: Callable[[], SparkSession]
) -> tuple[Sequence[Instance], Position]:
    """Publish everything in the log store; return the instances that are enabled then, and the lake's position."""
    store = open_store(source.log_store)
    lake_lease = LakeLease.take(store, lease, source.lake, list_table_paths)
    system_tables = SystemTables(source.lake, source.source_id, make_spark)
    capture = Capture(system_tables, store, lake_lease)
    # The comparison starts from the lake: changes that only the log store has would be found as a difference, and then
    # be published a second time.
    while capture.position < lake_lease.manifest.refresh().position:
        capture.step()
    lake_lease.release()
    return _enabled(system_tables.read().instances), capture.position


def _enabled(recorded: Mapping[str, RecordedInstance]) -> Sequence[Instance]:
    return [row.instance for row in recorded.values() if row.state == ENABLED]


@frozen
class _Sides:
    """The instances' tables as of the last published LSN, by member id; and why others have none, by name.

    `articles` are the member ids of those that continue.
    """

    bases: Mapping[str, ArrowChanges]
    restarted: Mapping[str, str]
    articles: Sequence[str]

    def require_only(self, restart: Collection[str]) -> None:
        """Raise `DifferenceImpossible` if other instances would begin again, or there is nothing to compare."""
        others = {name: reason for name, reason in self.restarted.items() if name not in restart or not self.bases}
        if others:
            raise DifferenceImpossible(_list(others))


def _find_sides(connection: Connection, lake: str, instances: Sequence[Instance], members: Sequence[Member]) -> _Sides:
    """Find what can be compared, of the instances that the lake has and the members of the log.

    Raises `DifferenceImpossible` for articles: all of them continue, or none.
    """
    known = {instance.member_id: instance for instance in instances}
    logged = {member.member_id for member in members}
    bases: dict[str, ArrowChanges] = {}
    restarted: dict[str, str] = {}
    for enabled in list_enabled(connection):
        instance = known.get(enabled.member_id) if enabled.member_id in logged else None
        reason = _find_blocker(connection, instance, instances)
        if reason is None and instance is not None:
            try:
                bases[instance.member_id] = Lake(lake).get_table_as_of(instance.capture_instance)
            except RowtideError as error:
                reason = error.filled_fact
        if reason is not None:
            restarted[enabled.capture_instance] = reason
    articles = _find_articles(connection, [base.instance for base in bases.values()], members)
    return _Sides(bases, restarted, articles)


def _find_articles(connection: Connection, compared: Sequence[Instance], members: Sequence[Member]) -> Sequence[str]:
    """Return the member ids of all articles. Raise `DifferenceImpossible` unless the difference has their columns."""
    columns = members_table.c
    registered = select(columns.member_id, columns.name).where(columns.feature.not_in([LOG, FEATURE]))
    recorded = {row.member_id: row.name for row in connection.execute(registered)}
    articles = {member.member_id: member for member in members if member.feature != FEATURE}
    reasons = {name: "it was published in the gap" for one, name in recorded.items() if one not in articles}
    reasons |= {
        article.name: "its table cannot be compared with all its columns: enable it, with a snapshot"
        for article in articles.values()
        if article.member_id in recorded and not _has_columns(article, compared)
    }
    if reasons:
        raise DifferenceImpossible(_list(reasons))
    return tuple(recorded)


def _has_columns(article: Member, compared: Sequence[Instance]) -> bool:
    widest = _widest(article.source_id, compared)
    return widest is not None and set(article.column_numbers) <= {column.column_id for column in widest.columns}


def _list(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _find_blocker(connection: Connection, instance: Instance | None, instances: Sequence[Instance]) -> str | None:
    if instance is None:
        return "it was enabled in the gap"
    if not instance.index_columns:
        return "its table has no key"
    table = find_by_id(connection, instance.source_id)
    if table is None:
        return "its table was dropped"
    if (reason := _find_altered(table, instance)) is not None:
        return reason
    if _widest(instance.source_id, instances) is None:
        return "none of its table's instances has the columns of the others"
    return None


def _find_altered(table: SourceTable, instance: Instance) -> str | None:
    present = {column.number: column for column in table.columns}
    for column in instance.columns:
        found = present.get(column.column_id)
        if found is None or (found.type_code, found.type_modifier) != (column.type_code, column.type_modifier):
            return f"column {column.name} was dropped or altered"
    return None


def _widest(source_id: int, instances: Sequence[Instance]) -> Instance | None:
    """Return the instance of a table that has the columns of all others, None if none has."""
    columns = {
        one.member_id: {column.column_id for column in one.columns if not column.is_computed}
        for one in instances
        if one.source_id == source_id
    }
    if not columns:
        return None
    every = set().union(*columns.values())
    return next((one for one in instances if columns.get(one.member_id) == every), None)


@frozen
class _Comparing:
    """Compares every captured table once, in an order in which references lead back, and writes what differs to
    pending segments.
    """

    engine: Engine
    sides: _Sides
    tables: LockedTables
    order: Sequence[int]

    def compare(self, head: ReconciliationPoint, manifest: Manifest) -> Difference:
        self.tables.import_snapshot(head.snapshot)
        segments: list[Segment] = []
        rows = 0
        with open_engine() as engine:
            compared = [self._compare(engine, source_id, head, manifest) for source_id in self.order]
            backwards = list(reversed(compared))
            # Rows are deleted before, and inserted after, the rows that they refer to.
            by_operation = {Operation.DELETE: backwards, Operation.UPDATE: compared, Operation.INSERT: compared}
            for operation, comparisons in by_operation.items():
                for comparison in comparisons:
                    for records in comparison.read(operation, head, rows + 1):
                        # Pending: no entry names them until the epoch is opened with the whole difference. After a
                        # crash they are orphans.
                        segments += (write_segment(manifest.store, part, pending=True) for part in _cut(records))
                        rows += records.num_rows
        self.tables.release()
        return Difference(head.lsn, (*self.sides.bases, *self.sides.articles), tuple(segments))

    def _compare(
        self, engine: QueryEngine, source_id: int, head: ReconciliationPoint, manifest: Manifest
    ) -> GapComparison:
        widest = _widest(source_id, [base.instance for base in self.sides.bases.values()])
        assert widest is not None
        with translated(), self.engine.connect() as connection:
            table = find_by_id(connection, source_id)
        assert table is not None
        # The table is locked now; the earlier look may have found it as it was before a statement that held it.
        if (reason := _find_altered(table, widest)) is not None:
            raise DifferenceImpossible(_list({widest.capture_instance: reason}))
        version = _ensure_version(manifest, head.token, logged_shape(table, widest))
        comparison = GapComparison(engine, ComparedTable(widest, version))
        comparison.load(self.sides.bases[widest.member_id].batches(), self.tables.read(widest))
        return comparison


def logged_shape(table: SourceTable, instance: Instance) -> TableShape:
    """Return the shape in which the log would show the columns of an instance now."""
    wanted = {column.column_id for column in instance.columns if not column.is_computed}
    key = {column.column_id for column in instance.index_columns}
    columns = tuple(
        ColumnShape(column.name, column.type_code, column.type_modifier, column.number in key, column.number)
        for column in table.columns
        if column.number in wanted
    )
    identity = ImageKind.FULL if table.identity == FULL_IDENTITY else ImageKind.KEY
    return TableShape(table.source_id, table.schema, table.name, identity, columns)


def _ensure_version(manifest: Manifest, token: int, shape: TableShape) -> LoggedTable:
    """Return the table version of a shape; it gets a number if it has none."""
    known = next((version for version in manifest.state.tables.values() if version.shape == shape), None)
    if known is not None:
        return known
    version = LoggedTable(manifest.refresh().next_table_id, shape)
    manifest.append(TableGiven(token=token, version=version))
    return version


def _cut(records: pa.Table) -> Iterator[pa.Table]:
    pieces = max(1, -(-records.nbytes // _SEGMENT_BYTES))
    rows = -(-records.num_rows // pieces)
    return (records.slice(begin, rows) for begin in range(0, records.num_rows, rows))
