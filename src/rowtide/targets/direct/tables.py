"""Delta tables of targets at a path, made, read and edited by our own committer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.delta.errors import TableUnreadable, TableUnwritable
from rowtide.delta.formats import FORMAT, OWNER, TARGET_TABLE
from rowtide.delta.schema import parse_schema
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.commit_race import require_writable
from rowtide.delta.writing.creation import create_table
from rowtide.delta.writing.edits import Edit, MakeRows, Stamp, edit_rows, replace_rows
from rowtide.lake.column_types import schema_text
from rowtide.lake.stores import locate
from rowtide.targets.errors import TargetOccupied
from rowtide.targets.formats.delta import mapping_properties
from rowtide.targets.table import Verify

MOST_BYTES = 1024 * 1024 * 1024
"""What is read of a table, and written: more is for Spark."""


@dataclass(frozen=True)
class DirectTable:
    """The table of an instance of a target; `columns` are names and types, `verify` is called before each commit."""

    target: str
    target_id: str
    path: str
    columns: Sequence[tuple[str, str]]
    partition_by: Sequence[str]
    verify: Verify

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow."""
        return parse_schema(schema_text(self.columns), is_mapped=False).schema

    def find(self) -> Snapshot | None:
        """Return its present version, None if it is not there. Raises `TargetOccupied`, `LakeReadFailed`."""
        snapshot = open_snapshot(locate(self.path))
        if snapshot is not None and snapshot.properties.get(OWNER) != self.target_id:
            raise TargetOccupied(self.target, self.path)
        return snapshot

    def create(self) -> Snapshot | None:
        """Make it, empty; return it as it is then. Raises `LakeWriteFailed`."""
        properties = {**mapping_properties(self.columns), OWNER: self.target_id}
        properties[FORMAT] = str(TARGET_TABLE.recorded)
        create_table(locate(self.path), schema_text(self.columns), properties, self.partition_by)
        return self.find()

    def is_editable(self, snapshot: Snapshot) -> bool:
        """Return whether a version has these columns and no others, and no features that our commits do not honour."""
        try:
            require_writable(snapshot)
            found = {field.name: field.type.arrow for field in snapshot.columns.fields}
        except (TableUnreadable, TableUnwritable):
            return False
        wanted: dict[str, Any] = {field.name: field.type for field in self.schema}
        return found == wanted

    def can_edit(self, snapshot: Snapshot, edit: Edit) -> bool:
        """Return whether the files of a version that an edit may have to write again are not too much for it."""
        return sum(file.size for file in snapshot.files.values() if edit.may_be_in(file)) <= MOST_BYTES

    def edit(self, lsn: CommitLsn, found: Snapshot, edit: Edit, added: MakeRows) -> None:
        """Edit rows of a version and add others, with everything up to an LSN; idempotent, by any process.

        Raises `EditOutdated` if another process has brought the table elsewhere since.
        """
        with self._committing():
            edit_rows(locate(self.path), edit, added, self._stamp(lsn, found))

    def replace(self, lsn: CommitLsn, found: Snapshot, rows: MakeRows) -> None:
        """Make its rows others, with everything up to an LSN; idempotent, by any process. Raises as `edit`."""
        with self._committing():
            replace_rows(locate(self.path), rows, self._stamp(lsn, found))

    @contextmanager
    def _committing(self) -> Iterator[None]:
        self.verify()
        failpoint("target_commit.before")
        yield
        failpoint("target_commit.after")

    def _stamp(self, lsn: CommitLsn, found: Snapshot) -> Stamp:
        return Stamp(self.target_id, lsn.value, found.get_transaction(self.target_id))
