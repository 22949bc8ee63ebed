"""Delta tables by path: create, read, empty, compact and vacuum them.

`before_commit` is called before a commit that changes a table's content, and may raise: see `delta.writing.alteration`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.delta.checkpoints import forget_checksums, forget_versions
from rowtide.delta.data_files import Between
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.formats import FORMAT, IDENTITY, LAKE_TABLE
from rowtide.delta.replay import LOG, AddFile
from rowtide.delta.schema import FieldType
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing import alteration, changes, compaction
from rowtide.delta.writing.alteration import BeforeCommit, Convert
from rowtide.delta.writing.changes import Below, vacuum as vacuum_files
from rowtide.delta.writing.commits import create_table
from rowtide.lake.jars import describe, find_lack
from rowtide.lake.session import require_reachable, spark_watched
from rowtide.lake.sql_text import delta_type, schema_text
from rowtide.lake.stores import locate, open_folder
from rowtide.storage.places import spark_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_RETIRED = ""
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
# With Delta's default of 30 days, the log of a table with a commit every few seconds would have hundreds of thousands
# of files, which each reader lists.
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def ensure_table(
    path: str, columns: Sequence[tuple[str, str]], *, identity: str, before_commit: BeforeCommit = lambda: None
) -> None:
    """Create a table of the given (name, type) columns, unless the one at `path` already has this identity.

    A table of another identity is emptied and gets these columns, so that an instance which is enabled again under its
    old name starts empty. Raises `LakeWriteFailed`, `LakeReadFailed` if the storage failed.
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
        """Return the table unchanged, because Spark widens columns when it unites rows."""
        return self

    def may_have(self, *ranges: Between) -> bool:
        """Return whether a row may be in all ranges, according to the files' statistics. A range without bounds
        contains all values.

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


COMPACTION_INTERVAL = 100
"""Number of cycles between two compactions of a table."""
MOST_LOG_FILES = 20_000
"""If a table's log has more files, each of which every reader lists, versions are kept only for `BUSY_VERSIONS`."""
BUSY_VERSIONS = timedelta(hours=2)
OLD = timedelta(hours=1)
"""A small file of this age is merged with a second one."""
_HEAVIER = 4
"""A file is omitted from a merge if it is this many times as large as all others together."""


@frozen
class Compacted:
    """A table that is compacted, in the order of an integer column.

    The table's log below the last checkpoint of age `versions` is removed too; None: as by the table's properties, or
    by `BUSY_VERSIONS` if there are many.
    """

    path: str
    ordered_by: str
    versions: timedelta | None = None


def is_compaction_due(cycle: int, place: int) -> bool:
    """Return whether a table, by its position among all, is compacted after a cycle; tables take turns."""
    return (cycle + place) % COMPACTION_INTERVAL == 0


def choose_worthwhile(files: Sequence[AddFile], now: datetime) -> Sequence[AddFile]:
    """Return the files of a group of small files that are merged now; empty if the merge can wait."""
    total = sum(file.size for file in files)
    if total >= compaction.SMALL_BYTES:
        return files
    chosen = [file for file in files if file.size <= _HEAVIER * (total - file.size)]
    is_old = any(file.modification_time <= (now - OLD).timestamp() * 1000 for file in chosen)
    return chosen if is_old or len(chosen) >= COMPACTION_INTERVAL // 2 else ()


def compact(table: Compacted, before_commit: Callable[[], None] = lambda: None) -> None:
    """Merge a table's small files, if it has several, and remove the log that nobody reads.

    Readers of earlier versions keep the old files until `vacuum`. `before_commit` is called in front of each commit,
    and may raise. Raises `LakeWriteFailed`, `LakeReadFailed`.
    """
    location = locate(table.path)
    choose = partial(choose_worthwhile, now=datetime.now(UTC))
    compaction.compact(location, table.ordered_by, choose=choose, before_commit=before_commit)
    forget_checksums(location)
    versions = table.versions
    if versions is None and len(location.store.list(LOG)) > MOST_LOG_FILES:
        versions = BUSY_VERSIONS
    if versions is not None:
        forget_versions(location, versions, datetime.now(UTC))


def delete_rows(path: str, rows: Below) -> int:
    """Delete rows, and return their number.

    A file is removed if all its rows are deleted; otherwise it is rewritten. Raises `LakeWriteFailed`.
    """
    return changes.delete_below(locate(path), rows)


def vacuum(path: str) -> None:
    """Delete the files that no version within the table's retention refers to, such as those of interrupted appends.

    Raises `LakeWriteFailed`, `LakeReadFailed`.
    """
    folder = open_folder(path)
    vacuum_files(Location(path, folder), folder)
