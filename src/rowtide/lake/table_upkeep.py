"""The upkeep of the lake's tables: merge small files, delete rows below a bound, then files that no version needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile
from rowtide.delta.checkpoints import forget_checksums, forget_versions
from rowtide.delta.replay import LOG
from rowtide.delta.snapshot import Location
from rowtide.delta.writing import compaction, deletion
from rowtide.delta.writing.deletion import Below, vacuum as vacuum_files
from rowtide.lake.stores import locate, open_folder

COMPACTION_INTERVAL = 100
"""Number of cycles between two compactions of a table."""
MOST_LOG_FILES = 20_000
"""With more files in a table's log, each of which every reader lists, versions are kept for `BUSY_VERSIONS` only."""
BUSY_VERSIONS = timedelta(hours=2)
OLD = timedelta(hours=1)
"""A small file of this age is merged with a second one."""
_HEAVIER = 4
"""How many times the weight of all others a file has that is omitted."""


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
    """Return those of a group of small files that are merged now; none if that has time."""
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
    return deletion.delete_below(locate(path), rows)


def vacuum(path: str) -> None:
    """Delete the files that no version within the table's retention refers to, such as those of interrupted appends.

    Raises `LakeWriteFailed`, `LakeReadFailed`.
    """
    folder = open_folder(path)
    vacuum_files(Location(path, folder), folder)
