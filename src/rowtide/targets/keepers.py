"""The interface of the keepers of tables' rows, and what they share: windows, literals, ranges of the key, misfits.

A table's next window is described from the statistics of the change files, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from rowtide.cdc.change_columns import TRUNCATE, column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import RecordedInstance, change_table_path
from rowtide.cdc.queries.windows import require_key
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.delta.errors import PartitionUnfit
from rowtide.delta.schema import NULL_FOLDER, UNFIT_DATE, UNFIT_TEXT
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.sql_text import literal, quote
from rowtide.lake.stores import locate
from rowtide.targets.columns import TargetColumns
from rowtide.targets.errors import KeyUnfit, TargetPassed
from rowtide.targets.table_format import FoundTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LSN = "__$start_lsn"


@frozen
class TargetWindow:
    """An instance's changes in [start, end], and what may be among them."""

    instance: Instance
    start: CommitLsn
    end: CommitLsn
    is_empty: bool
    may_truncate: bool
    may_lack: bool
    may_have_misfits: bool


def find_drops(instance: Instance, after: CommitLsn | None, end: CommitLsn) -> list[CommitLsn]:
    """Return the LSNs behind one, up to another, at which columns were dropped: in all rows, without change rows."""
    dropped = {column.dropped_at for column in instance.columns if column.dropped_at is not None}
    return [CommitLsn(lsn) for lsn in sorted(dropped) if (after is None or after.value < lsn) and lsn <= end.value]


def open_target_window(
    target: str, recorded: RecordedInstance, after: CommitLsn | None, end: CommitLsn, lake: str
) -> TargetWindow:
    """Return the window after an LSN, from the instance's low endpoint on for None. Raises `TargetPassed`."""
    low, instance = recorded.lsn, recorded.instance
    start = after.increment() if after is not None else low
    if start < low:
        # Changes that the table lacks are below the low endpoint, so readers do not get them any more.
        reason = recorded.note or f"and the low endpoint is {low}"
        raise TargetPassed(instance.capture_instance, target, str(after), reason)
    require_key(instance, end)
    snapshot = open_snapshot(locate(change_table_path(lake, instance.capture_instance)))
    lsns = Between(_LSN, start.value, end.value)

    def may_have(*ranges: Between) -> bool:
        return snapshot is not None and bool(snapshot.list_files(lsns, *ranges))

    return TargetWindow(
        instance=instance.for_readers(),
        start=start,
        end=end,
        is_empty=start > end or not may_have(),
        may_truncate=may_have(Between("__$operation", low=TRUNCATE)),
        may_lack=may_have(Between("__$absent_mask")),
        may_have_misfits=may_have(Between("__$exact")),
    )


@frozen
class Copy:
    """The rows that the source's table had at an LSN, and when that was."""

    rows: DataFrame
    instance: Instance
    lsn: CommitLsn
    time: datetime | None


class Keeper(Protocol):
    """Keeps one table's rows; each call is one commit at most."""

    @property
    def own_columns(self) -> Sequence[tuple[str, str]]:
        """The columns that the table has beside those of its shape: names and types."""
        ...

    def follow(self, changes: Changes, window: TargetWindow, found: FoundTable) -> None:
        """Apply a window of changes."""
        ...

    def match(self, copy: Copy, found: FoundTable) -> None:
        """Make the present rows those of a copy."""
        ...


def range_columns(shape: TargetColumns) -> Iterator[str]:
    """Yield the aggregates that `ranges` needs, over rows with the table's columns."""
    for place, key in enumerate(shape.keys):
        for end in ("min", "max"):
            yield f"{end}({quote(key.name)}) as {end}_{place}"


def ranges(shape: TargetColumns, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ranges of the key in which all changes are: files outside are not read, none where `rows` is 0."""
    if not facts["rows"]:
        # According to statistics no file has such rows. With "false" the optimizer would remove the source, and
        # Iceberg's merge with it (Spark 4.1).
        yield f"t.{quote(shape.keys[0].name)} is null"
        return
    for place, key in enumerate(shape.keys):
        low, high = (as_literal(facts.get(f"{end}_{place}")) for end in ("min", "max"))
        if low is not None and high is not None:
            yield f"t.{quote(key.name)} between {low} and {high}"


def as_literal(value: object) -> str | None:
    """Return a value in SQL; None for one of a type that has no exact literal."""
    match value:
        case bool():
            return None
        case int():
            return f"{value}L"
        case str():
            return literal(value)
        case date() if type(value) is date:
            return f"date '{value.isoformat()}'"
        case _:
            return None


def time_literal(time: datetime | None) -> str:
    """Return a time in SQL."""
    if time is None:
        return "cast(null as timestamp)"
    return f"timestamp '{time.astimezone(UTC).isoformat(sep=' ', timespec='microseconds')}'"


def require_fit(rows: DataFrame, instance: Instance, target: str) -> None:
    """Raise `KeyUnfit` if a value of the key of some rows does not fit its type."""
    misfits = " or ".join(key_misfits(instance))
    if misfits and not rows.where(misfits).isEmpty():
        raise KeyUnfit(instance.capture_instance, target)


def require_partitions_fit(rows: DataFrame, shape: TargetColumns, table: str) -> None:
    """Raise `PartitionUnfit` if some rows, of those that are written, have values that no partition of theirs has."""
    if not shape.has_partition_texts:
        return
    types = dict(rows.dtypes)
    unfit = {
        "string": (f"in ('', {literal(NULL_FOLDER)})", UNFIT_TEXT),
        "date": ("not between date '0000-01-01' and date '9999-12-31'", UNFIT_DATE),
    }
    for name in shape.partition_by:
        condition, reason = unfit.get(types.get(name, ""), ("", ""))
        if condition and not rows.where(f"{quote(name)} {condition}").isEmpty():
            raise PartitionUnfit(table, name, reason)


def key_misfits(instance: Instance) -> Iterator[str]:
    """Yield the conditions under which a value of the key is only in `__$exact`."""
    for ordinal, column in enumerate(instance.columns, 1):
        if column.index_ordinal is not None and not column_type(instance, column).holds_all:
            yield f"try_element_at(`__$exact`, {ordinal}) is not null"
