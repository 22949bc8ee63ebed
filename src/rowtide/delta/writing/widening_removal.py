"""Removal of type widening from a table: files with narrower types are rewritten, then the feature is dropped.

Each commit replaces a few files, so that a killed run resumes where it stopped. Rows do not change, and files that are
added meanwhile have the table's types already.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.delta.features import TYPE_WIDENING, WIDENINGS, without_features
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.alteration import TYPE_CHANGES, without_widening
from rowtide.delta.writing.appends import write_partition
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.commit_race import load_writable
from rowtide.delta.writing.compaction import fill_groups

# Footers are small: reading one is mostly waiting for the store.
_LOOKED_INTO_AT_ONCE = 16


@frozen
class Mended:
    """The work of mending a table: the files that are rewritten, and their bytes before and after.

    `written_bytes` is None in a plan.
    """

    was_marked: bool
    files: int = 0
    read_bytes: int = 0
    written_bytes: int | None = None


def is_marked(snapshot: Snapshot) -> bool:
    """Return whether a table's readers have to support type widening."""
    return not WIDENINGS.isdisjoint(snapshot.protocol.reader_features)


def plan_mending(snapshot: Snapshot) -> Mended:
    """Return what `mend` would do with a version; reads the footers of its files. Raises `LakeReadFailed`."""
    narrow = _Looked().find_narrow(snapshot) if is_marked(snapshot) else []
    return Mended(is_marked(snapshot), len(narrow), sum(file.size for file in narrow))


def mend(
    location: Location,
    *,
    before_commit: Callable[[], None] = lambda: None,
    on_progress: Callable[[Mended], None] = lambda _mended: None,
) -> Mended:
    """Rewrite files with narrower types, and remove type widening from the table; idempotent.

    `before_commit` is called in front of each commit, and may raise. Raises as `commit_change`.
    """
    looked = _Looked()
    done = Mended(is_marked(load_writable(location)), written_bytes=0)
    step = done

    def plan(snapshot: Snapshot) -> CommitChange | None:
        nonlocal step
        step = done
        if not is_marked(snapshot):
            return None
        snapshot.require_readable()
        groups = fill_groups(looked.find_narrow(snapshot), lambda file: file.size)
        if not groups:
            before_commit()
            return _unmark(snapshot)
        added = [_write_again(snapshot, file) for file in groups[0]]
        looked.wide.update(file.path for file in added)
        step = _sum_up(done, groups[0], added)
        before_commit()
        return CommitChange("REORG", removed=groups[0], added=added, changes_rows=False)

    while commit_change(location, plan):
        done = step
        on_progress(done)
    return done


class _Looked:
    """The files whose footers were read, and which have no narrower types than the present columns."""

    def __init__(self) -> None:
        self.wide: set[str] = set()
        self._schema = ""

    def find_narrow(self, snapshot: Snapshot) -> list[AddFile]:
        """Return the files with narrower types, by path."""
        if snapshot.metadata.schema_text != self._schema:
            self.wide.clear()
            self._schema = snapshot.metadata.schema_text
        widened = [
            field["name"]
            for field in json.loads(snapshot.metadata.schema_text)["fields"]
            if f'"{TYPE_CHANGES}"' in json.dumps(field)
        ]
        files = sorted(set(snapshot.files) - self.wide) if widened else []
        with ThreadPoolExecutor(_LOOKED_INTO_AT_ONCE, "rowtide-mend") as pool:
            are_narrow = list(pool.map(lambda path: snapshot.has_other_types(snapshot.files[path], widened), files))
        found = [path for path, is_narrow in zip(files, are_narrow, strict=True) if is_narrow]
        self.wide.update(set(files).difference(found))
        return [snapshot.files[path] for path in found]


def _write_again(snapshot: Snapshot, file: AddFile) -> AddFile:
    rows, name = snapshot.stream_files([file]), f"mended-{uuid.uuid4().hex}.parquet"
    written = write_partition(snapshot, file.partition_values, rows, name)
    return replace(written, tags=file.tags)


def _unmark(snapshot: Snapshot) -> CommitChange:
    return CommitChange(
        "DROP FEATURE",
        {"featureName": TYPE_WIDENING},
        protocol=without_features(snapshot.protocol, WIDENINGS),
        metadata=without_widening(snapshot.metadata),
        changes_rows=False,
    )


def _sum_up(done: Mended, removed: Sequence[AddFile], added: Sequence[AddFile]) -> Mended:
    return replace(
        done,
        files=done.files + len(added),
        read_bytes=done.read_bytes + sum(file.size for file in removed),
        written_bytes=(done.written_bytes or 0) + sum(file.size for file in added),
    )
