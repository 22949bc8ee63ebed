"""Tables as of an LSN: a snapshot of the table, and the changes since (docs/decisions/0012).

The base of an instance is a table with layers below its change rows: the rows of snapshots, and the net effect of the
change rows that cleanup removed. Cleanup moves the low endpoint, then adds to the base, then removes change rows. So a
reader that opens the change table before the base misses nothing, and finds in the base the LSN up to which it contains
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, Self, TypeVar

from rowtide.cdc.errors import querying as errors
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ListedChange, RecordedInstance, base_table_path, change_table_path
from rowtide.cdc.queries.windows import PublishedLake, ValidityInterval, require_key, require_table
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotState, excluded_begins, find_base, read_snapshots
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.lake_types import can_widen
from rowtide.delta.schema import FieldType
from rowtide.delta.snapshot import Snapshot
from rowtide.lake.sql_text import column_types


class TableOfVersion(Protocol):
    """A version of a table, however its rows are read."""

    @property
    def snapshot(self) -> Snapshot:
        """The version's files and transactions."""
        ...

    def widen(self, types: Mapping[str, FieldType]) -> Self:
        """Return the version with some columns in wider types, given by the table's names."""
        ...


Table = TypeVar("Table", bound=TableOfVersion)


@frozen
class Layers:
    """The layers of a version of a base: changes below `rolled_to` are in it; the rows at `folded_at` are one merged
    layer.

    None: nothing was rolled or merged.
    """

    rolled_to: CommitLsn | None
    folded_at: CommitLsn | None


@frozen
class AsOf(Generic[Table]):
    """An instance at an LSN: a version of its change table, and one of its base."""

    instance: Instance
    lsn: CommitLsn
    snapshot: RecordedSnapshot
    base: Table
    changes: Table
    layers: Layers
    excluded: tuple[int, ...]
    """LSNs of rows of the base that are not to be read: of snapshots that are not complete at the LSN."""

    @property
    def lowest(self) -> CommitLsn:
        """The LSN of the lowest layer, in which a key is at most once; the base's rows above it are later ones."""
        folded_at = self.layers.folded_at
        return self.snapshot.begin if folded_at is None else max(folded_at, self.snapshot.begin)

    @property
    def first_change(self) -> CommitLsn:
        """The first LSN of which changes are read from the change table."""
        above = self.snapshot.begin.increment()
        return above if self.layers.rolled_to is None else max(above, self.layers.rolled_to)


def rolled_application(member_id: str) -> str:
    """Return the identifier under which a base records up to which LSN changes are in it."""
    return f"{member_id}:rolled"


def folded_application(member_id: str) -> str:
    """Return the identifier under which a base records the LSN of the rows that its layers were folded into."""
    return f"{member_id}:folded"


def read_layers(base: Snapshot, member_id: str) -> Layers:
    """Return the layers of a version of a base."""
    found = (base.get_transaction(name(member_id)) for name in (rolled_application, folded_application))
    rolled_to, folded_at = (CommitLsn(lsn) if lsn is not None else None for lsn in found)
    return Layers(rolled_to, folded_at)


def open_as_of(
    lake: PublishedLake,
    capture_instance: str,
    lsn: CommitLsn | None,
    open_table: Callable[[str, Instance], Table | None],
) -> AsOf[Table]:
    """Return the versions from which an instance's table is read as of an LSN, by default the last published one.

    `open_table` is that of `open_window`. Raises `InstanceUnknown`, and the errors of this package.
    """
    try:
        return _open_as_of(lake, capture_instance, lsn, open_table)
    except errors.TypesDiffer:
        # Capture may have changed the types of both after one was opened and before the other was.
        return _open_as_of(lake, capture_instance, lsn, open_table)


def _open_as_of(
    lake: PublishedLake,
    capture_instance: str,
    lsn: CommitLsn | None,
    open_table: Callable[[str, Instance], Table | None],
) -> AsOf[Table]:
    known, high = lake.read_instance_and_high(capture_instance)
    member_id = known.instance.member_id
    while True:
        snapshots = read_snapshots(lake.lake).get(member_id, ())
        changes = open_table(change_table_path(lake.lake, capture_instance), known.instance)
        base = open_table(base_table_path(lake.lake, capture_instance), known.instance)
        if read_snapshots(lake.lake).get(member_id, ()) == snapshots:
            break
    recorded, _ = lake.read_instance_and_high(capture_instance)
    if changes is None or recorded.instance.member_id != member_id:
        require_table(change_table_path(lake.lake, capture_instance))
        # Disabled since it was read.
        raise errors.InstanceUnknown(capture_instance)
    at = lsn if lsn is not None else high
    require_key(recorded.instance, at)
    snapshot = choose_snapshot(recorded, snapshots, ValidityInterval(recorded.lsn, high), at)
    if base is None:
        raise errors.NeverCopied(capture_instance)
    _require_whole(recorded, lake.get_ddl_history(capture_instance), snapshot, at)
    layers, excluded = read_layers(base.snapshot, member_id), excluded_begins(snapshots, at)
    widened = find_widened(capture_instance, base.snapshot, changes.snapshot)
    return AsOf(recorded.instance.for_readers(), at, snapshot, base.widen(widened), changes, layers, excluded)


def find_widened(capture_instance: str, base: Snapshot, changes: Snapshot) -> Mapping[str, FieldType]:
    """Return the columns of a base that have wider types in the change table, with those.

    Capture changes the change table first, and may be killed before it comes to the base. Raises `TypesDiffer` where a
    value would not be the same in the other type.
    """
    own, wanted = (column_types(one.metadata.schema_text) for one in (base, changes))
    differing = [name for name, type_name in own.items() if wanted.get(name, type_name) != type_name]
    if not all(can_widen(own[name], wanted[name]) for name in differing):
        raise errors.TypesDiffer(capture_instance, ", ".join(differing))
    if not differing:
        return {}
    types = {field.name: field.type for field in replace(changes, renamed={}).columns.fields}
    return {name: types[name] for name in differing}


def as_of_columns(instance: Instance, wanted: Sequence[str] | None = None) -> list[str]:
    """Return the columns of a table as of an LSN: captured ones, by default all, and what they lack and hold.

    Raises `ColumnNotCaptured`.
    """
    captured = [column.lake_name for column in instance.columns]
    for name in wanted if wanted is not None else ():
        if name not in captured:
            raise errors.ColumnNotCaptured(instance.capture_instance, name, ", ".join(captured))
    chosen = captured if wanted is None else list(dict.fromkeys(wanted))
    return [*chosen, "__$absent_mask", "__$exact"]


def choose_snapshot(
    recorded: RecordedInstance, snapshots: Sequence[RecordedSnapshot], interval: ValidityInterval, at: CommitLsn
) -> RecordedSnapshot:
    """Return the snapshot from which an instance is read as of an LSN.

    Raises `OutsideInterval`, `NeverCopied`, `BeforeSnapshot`.
    """
    name = recorded.instance.capture_instance
    if not interval.low <= at <= interval.high:
        gap = f" Below it, {recorded.note}." if recorded.note else ""
        raise errors.OutsideInterval(name, str(at), str(interval.low), str(interval.high), gap)
    earliest = _find_earliest(recorded, snapshots)
    if earliest is None:
        raise errors.NeverCopied(name)
    found = find_base(_of_whole_changes(recorded, snapshots), at)
    if found is None:
        raise errors.BeforeSnapshot(name, str(at), str(earliest))
    return found


def _find_earliest(recorded: RecordedInstance, snapshots: Sequence[RecordedSnapshot]) -> CommitLsn | None:
    """Return the lowest LSN at which a usable snapshot is complete."""
    usable = (one for one in _of_whole_changes(recorded, snapshots) if one.is_whole)
    covered = (one.covered for one in usable if one.state is SnapshotState.COVERED)
    return min((lsn for lsn in covered if lsn is not None), default=None)


def _of_whole_changes(recorded: RecordedInstance, snapshots: Sequence[RecordedSnapshot]) -> list[RecordedSnapshot]:
    """Return the snapshots since the last gap."""
    return [one for one in snapshots if recorded.whole_from is None or one.begin >= recorded.whole_from]


def _require_whole(
    recorded: RecordedInstance, history: Sequence[ListedChange], snapshot: RecordedSnapshot, at: CommitLsn
) -> None:
    """Raise if the table as of an LSN is not the snapshot and its changes."""
    name = recorded.instance.capture_instance
    for missing in recorded.missing:
        if snapshot.begin < missing.lsn <= at:
            raise errors.ChangesMissingSinceSnapshot(name, str(at), str(missing.lsn), missing.note or "")
    for change in history:
        if change.rewrites_values and snapshot.begin < change.ddl_lsn <= at:
            first = max(recorded.lsn, snapshot.covered or recorded.lsn)
            before = f" As of {first} to below {change.ddl_lsn} it can be read." if first < change.ddl_lsn else ""
            raise errors.RewrittenSinceSnapshot(name, str(at), str(change.ddl_lsn), change.ddl_command, before)
