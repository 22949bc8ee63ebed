"""What a subscriber wrote to columns that the publisher has dropped meanwhile: each such row becomes a conflict.

Both ends record it, the publisher as it stores that the upload has come, the subscriber as it stores that it was sent:
before its own column is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, identify, record
from rowtide.merge.errors.rows import ColumnGone
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import read_all
from rowtide.merge.session.spool import ArticleMapping
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.comparison import NodeChange, decode_columns


@frozen
class UploadingNode:
    """A subscriber that uploads, with its nickname and name, what it changed after its generation `since`."""

    pubid: str
    nickname: int
    name: str
    since: int


@dataclass(slots=True)
class DroppedColumns:
    """The rows of an upload that have values of their sender's own in columns that the publisher no longer has."""

    sender: UploadingNode
    _found: dict[tuple[int, str], tuple[ArticleMapping, RowChange, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def has_any(self) -> bool:
        """Whether anything is noted that is not recorded."""
        return bool(self._found)

    def note(self, mapping: ArticleMapping, changes: Sequence[RowChange]) -> None:
        """Note those of some changes, as the subscriber sends them, that lose a value."""
        places = [place for place in range(len(mapping.sender.columns)) if place not in mapping.kept]
        for change in changes if places else ():
            lost = self._find_lost(mapping.sender, change, places)
            if lost:
                self._found[mapping.sender.nickname, change.rowguid] = mapping, change, lost

    def put_at_publisher(self, node: Node) -> None:
        """Record what was noted, with the publisher's rows, in the caller's transaction. Idempotent."""
        present = read_all(node.rows, [(mapping.receiver, change.rowguid) for mapping, change, _ in self._rows])
        for mapping, change, lost in self._rows:
            row = present[mapping.receiver.nickname].get(change.rowguid)
            self._record(node.connection, mapping, change, lost, row)

    def put_at_subscriber(self, node: Node) -> None:
        """Record what was noted, before the subscriber has the publisher's columns, as `put_at_publisher` does."""
        for mapping, change, lost in self._rows:
            # What is left of the row.
            row = None if change.row is None else tuple(change.row[place] for place in mapping.kept)
            self._record(node.connection, mapping, change, lost, row)

    @property
    def _rows(self) -> Sequence[tuple[ArticleMapping, RowChange, tuple[str, ...]]]:
        return list(self._found.values())

    def forget(self) -> None:
        """Forget what was noted, once it is recorded."""
        self._found.clear()

    def _find_lost(self, article: Article, change: RowChange, places: Sequence[int]) -> tuple[str, ...]:
        """Return the columns that a change loses; without column tracking, all that have a value."""
        row = change.row
        if row is None:
            return ()
        columns = {} if change.columns is None else decode_columns(change.columns)
        is_tracked = article.column_tracking and bool(columns)
        return tuple(
            article.columns[place].name
            for place in places
            if (self._is_new(columns.get(place)) if is_tracked else row[place] is not None)
        )

    def _is_new(self, change: NodeChange | None) -> bool:
        return change is not None and change.nickname == self.sender.nickname and change.version > self.sender.since

    def _record(
        self, connection: Connection, mapping: ArticleMapping, change: RowChange, lost: tuple[str, ...], row: Row | None
    ) -> None:
        article, error = mapping.sender, ColumnGone.of(mapping.sender.name, lost)
        present: Row | None = None
        if row is not None:
            values = dict(zip(mapping.kept, row, strict=True))
            present = tuple(values.get(place) for place in range(len(article.columns)))
        conflict = ConflictRecord(
            identify(change.rowguid, change.last, error.code.encode(), ",".join(lost).encode()),
            self.sender.pubid,
            article,
            change.rowguid,
            ConflictType.COLUMN_UPDATE_CONFLICT,
            self.sender.nickname,
            error.code,
            str(error.reason),
            change.row,
            present,
            change.lineage,
            self.sender.name,
            losing_columns=lost,
        )
        record(connection, conflict)
