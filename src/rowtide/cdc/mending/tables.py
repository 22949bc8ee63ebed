"""Mending an instance's tables: what readers without type widening refuse, they can read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowtide.cdc.lake_tables import base_table_path, change_table_path
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.mending import Mended, mend, plan_mending
from rowtide.lake.stores import locate

BeforeCommit = Callable[[], None]


@frozen
class MendedTable:
    """A table of an instance, and what mending it does.

    `files` had narrower types and are written again: `read_bytes` of them, and `written_bytes`, None of a plan. A table
    that was not marked with type widening is left as it is.
    """

    capture_instance: str
    path: str
    was_marked: bool
    files: int
    read_bytes: int
    written_bytes: int | None

    @classmethod
    def of(cls, capture_instance: str, path: str, mended: Mended) -> MendedTable:
        """Return a table with what is done to it."""
        return cls(capture_instance, path, mended.was_marked, mended.files, mended.read_bytes, mended.written_bytes)


def plan_instance(lake: str, capture_instance: str) -> tuple[MendedTable, ...]:
    """Return what mending an instance's tables would do; the ends of their files are read. Raises `LakeReadFailed`."""
    found = _open_tables(lake, capture_instance)
    return tuple(MendedTable.of(capture_instance, path, plan_mending(snapshot)) for path, snapshot in found)


def mend_instance(
    lake: str,
    capture_instance: str,
    before_commit: BeforeCommit,
    on_progress: Callable[[MendedTable], None] = lambda _mended: None,
) -> tuple[MendedTable, ...]:
    """Take type widening out of an instance's change table and base; idempotent, and resumes after a kill.

    Readers of earlier versions keep the old files until a vacuum. Raises `LakeWriteFailed`, `LakeReadFailed`,
    `TableUnreadable`, `TableUnwritable`.
    """
    mended: list[MendedTable] = []
    for path, snapshot in _open_tables(lake, capture_instance):

        def report(done: Mended, path: str = path) -> None:
            on_progress(MendedTable.of(capture_instance, path, done))

        failpoint("table_mended.before")
        done = mend(snapshot.location, before_commit=before_commit, on_progress=report)
        failpoint("table_mended.after")
        mended.append(MendedTable.of(capture_instance, path, done))
    return tuple(mended)


def _open_tables(lake: str, capture_instance: str) -> Iterator[tuple[str, Snapshot]]:
    """Yield the tables of an instance that are there: capture makes the one, and its first snapshot the other."""
    for path in (change_table_path(lake, capture_instance), base_table_path(lake, capture_instance)):
        snapshot = open_snapshot(locate(path))
        if snapshot is not None:
            yield path, snapshot
