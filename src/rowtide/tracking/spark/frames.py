"""Changes as DataFrames, enumerated once by Spark tasks into files that the DataFrames read.

A DataFrame is computed each time it is used, a task may run twice, and each enumeration returns another anchor.
Therefore the tasks' output is committed by Spark, one run per task; anchors and DataFrames both come from what was
committed.
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
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.lake.java import describe
from rowtide.lake.paths import absolute_lake, local_folder
from rowtide.lake.session import build_session, for_reading, require_reachable
from rowtide.lake.spark.failures import find_lack
from rowtide.lake.spark.settings import SHUFFLE_PARTITIONS
from rowtide.lake.sql_text import literal
from rowtide.lake.stores import locate
from rowtide.storage.object_urls import spark_url
from rowtide.tracking.errors import DevicesFailed, EnumerationFailed
from rowtide.tracking.spark.columns import empty_list, select_list, unite
from rowtide.tracking.spark.devices import find_devices
from rowtide.tracking.spark.records import (
    CHANGE,
    OUTCOMES,
    RECORD,
    DeviceOutcome,
    Shape,
    make_batches,
    read_outcome,
)
from rowtide.tracking.spark.tasks import Work, enumerate_devices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMED_FAILURES = 3


@dataclass(frozen=True, slots=True)
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

    class Enumeration:
        def eval(self, places: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            yield from make_batches(enumerate_devices(work, places.column(0).to_numpy().tolist()))

    name = f"rowtide_enumeration_{secrets.token_hex(8)}"
    # A few for each core: a task enumerates many devices, and some devices are slow.
    tasks = min(len(work.devices), int(session.conf.get(SHUFFLE_PARTITIONS) or 1))
    function: Any = arrow_udtf(Enumeration, returnType=RECORD)
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


def _without_failed(records: DataFrame, shape: Shape, outcomes: Sequence[DeviceOutcome]) -> DataFrame:
    failed = [
        literal(outcome.device) for outcome in outcomes if outcome.failure is not None and shape in outcome.shapes
    ]
    return records.where(f"device not in ({', '.join(failed)})") if failed else records


def _read_part(session: SparkSession, folder: str, part: str) -> DataFrame:
    literally = re.sub(r"[][{}*?\\]", r"\\\g<0>", spark_url(folder, os.environ))
    return session.read.schema(CHANGE).parquet(f"{literally}/part={part}")


def _delete(folder: str) -> None:
    """Delete a folder of files, if it exists. Raises `EnumerationFailed`."""
    place = local_folder(folder)
    try:
        if place is None:
            _delete_files(folder)
        elif place.exists():
            shutil.rmtree(place)
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
