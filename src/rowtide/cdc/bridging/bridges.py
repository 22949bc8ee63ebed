"""Bridges a gap of the log: capture publishes what the log has, then the next epoch begins with what the gap changed.

The base is each table as of the last published LSN, the other side the table at the new slot's start. Nobody starts
again: instances, consumers and what follows them read the difference like any transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlalchemy import Connection, Engine

from rowtide.cdc.bridging.comparison import ComparedTable, compare
from rowtide.cdc.bridging.errors import DifferenceImpossible
from rowtide.cdc.bridging.present_rows import LockedTables, lock_tables
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.definitions import list_enabled, read_source, require_complete
from rowtide.cdc.enabling.administration import require_alone
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.lake_readers.arrow_changes import ArrowChanges
from rowtide.cdc.lake_readers.grouping import open_engine
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.published import ENABLED
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position, format_log_position
from rowtide.core.tables import ColumnShape, ImageKind, TableShape, TableVersion
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.log.entries import Difference, Segment, TableGiven
from rowtide.log.manifest import Manifest
from rowtide.log.ownership import open_own_manifest
from rowtide.log.postgres import slot
from rowtide.log.postgres.bridging import BridgeHead, bridge_gap, verify_bridgeable
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.log.segments import write_segment
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEGMENT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gap:
    """What is bridged: from `after` to the server's present end, for these instances."""

    after: Position
    server: str
    instances: tuple[str, ...]
    is_promoted: bool

    def __str__(self) -> str:
        names = ", ".join(self.instances) or "no instance"
        copies = (
            "; this server was promoted: if it is a copy of one still in use, that one's capture stops"
            if self.is_promoted
            else ""
        )
        return (
            f"the single changes that committed after {self.after} and before now ({self.server}); {names} get what "
            f"they changed in all as one transaction{copies}"
        )


@dataclass(frozen=True, slots=True)
class BridgedGap:
    """A gap was bridged by a transaction with so many row changes at `lsn`."""

    lsn: CommitLsn
    rows: int


def find_gap(engine: Engine, database: str) -> Gap:
    """Return the gap that `bridge` would bridge, without changes. Raises as that, but `LeaseHeld`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        require_alone(connection)
        manifest = open_own_manifest(source)
        server = verify_bridgeable(connection, source, manifest)
        names = tuple(enabled.capture_instance for enabled in list_enabled(connection))
        now = format_log_position(slot.read_log_end(connection))
        state = manifest.state
        return Gap(state.position, now, names, server.timeline != state.source.timeline)


def bridge(
    engine: Engine,
    url: str,
    database: str,
    reason: str,
    make_spark: Callable[[], SparkSession],
    on_wait: Callable[[str], None] = lambda _whom: None,
) -> BridgedGap:
    """Bridge the gap between what was read and the server's log as it is now. After a crash, repeat it.

    Publishes what the log store has first. Creating the slot waits for open transactions: `on_wait` is called with
    them. Truncates and DDL of captured tables wait until these are read. Raises `DifferenceImpossible`, `LeaseHeld`
    while a process runs, `LogStillRead` beside publications, and what `verify_bridgeable` raises.
    """
    find_gap(engine, database)
    with translated(), AdvisoryLease.take(engine, LAKE) as lease, AdvisoryLease.take(engine, "log"):
        with engine.connect() as connection:
            source = read_source(connection, database)
            require_complete(connection)
        instances = _publish_rest(source, lease, make_spark)
        with engine.connect() as connection:
            bases = _find_bases(connection, source.lake, instances)
        manifest = Manifest.open(open_store(source.log_store))
        with lock_tables(engine, url, sorted({one.source_id for one in instances})) as tables:
            comparing = _Comparing(engine, bases, tables)
            difference = bridge_gap(engine, url, source, manifest, reason, comparing.compare, on_wait)
    return BridgedGap(difference.lsn, sum(segment.rows for segment in difference.segments))


def _publish_rest(
    source: SourceDefinition, lease: AdvisoryLease, make_spark: Callable[[], SparkSession]
) -> Sequence[Instance]:
    """Publish everything in the log store; return the instances that are enabled then."""
    store = open_store(source.log_store)
    held = LakeLease.take(store, lease)
    system_tables = SystemTables(source.lake, source.source_id, make_spark)
    capture = Capture(system_tables, store, held)
    while capture.position < held.manifest.refresh().position:
        capture.step()
    return [row.instance for row in system_tables.read().instances.values() if row.state == ENABLED]


def _find_bases(connection: Connection, lake: str, instances: Sequence[Instance]) -> Mapping[str, ArrowChanges]:
    """Return each instance's table as of the last published LSN, by member id. Raises `DifferenceImpossible`."""
    catalogued = {enabled.member_id: enabled.capture_instance for enabled in list_enabled(connection)}
    known = {instance.member_id for instance in instances}
    reasons = [f"{name} was enabled in the gap" for member_id, name in catalogued.items() if member_id not in known]
    bases: dict[str, ArrowChanges] = {}
    for instance in instances:
        reason = _find_obstacle(connection, instance, instances, catalogued)
        if reason is None:
            try:
                bases[instance.member_id] = Lake(lake).get_table_as_of(instance.capture_instance)
            except RowtideError as error:
                reason = error.filled_fact
        if reason is not None:
            reasons.append(f"{instance.capture_instance}: {reason}")
    if reasons:
        raise DifferenceImpossible("; ".join(reasons))
    return bases


def _find_obstacle(
    connection: Connection, instance: Instance, instances: Sequence[Instance], catalogued: Mapping[str, str]
) -> str | None:
    if instance.member_id not in catalogued:
        return "it was disabled in the gap"
    if not instance.index_columns:
        return "its table has no key"
    table = find_by_id(connection, instance.source_id)
    if table is None:
        return "its table was dropped"
    present = {column.number: column for column in table.columns}
    for column in instance.columns:
        found = present.get(column.column_id)
        if found is None or (found.type_code, found.type_modifier) != (column.type_code, column.type_modifier):
            return f"column {column.name} was dropped or altered"
    if _widest(instance.source_id, instances) is None:
        return "none of its table's instances has the columns of the others"
    return None


def _widest(source_id: int, instances: Sequence[Instance]) -> Instance | None:
    """Return the instance of a table that has the columns of all others, None if none has."""
    columns = {
        one.member_id: {column.column_id for column in one.columns if not column.is_computed}
        for one in instances
        if one.source_id == source_id
    }
    every = set().union(*columns.values())
    return next((one for one in instances if columns.get(one.member_id) == every), None)


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Compares every captured table once, and writes what differs to pending segments."""

    engine: Engine
    bases: Mapping[str, ArrowChanges]
    tables: LockedTables

    def compare(self, head: BridgeHead, manifest: Manifest) -> Difference:
        self.tables.import_snapshot(head.snapshot)
        instances = [base.instance for base in self.bases.values()]
        segments: list[Segment] = []
        rows = 0
        for source_id in sorted({one.source_id for one in instances}):
            widest = _widest(source_id, instances)
            assert widest is not None
            for records in self._find(widest, head, manifest, rows + 1):
                segments.append(write_segment(manifest.store, records, pending=True))
                rows += records.num_rows
        return Difference(head.lsn, tuple(self.bases), tuple(segments))

    def _find(self, widest: Instance, head: BridgeHead, manifest: Manifest, first: int) -> Iterator[pa.Table]:
        with translated(), self.engine.connect() as connection:
            table = find_by_id(connection, widest.source_id)
        assert table is not None
        version = _ensure_version(manifest, head.token, logged_shape(table, widest))
        compared = ComparedTable(widest, version)
        base = self.bases[widest.member_id].batches()
        with open_engine() as engine:
            yield from _within_bytes(compare(engine, compared, base, self.tables.read(widest), head, first))


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


def _ensure_version(manifest: Manifest, token: int, shape: TableShape) -> TableVersion:
    """Return the table version of a shape; it gets a number if it has none."""
    known = next((version for version in manifest.state.tables.values() if version.shape == shape), None)
    if known is not None:
        return known
    version = TableVersion(manifest.refresh().next_table_id, shape)
    manifest.append(TableGiven(token=token, version=version))
    return version


def _within_bytes(found: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for records in found:
        pieces = max(1, -(-records.nbytes // _SEGMENT_BYTES))
        rows = -(-records.num_rows // pieces)
        yield from (records.slice(begin, rows) for begin in range(0, records.num_rows, rows))
