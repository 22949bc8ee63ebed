"""Delete rows by the range of a column, and then the files that no version needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.lake.sql_text import table_at
from rowtide.lake.tables import writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_rows(spark: SparkSession, path: str, condition: str) -> int:
    """Delete the rows that satisfy a condition (Spark SQL), and return their number.

    A file is removed if all its rows are deleted; otherwise it is rewritten. Raises `LakeWriteFailed`.
    """
    with writing(path):
        deleted = spark.sql(f"delete from {table_at(path)} where {condition}").first()  # noqa: S608 - the condition is ours
    return int(deleted["num_affected_rows"]) if deleted is not None else 0


def vacuum(spark: SparkSession, path: str) -> None:
    """Delete the files that no version within the table's retention refers to, such as those of interrupted appends.

    Raises `LakeWriteFailed`.
    """
    from delta.tables import DeltaTable

    with writing(path):
        DeltaTable.forPath(spark, path).vacuum()
