"""Delete the data files that no version within the table's retention has, such as those of interrupted commits."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote

from rowtide.core.failpoints import failpoint
from rowtide.delta.checkpoints import removed_for
from rowtide.delta.errors import TableUnreadable
from rowtide.delta.snapshot import Location, open_snapshot
from rowtide.storage.bulk import delete_all
from rowtide.storage.store import Sweepable


def vacuum(location: Location, files: Sweepable, now: datetime | None = None) -> int:
    """Delete files older than the table's retention of removed files; return how many. No effect without a table.

    Files whose path has a part that begins with `_` or `.`, as the log's, are none of it. Raises `LakeReadFailed`,
    `LakeWriteFailed`, `TableUnreadable`.
    """
    now = now or datetime.now(UTC)
    first = open_snapshot(location)
    if first is None:
        return 0
    before = now - removed_for(first.properties)
    old = location.store.list("", before=before)
    # The newest version, read after the files: what was committed meanwhile is in it.
    snapshot = open_snapshot(location)
    assert snapshot is not None
    oldest = int(before.timestamp() * 1000)
    removed = (gone.path for gone in snapshot.state.removed.values() if gone.deleted_at >= oldest)
    needed = {unquote(path) for path in (*snapshot.files, *removed)}
    if any("://" in path or path.startswith(("/", "file:")) for path in needed):
        raise TableUnreadable(location.path, "data files outside its folder")
    unneeded = [path for path in old if path not in needed and not _is_hidden(path)]
    failpoint("delta_vacuum.before")
    delete_all(location.store, unneeded)
    failpoint("delta_vacuum.after")
    files.sweep(before)
    return len(unneeded)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))
