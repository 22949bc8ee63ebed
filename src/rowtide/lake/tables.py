"""Delta tables by path: create, read, empty.

`before_commit` is called in front of a commit that changes what a table has, and may raise: see
`delta.writing.alteration`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.formats import FORMAT, IDENTITY, LAKE_TABLE
from rowtide.delta.schema import FieldType
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.statistics import Between
from rowtide.delta.writing import alteration
from rowtide.delta.writing.alteration import BeforeCommit, Convert
from rowtide.delta.writing.creation import create_table
from rowtide.lake.column_types import delta_type, schema_text
from rowtide.lake.session import require_reachable, spark_watched
from rowtide.lake.spark.failures import describe, find_lack
from rowtide.lake.stores import locate
from rowtide.storage.object_urls import spark_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RETIRED = ""
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def ensure_table(
    path: str, columns: Sequence[tuple[str, str]], *, identity: str, before_commit: BeforeCommit = lambda: None
) -> None:
    """Create a table of the given (name, type) columns, unless the one at `path` already has this identity.

    One of another identity is emptied and gets these columns: an instance enabled again under its old name starts
    empty. Raises `LakeWriteFailed`, `LakeReadFailed` if the storage failed.
    """
    location = locate(path)
    snapshot = open_snapshot(location)
    if snapshot is None:
        recorded = {IDENTITY: identity, FORMAT: str(LAKE_TABLE.recorded)}
        properties = {**_PROPERTIES, **_mapping_properties(columns), **recorded}
        create_table(location, schema_text(columns), properties)
    elif snapshot.properties.get(IDENTITY) != identity:
        renew_table(path, columns, identity, before_commit=before_commit)


def renew_table(
    path: str, columns: Sequence[tuple[str, str]], identity: str, *, before_commit: BeforeCommit = lambda: None
) -> None:
    """Empty a table, replace its columns and give it an identity, in one commit. Raises `LakeWriteFailed`."""
    properties = {**_mapping_properties(columns), IDENTITY: identity}
    alteration.renew_table(locate(path), schema_text(columns), properties, before_commit=before_commit)


def retype_empty(
    path: str, read_types: Callable[[], Mapping[str, str]], *, before_commit: BeforeCommit = lambda: None
) -> None:
    """Give columns other types if there are no rows; `read_types` is called in front of each attempt, and may raise.

    Raises `LakeWriteFailed`.
    """
    alteration.retype_empty(locate(path), lambda: _delta_types(read_types()), before_commit=before_commit)


def widen_columns(path: str, types: Mapping[str, str], *, before_commit: BeforeCommit = lambda: None) -> None:
    """Widen columns' types without rewriting files. Raises `LakeWriteFailed`."""
    alteration.widen_columns(locate(path), _delta_types(types), before_commit=before_commit)


def rewrite(
    path: str,
    columns: Sequence[tuple[str, str]],
    convert: Convert,
    *,
    changes_rows: bool = True,
    before_commit: BeforeCommit = lambda: None,
) -> None:
    """Replace a table's rows and its columns' types in one commit, a batch at a time; without `changes_rows` the values
    are the same. Raises `LakeWriteFailed`.
    """
    text = schema_text(columns)
    alteration.rewrite(locate(path), text, convert, changes_rows=changes_rows, before_commit=before_commit)


def empty_table(path: str) -> None:
    """Remove all rows of a table, file by file. No effect on a missing table.

    Raises `LakeWriteFailed` if the storage failed.
    """
    location = locate(path)
    if open_snapshot(location) is not None:
        alteration.empty_table(location)


def retire_table(path: str, *, identity: str) -> None:
    """Remove a table's identity and its rows at once: `read_identified` returns all rows or none. Idempotent.

    No effect on a table of another identity. Raises `LakeWriteFailed` if the storage failed.
    """
    location = locate(path)
    if open_snapshot(location) is not None:
        alteration.retire_table(location, IDENTITY, identity, _RETIRED)


def is_table(path: str) -> bool:
    """Return whether there is a table at a path. Raises `LakeReadFailed`."""
    return open_snapshot(locate(path)) is not None


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise `LakeWriteFailed` for failures of Spark in the block, `SparkLost` where a retry is impossible."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with spark_watched():
            yield
    except Py4JJavaError as error:
        raise find_lack(str(error)) or LakeWriteFailed(path, describe(error)) from error
    except (PySparkException, OSError) as error:
        raise find_lack(str(error)) or LakeWriteFailed(path, str(error).strip().splitlines()[0]) from error


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise `LakeReadFailed` for failures in the block, `SparkLost` where a retry is impossible."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with spark_watched():
            yield
    except Py4JJavaError as error:
        raise find_lack(str(error)) or LakeReadFailed(path, describe(error)) from error
    except (PySparkException, OSError) as error:
        raise find_lack(str(error)) or LakeReadFailed(path, str(error).strip().splitlines()[0]) from error


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Return a table's rows as a DataFrame, of the version at each read. Raises `LakeReadFailed`."""
    with _reading(path):
        return spark.read.format("delta").load(spark_url(path, os.environ))


@frozen
class LakeTableVersion:
    """A table as of one moment."""

    path: str
    rows: DataFrame
    """All rows of this version, whenever they are read."""
    snapshot: Snapshot

    def widen(self, _types: Mapping[str, FieldType]) -> LakeTableVersion:
        """Return the table: Spark widens the columns of rows that it unites with wider ones by itself."""
        return self

    def may_have(self, *ranges: Between) -> bool:
        """Return whether, by the files' statistics, a row may be in all ranges; one without bounds is that of values.

        Raises `LakeReadFailed`.
        """
        return bool(self.snapshot.list_files(*ranges))


def read_identified(spark: SparkSession, path: str, *, identity: str) -> LakeTableVersion | None:
    """Return a table's current version; None unless it has this identity.

    Raises `LakeReadFailed`, `StorageNotShared` if Spark's tasks do not reach it.
    """
    require_reachable(path)
    snapshot = open_snapshot(locate(path))
    if snapshot is None or snapshot.properties.get(IDENTITY) != identity:
        return None
    with _reading(path):
        rows = spark.read.format("delta").option("versionAsOf", snapshot.version).load(spark_url(path, os.environ))
        return LakeTableVersion(path, rows, snapshot)


def host_name() -> str:
    """Return this machine's name, as recorded with publications."""
    return socket.gethostname()


def _delta_types(types: Mapping[str, str]) -> dict[str, str]:
    return {name: delta_type(type_name) for name, type_name in types.items()}


def _mapping_properties(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    if not any(_NEEDS_MAPPING & set(name) for name, _ in columns):
        return {}
    return {"delta.columnMapping.mode": "name"}
