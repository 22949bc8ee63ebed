"""Removes type widening from the tables of targets, concurrently with the process that applies changes to them.

No lease is taken: rows do not change, and if an apply and a removal conflict, each is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rowtide.cdc.widening_removal import MendedTable
from rowtide.core.values import frozen
from rowtide.delta.errors import TableUnreadable, TableUnwritable
from rowtide.delta.formats import OWNER
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.widening_removal import Mended, mend, plan_mending
from rowtide.lake.stores import locate
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetNotMended
from rowtide.targets.formats.delta import DeltaTable
from rowtide.targets.options import TargetFormat
from rowtide.targets.table_format import table_format, without_lease
from rowtide.targets.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING = Mended(was_marked=False)


@frozen
class MendedTarget:
    """A table of a target, and the work of mending it. There is none for a format whose files may have narrower types
    for all readers.
    """

    target: str
    format: TargetFormat
    table: MendedTable

    @classmethod
    def of(cls, found: FoundTarget, mended: Mended) -> MendedTarget:
        """Return a table with the work on it."""
        table = MendedTable.of(found.instance, found.place, mended)
        return cls(found.target.name, found.target.options.format, table)


@frozen
class FoundTarget:
    """The table of an instance in a target; `snapshot` is None for one of a format that does not mark wider types."""

    target: Target
    instance: str
    place: str
    snapshot: Snapshot | None


def find_tables(
    targets: Iterable[Target], instances: Iterable[str], make_spark: Callable[[], SparkSession]
) -> Iterator[FoundTarget]:
    """Yield the tables of some instances that targets have made; `make_spark` is called where a catalogue has one.

    Raises `LakeReadFailed`.
    """
    names = frozenset(instances)
    for target in targets:
        for instance in sorted(names.intersection(target.consumer.instance_names)) if not target.is_custom else ():
            path = target.options.path_of(instance)
            if not table_format(target.options.format).marks_wider_types:
                yield FoundTarget(target, instance, path or f"{target.options.catalog}.{instance}", None)
                continue
            if path is None:
                table = open_table(make_spark(), target, instance, without_lease)
                assert isinstance(table, DeltaTable)
                path = table.path
            snapshot = open_snapshot(locate(path))
            if snapshot is not None and snapshot.properties.get(OWNER) == target.target_id:
                yield FoundTarget(target, instance, path, snapshot)


def plan_tables(tables: Iterable[FoundTarget]) -> tuple[MendedTarget, ...]:
    """Return what `mend_tables` would do; the ends of the files are read. Raises `LakeReadFailed`."""
    return tuple(
        MendedTarget.of(found, plan_mending(found.snapshot) if found.snapshot is not None else _NOTHING)
        for found in tables
    )


def mend_tables(
    tables: Iterable[FoundTarget], on_progress: Callable[[MendedTarget], None] = lambda _mended: None
) -> tuple[MendedTarget, ...]:
    """Mend tables; idempotent, and resumes after a kill.

    Raises `TargetNotMended` once the others are mended, `LakeReadFailed`, `LakeWriteFailed`.
    """
    done: list[MendedTarget] = []
    refused: list[TargetNotMended] = []
    for found in tables:

        def report(mended: Mended, found: FoundTarget = found) -> None:
            on_progress(MendedTarget.of(found, mended))

        try:
            mended = mend(found.snapshot.location, on_progress=report) if found.snapshot is not None else _NOTHING
        except (TableUnreadable, TableUnwritable) as error:
            refused.append(TargetNotMended(found.instance, found.target.name, error.feature))
        else:
            done.append(MendedTarget.of(found, mended))
    if refused:
        raise refused[0]
    return tuple(done)
