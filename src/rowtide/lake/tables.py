"""Delta tables by path: made, appended to exactly once, emptied."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rowtide.lake.errors import AppendNotFound, LakeWriteFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IDENTITY = "rowtide.identity"
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def ensure_table(spark: SparkSession, path: str, columns: Sequence[tuple[str, str]], *, identity: str) -> None:
    """Make a table of the given (name, type) columns, unless the one at `path` has this identity already.

    One of another identity is emptied and takes these columns: an instance enabled again under its old name starts
    empty.
    """
    if not is_table(spark, path):
        _create_table(spark, path, columns, {**_mapping_properties(columns), _IDENTITY: identity})
    elif _read_identity(spark, path) != identity:
        _renew_table(spark, path, columns, identity)


def _create_table(
    spark: SparkSession, path: str, columns: Sequence[tuple[str, str]], properties: Mapping[str, str]
) -> None:
    from delta.tables import DeltaTable

    builder = DeltaTable.create(spark).location(path)
    for name, type_name in columns:
        builder = builder.addColumn(name, type_name)
    for name, value in {**_PROPERTIES, **properties}.items():
        builder = builder.property(name, value)
    builder.execute()


def _renew_table(spark: SparkSession, path: str, columns: Sequence[tuple[str, str]], identity: str) -> None:
    """Empty a table and give it other columns; its identity last, so that a repeat begins anew.

    Delta replaces no table that is known by its path alone.
    """
    for name, value in _mapping_properties(columns).items():
        _set_property(spark, path, name, value)
    nulls = (f"cast(null as {type_name}) as `{name.replace('`', '``')}`" for name, type_name in columns)
    nothing = spark.range(0).selectExpr(*nulls)
    nothing.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    _set_property(spark, path, _IDENTITY, identity)


def _set_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    spark.sql(f"alter table delta.`{path.replace('`', '``')}` set tblproperties ('{name}' = '{value}')")


def append_once(rows: DataFrame, path: str, *, identity: str, cycle: int) -> None:
    """Append the rows of a cycle; a repeat of the cycle is ignored. The table is then asked whether it shows them.

    Durable on return. Raises `AppendNotFound`, and `LakeWriteFailed` where the storage failed.
    """
    from delta.exceptions import ConcurrentTransactionException
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    mark = f"rowtide {identity} cycle {cycle}"
    writer = rows.write.format("delta").mode("append").option("userMetadata", mark)
    try:
        # A JVM that outlived its Python has just committed this very cycle.
        with suppress(ConcurrentTransactionException):
            writer.option("txnAppId", identity).option("txnVersion", str(cycle)).save(path)
    except (PySparkException, Py4JJavaError) as error:
        raise LakeWriteFailed(path, str(error).strip().splitlines()[0]) from error
    if mark not in _latest_marks(rows.sparkSession, path):
        raise AppendNotFound(path, cycle)


def empty_table(spark: SparkSession, path: str) -> None:
    """Remove all rows of a table; whole files, so it is quick. A missing table is fine."""
    from delta.tables import DeltaTable

    if DeltaTable.isDeltaTable(spark, path):
        DeltaTable.forPath(spark, path).delete()


def is_table(spark: SparkSession, path: str) -> bool:
    """Tell whether there is a table at a path."""
    from delta.tables import DeltaTable

    return bool(DeltaTable.isDeltaTable(spark, path))


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Return a table's rows as of now."""
    return spark.read.format("delta").load(path)


def host_name() -> str:
    """Return the name under which this machine stamps publications."""
    return socket.gethostname()


def _read_identity(spark: SparkSession, path: str) -> str | None:
    from delta.tables import DeltaTable

    details = DeltaTable.forPath(spark, path).detail().select("properties").collect()
    return dict(details[0]["properties"]).get(_IDENTITY)


def _latest_marks(spark: SparkSession, path: str) -> list[str | None]:
    from delta.tables import DeltaTable

    return [row["userMetadata"] for row in DeltaTable.forPath(spark, path).history(5).select("userMetadata").collect()]


def _mapping_properties(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    if not any(_NEEDS_MAPPING & set(name) for name, _ in columns):
        return {}
    return {"delta.columnMapping.mode": "name"}
