"""Compaction merges the small files of many cycles. Rows, and what readers see, stay the same.

Files are merged once they have enough bytes for a file that is never merged again, or are many, or old. A file that
weighs more than the others is left to a later time: it would be written again for little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from rowtide.delta.actions import AddFile
from rowtide.delta.checkpoints import forget_checksums, forget_versions
from rowtide.delta.log_files import LOG
from rowtide.delta.writing import compaction
from rowtide.lake.stores import locate

COMPACTION_INTERVAL = 100
"""Number of cycles between two compactions of a table."""
MOST_LOG_FILES = 20_000
"""With more files in a table's log, each of which every reader lists, versions are kept for `BUSY_VERSIONS` only."""
BUSY_VERSIONS = timedelta(hours=2)
OLD = timedelta(hours=1)
"""A small file of this age is merged with a second one."""
_HEAVIER = 4
"""How many times the weight of all others a file has that is left out."""


@dataclass(frozen=True, slots=True)
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
