"""Delta tables by path: create, read, empty."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.delta.creation import create_table
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.kernel import KernelSnapshot, KernelTable, describe
from rowtide.lake.session import spark_watched
from rowtide.lake.sql_text import quote, table_at
from rowtide.lake.stores import locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IDENTITY = "rowtide.identity"
"""Table property: the identity under which cycles are appended; removed before the rows are."""

_RETIRED = ""
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def ensure_table(spark: SparkSession, path: str, columns: Sequence[tuple[str, str]], *, identity: str) -> None:
    """Create a table of the given (name, type) columns, unless the one at `path` already has this identity.

    One of another identity is emptied and gets these columns: an instance enabled again under its old name starts
    empty. Raises `LakeWriteFailed`, `LakeReadFailed` if the storage failed.
    """
    with writing(path):
        location = locate(path)
        snapshot = open_snapshot(location)
        if snapshot is None:
            properties = {**_PROPERTIES, **_mapping_properties(columns), IDENTITY: identity}
            create_table(location, _nothing(spark, columns).schema.json(), properties)
        elif snapshot.properties.get(IDENTITY) != identity:
            renew_table(spark, path, columns, identity)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise `LakeWriteFailed` for failures in the block, `SparkLost` where a retry is impossible."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with spark_watched():
            yield
    except Py4JJavaError as error:
        raise LakeWriteFailed(path, describe(error)) from error
    except (PySparkException, OSError) as error:
        raise LakeWriteFailed(path, str(error).strip().splitlines()[0]) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise `LakeReadFailed` for failures in the block, `SparkLost` where a retry is impossible."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with spark_watched():
            yield
    except Py4JJavaError as error:
        raise LakeReadFailed(path, describe(error)) from error
    except (PySparkException, pa.ArrowInvalid, OSError) as error:
        raise LakeReadFailed(path, str(error).strip().splitlines()[0]) from error


def _nothing(spark: SparkSession, columns: Sequence[tuple[str, str]]) -> DataFrame:
    nulls = (f"cast(null as {type_name}) as {quote(name)}" for name, type_name in columns)
    return spark.range(0).selectExpr(*nulls)


def renew_table(spark: SparkSession, path: str, columns: Sequence[tuple[str, str]], identity: str) -> None:
    """Empty a table and replace its columns; its identity is set last, so that a repeat starts over.

    Delta cannot replace a table that is known only by path. Raises `LakeWriteFailed`.
    """
    with writing(path):
        for name, value in _mapping_properties(columns).items():
            _set_property(spark, path, name, value)
        _support_types(spark, path, (type_name for _, type_name in columns))
        _nothing(spark, columns).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        _set_property(spark, path, IDENTITY, identity)


def _support_types(spark: SparkSession, path: str, types: Iterable[str]) -> None:
    """Enable the table feature that columns of this type need, which an existing table does not get by itself."""
    if "timestamp_ntz" in types:
        _set_property(spark, path, "delta.feature.timestampNtz", "supported")


def _set_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    spark.sql(f"alter table {table_at(path)} set tblproperties ('{name}' = '{value}')")


def widen_columns(spark: SparkSession, path: str, types: Mapping[str, str]) -> None:
    """Widen columns' types without rewriting files; Delta records that older files have narrower ones.

    Raises `LakeWriteFailed`.
    """
    with writing(path):
        _set_property(spark, path, "delta.enableTypeWidening", "true")
        _support_types(spark, path, types.values())
        for name, type_name in types.items():
            spark.sql(f"alter table {table_at(path)} alter column {quote(name)} type {type_name}")


def rewrite(rows: DataFrame, path: str) -> None:
    """Replace a table's rows and columns by those of a query on it, in one commit. Raises `LakeWriteFailed`."""
    with writing(path):
        _support_types(rows.sparkSession, path, (type_name for _, type_name in rows.dtypes))
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)


def empty_table(spark: SparkSession, path: str) -> None:
    """Remove all rows of a table, file by file. No effect on a missing table.

    Raises `LakeWriteFailed` if the storage failed.
    """
    with writing(path):
        snapshot = KernelTable(spark, path).read_snapshot()
        if snapshot is not None:
            _delete_rows(spark, path, snapshot)


def retire_table(spark: SparkSession, path: str, *, identity: str) -> None:
    """Remove a table's identity, then its rows: `read_identified` returns all rows or none. Idempotent.

    No effect on a table of another identity. Raises `LakeWriteFailed` if the storage failed.
    """
    with writing(path):
        snapshot = KernelTable(spark, path).read_snapshot()
        if snapshot is None:
            return
        found = snapshot.read_properties().get(IDENTITY)
        if found == identity:
            _set_property(spark, path, IDENTITY, _RETIRED)
        if found in (identity, _RETIRED):
            _delete_rows(spark, path, snapshot)


def _delete_rows(spark: SparkSession, path: str, snapshot: KernelSnapshot) -> None:
    from delta.tables import DeltaTable

    if not snapshot.is_empty():
        DeltaTable.forPath(spark, path).delete()


def is_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a table at a path."""
    return KernelTable(spark, path).read_snapshot() is not None


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Return a table's rows as a DataFrame, of the version at each read."""
    return spark.read.format("delta").load(path)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as of one moment."""

    path: str
    rows: DataFrame
    """All rows of this version, whenever they are read."""
    snapshot: KernelSnapshot

    def may_reach(self, column: str, value: int) -> bool:
        """Return whether, by the files' statistics, a column may be at least a number in any row.

        Raises `LakeReadFailed`.
        """
        with reading(self.path):
            return self.snapshot.has_files(column, value)


def read_identified(spark: SparkSession, path: str, *, identity: str) -> TableVersion | None:
    """Return a table's current version; None unless it has this identity. Raises `LakeReadFailed`."""
    with reading(path):
        snapshot = KernelTable(spark, path).read_snapshot()
        if snapshot is None or snapshot.read_properties().get(IDENTITY) != identity:
            return None
        rows = spark.read.format("delta").option("versionAsOf", snapshot.version).load(path)
        return TableVersion(path, rows, snapshot)


def host_name() -> str:
    """Return this machine's name, as recorded with publications."""
    return socket.gethostname()


def _mapping_properties(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    if not any(_NEEDS_MAPPING & set(name) for name, _ in columns):
        return {}
    return {"delta.columnMapping.mode": "name"}
