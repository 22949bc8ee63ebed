"""What keeps a table's rows, whatever its kind, and what kinds share: literals, ranges of the key, misfits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.change_columns import column_type
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.delta.errors import PartitionUnfit
from rowtide.delta.partitions import NULL_FOLDER, UNFIT_DATE, UNFIT_TEXT
from rowtide.lake.sql_text import literal, quote
from rowtide.targets.columns import TableShape
from rowtide.targets.errors import KeyUnfit
from rowtide.targets.table import FoundTable
from rowtide.targets.windows import TargetWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
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


def range_columns(shape: TableShape) -> Iterator[str]:
    """Yield the aggregates that `ranges` needs, over rows with the table's columns."""
    for place, key in enumerate(shape.keys):
        for end in ("min", "max"):
            yield f"{end}({quote(key.name)}) as {end}_{place}"


def ranges(shape: TableShape, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ranges of the key in which all changes are: files outside are not read, none where `rows` is 0."""
    if not facts["rows"]:
        # By their statistics no file has one. "false" would be planned away, and Iceberg's merge with it (Spark 4.1).
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


def require_partitions_fit(rows: DataFrame, shape: TableShape, table: str) -> None:
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
