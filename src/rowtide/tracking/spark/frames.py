"""Changes as DataFrames, enumerated once by Spark tasks into files that the DataFrames read.

A DataFrame is computed each time it is used, a task may run twice, and each enumeration returns another anchor.
Therefore the tasks' output is committed by Spark, one run per task; anchors and DataFrames both come from what was
committed.

Columns of a DataFrame of changes from devices whose tables differ, as Spark
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType
from rowtide.databases.postgres import values as postgres_values
from rowtide.databases.sqlite import values as sqlite_values
from rowtide.databases.urls import DatabaseKind
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.lake.jars import describe, find_lack
from rowtide.lake.session import build_session, for_reading, require_reachable
from rowtide.lake.spark_settings import SHUFFLE_PARTITIONS
from rowtide.lake.sql_text import literal, quote
from rowtide.lake.stores import locate
from rowtide.storage.places import absolute_lake, local_folder, spark_url
from rowtide.tracking.changes import DeclaredColumn
from rowtide.tracking.errors import DevicesFailed, EnumerationFailed
from rowtide.tracking.spark.tasks import (
    CHANGE,
    OUTCOMES,
    RECORD,
    DeviceOutcome,
    TrackedColumns,
    Work,
    enumerate_devices,
    find_devices,
    make_batches,
    read_outcome,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LAKE_TYPES = {DatabaseKind.SQLITE: sqlite_values.lake_type, DatabaseKind.POSTGRESQL: postgres_values.lake_type}
_EXACT_TYPE = "map<string,string>"


@frozen
class FrameColumn:
    """A column of the DataFrame: its name, and its type in Spark SQL."""

    name: str
    type_name: str


def unite(shapes: Mapping[TrackedColumns, int]) -> tuple[FrameColumn, ...]:
    """Return the columns of a table whose rows have these shapes, each on the given number of devices.

    First the columns of the most frequent shape, in its order, then further columns of others. Names that differ only
    in case are one column, unless a device has both. It has the most frequent name and type.
    """
    names: list[str] = []
    for shape in sorted(shapes, key=lambda shape: (-shapes[shape], repr(shape))):
        known = _united_names(shape, names)
        names.extend(_spell(column.name, shape, shapes) for column in shape.columns if column.name not in known)
    return tuple(FrameColumn(name, _choose_type(name, names, shapes)) for name in names)


def select_list(shape: TrackedColumns, columns: Sequence[FrameColumn]) -> list[str]:
    """Return the expressions that make the DataFrame's rows from records of a shape."""
    united = _united_names(shape, [column.name for column in columns])
    values = {
        united[column.name]: _Value(f"texts[{place}]", _held(shape, column))
        for place, column in enumerate(shape.columns)
    }
    return [
        "device as `__$device`",
        "operation as `__$operation`",
        *(f"{_typed(values.get(column.name), column)} as {quote(column.name)}" for column in columns),
        f"{_exact([(values[column.name], column) for column in columns if column.name in values])} as `__$exact`",
    ]


def empty_list(columns: Sequence[FrameColumn]) -> list[str]:
    """Return expressions for the same columns that are all null."""
    typed = {"__$device": "string", "__$operation": "int", **{column.name: column.type_name for column in columns}}
    return [f"{_null(type_name)} as {quote(name)}" for name, type_name in {**typed, "__$exact": _EXACT_TYPE}.items()]


@frozen
class _Value:
    """A value in records of a shape: the expression of its text, and the Spark type by its device's declaration."""

    text: str
    stored: LakeType


def _typed(value: _Value | None, column: FrameColumn) -> str:
    """Return a value as its column's type; null if the device declares another type."""
    if value is None or value.stored.name != column.type_name:
        return _null(column.type_name)
    return value.stored.cast.format(text=value.text)


def _exact(values: Sequence[tuple[_Value, FrameColumn]]) -> str:
    """Return the expression of `__$exact`: by column name, the texts of values that their columns cannot hold.

    Else null.
    """
    misfits = [
        (column, value.text, f"{value.text} is not null and {_typed(value, column)} is null")
        for value, column in values
        if not (value.stored.holds_all and value.stored.name == column.type_name)
    ]
    if not misfits:
        return _null(_EXACT_TYPE)
    any_misfit = " or ".join(f"({condition})" for _, _, condition in misfits)
    entries = ", ".join(f"{literal(column.name)}, if({condition}, {text}, null)" for column, text, condition in misfits)
    return f"if({any_misfit}, map_filter(map({entries}), (name, text) -> text is not null), null)"


def _null(type_name: str) -> str:
    return f"cast(null as {type_name})"


def _spell(name: str, shape: TrackedColumns, shapes: Mapping[TrackedColumns, int]) -> str:
    """Return a name as most devices write it; unchanged if a table has it in two cases."""
    if sum(column.name.lower() == name.lower() for column in shape.columns) > 1:
        return name
    spellings: Counter[str] = Counter()
    for other, devices in shapes.items():
        spellings.update({column.name: devices for column in other.columns if column.name.lower() == name.lower()})
    return min(spellings, key=lambda spelling: (-spellings[spelling], spelling))


def _choose_type(name: str, names: Sequence[str], shapes: Mapping[TrackedColumns, int]) -> str:
    declared: Counter[str] = Counter()
    for shape, devices in shapes.items():
        united = _united_names(shape, names)
        declared.update({_held(shape, column).name: devices for column in shape.columns if united[column.name] == name})
    return min(declared, key=lambda type_name: (-declared[type_name], type_name))


def _held(shape: TrackedColumns, column: DeclaredColumn) -> LakeType:
    return _LAKE_TYPES[shape.kind](column.type_text)


def _united_names(shape: TrackedColumns, names: Sequence[str]) -> dict[str, str]:
    """Return which of the names each column of a shape has; columns with none of them are omitted."""
    own = [column.name for column in shape.columns]
    in_other_case = {name.lower(): name for name in names if name not in own}
    found = {name: name if name in names else in_other_case.pop(name.lower(), None) for name in own}
    return {name: united for name, united in found.items() if united is not None}


_NAMED_FAILURES = 3


@frozen
class ChangeFrames:
    """Changes of some devices since their anchors, and the next anchors.

    `frames` has a DataFrame for each requested table, over all devices: `__$device`, `__$operation` (SQL Server's
    numbers: 1 delete, 2 insert, 4 update), the table's columns, of a delete only the key's, and `__$exact`: by column,
    the exact texts of values that the column's type cannot hold, which are null there.

    Store `anchors`, which are JSON-serializable, once the changes are applied. A device in `failures`, with the error's
    text, has no changes here, and keeps its previous anchor.
    """

    frames: Mapping[str, DataFrame]
    anchors: dict[str, str]
    failures: Mapping[str, str]
    spool: str
    """The folder that the DataFrames read, used by this call only."""
    spark: SparkSession
    """The DataFrames' session."""

    def __getitem__(self, table: str) -> DataFrame:
        return self.frames[table]

    def discard(self) -> None:
        """Delete the files that the DataFrames read. Raises `EnumerationFailed` if the storage fails."""
        _delete(self.spool)


def read_changes(
    databases: str | Sequence[str],
    tables: str | Sequence[str],
    anchors: Mapping[str, str] | None = None,
    *,
    spool: str,
    whole: Sequence[str] = (),
    exclude_context: UUID | None = None,
    keep_going: bool = False,
    spark: SparkSession | None = None,
) -> ChangeFrames:
    """Return the net changes of some tables, of one database or many, since the previous anchors.

    `databases` are URLs, and paths or patterns of SQLite files. Each is enumerated once, in a Spark task, all tables in
    one snapshot. A database without an anchor is copied in full, as are the tables in `whole`. The changes are written
    to a new folder below `spool`, which all workers must reach. Calling again with the same anchors returns all changes
    again: apply them by device and key, then store the next anchors, and no failure in between loses a change. Anchors
    of databases that were not requested are passed on.

    Raises `DevicesFailed` if a database could not be enumerated, for whatever reason; with `keep_going` it is in
    `failures` instead. Raises `NoDatabaseFound`, `EnumerationFailed`, `StorageNotShared`, and the errors of
    building a session.
    """
    devices = find_devices(databases)
    names = (tables,) if isinstance(tables, str) else tuple(dict.fromkeys(tables))
    known = dict(anchors or {})
    require_reachable(spool, *(device.name for device in devices if device.kind.is_file))
    session = for_reading(spark if spark is not None else build_session(lakes=(spool,)), spool)
    folder = f"{absolute_lake(spool)}/{time.time_ns()}-{secrets.token_hex(4)}"
    with _in_spark(folder):
        _enumerate(session, Work(devices, names, known, tuple(whole), exclude_context), folder)
        outcomes = _read_outcomes(session, folder)
    failures = {outcome.device: outcome.failure for outcome in outcomes if outcome.failure is not None}
    if failures and not keep_going:
        named = [f"{device}: {failure}" for device, failure in failures.items()][:_NAMED_FAILURES]
        _delete(folder)
        raise DevicesFailed(len(failures), len(devices), " ".join(named).removesuffix("."))
    with _in_spark(folder):
        frames = {name: _frame(session, folder, place, outcomes) for place, name in enumerate(names)}
    taken = {outcome.device: outcome.anchor for outcome in outcomes if outcome.anchor is not None}
    return ChangeFrames(frames, known | taken, failures, folder, session)


def _enumerate(session: SparkSession, work: Work, folder: str) -> None:
    from pyspark.sql.functions import arrow_udtf

    class EnumeratedRecords:
        def eval(self, places: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            yield from make_batches(enumerate_devices(work, places.column(0).to_numpy().tolist()))

    name = f"rowtide_enumeration_{secrets.token_hex(8)}"
    # A few for each core: a task enumerates many devices, and some devices are slow.
    tasks = min(len(work.devices), int(session.conf.get(SHUFFLE_PARTITIONS) or 1))
    function: Any = arrow_udtf(EnumeratedRecords, returnType=RECORD)
    session.udtf.register(name, function)
    try:
        places = f"select id from range(0, {len(work.devices)}, 1, {tasks})"
        records = session.sql(f"select * from {name}(table({places}))")
        records.write.partitionBy("part").parquet(spark_url(folder, os.environ))
    finally:
        session.sql(f"drop temporary function if exists {name}")


def _read_outcomes(session: SparkSession, folder: str) -> list[DeviceOutcome]:
    """Return the devices' outcomes, by name."""
    rows = _read_part(session, folder, OUTCOMES).select("outcome").toLocalIterator()
    return sorted((read_outcome(row.outcome) for row in rows), key=lambda outcome: outcome.device)


def _frame(session: SparkSession, folder: str, place: int, outcomes: Sequence[DeviceOutcome]) -> DataFrame:
    """Return a table's changes from the devices that succeeded; failed devices may have written some too."""
    well = [outcome for outcome in outcomes if outcome.failure is None]
    shapes = Counter(outcome.shapes[place] for outcome in well)
    columns = unite(shapes)
    filled = {outcome.shapes[place] for outcome in well if outcome.rows[place]}
    parts = [
        _without_failed(_read_part(session, folder, shape.part), shape, outcomes).selectExpr(
            *select_list(shape, columns)
        )
        for shape in sorted(filled, key=repr)
    ]
    if not parts:
        return session.range(0).selectExpr(*empty_list(columns))
    return reduce(lambda one, other: one.unionAll(other), parts)


def _without_failed(records: DataFrame, shape: TrackedColumns, outcomes: Sequence[DeviceOutcome]) -> DataFrame:
    failed = [
        literal(outcome.device) for outcome in outcomes if outcome.failure is not None and shape in outcome.shapes
    ]
    return records.where(f"device not in ({', '.join(failed)})") if failed else records


def _read_part(session: SparkSession, folder: str, part: str) -> DataFrame:
    literally = re.sub(r"[][{}*?\\]", r"\\\g<0>", spark_url(folder, os.environ))
    return session.read.schema(CHANGE).parquet(f"{literally}/part={part}")


def _delete(folder: str) -> None:
    """Delete a folder of files, if it exists. Raises `EnumerationFailed`."""
    path = local_folder(folder)
    try:
        if path is None:
            _delete_files(folder)
        elif path.exists():
            shutil.rmtree(path)
    except (LakeReadFailed, LakeWriteFailed, OSError) as error:
        raise EnumerationFailed(folder, str(error)) from error


def _delete_files(folder: str) -> None:
    store = locate(folder).store
    for path in store.list(""):
        store.delete(path)


@contextmanager
def _in_spark(folder: str) -> Iterator[None]:
    """Raise `EnumerationFailed` for Spark's errors."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        raise find_lack(str(error)) or EnumerationFailed(folder, describe(error)) from error
    except PySparkException as error:
        raise find_lack(str(error)) or EnumerationFailed(folder, str(error).strip().splitlines()[0]) from error
