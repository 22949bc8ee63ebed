"""Resolution of concurrent changes to a logical record, as a whole. Pure.

The winner's record replaces the loser's: each row that the loser changed becomes what it is at the winner, as a change
of the hub's own that includes both versions. Rows that neither knows the other to have changed stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.records import ConflictType, type_of
from rowtide.merge.conflicts.resolvers import Contest, Winner, decide, find_resolver, priority_of, weight_of, withdrawal
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.comparison import Conflict, NodeChange, Presence, compare


@frozen
class ContestedRow:
    """A row of a record at both ends: `sent` is None if the sender does not have it, `known` if the hub does not.

    A row that the sender does not have is one that the hub has changed since it last sent. `row` is the hub's.
    `is_moved`: the sent row has the keys that its parents have at the hub, where the sender had others.
    """

    article: Article
    rowguid: str
    sent: RowChange | None
    known: KnownVersion | None
    row: Row | None
    is_moved: bool = False

    @property
    def is_ahead(self) -> bool:
        """Whether the sender changed it without the hub knowing."""
        if self.sent is None:
            return False
        if self.known is None:
            return self.sent.row is not None
        return not self.known.version.lineage.includes(NodeChange.decode(self.sent.last))

    @property
    def is_behind(self) -> bool:
        """Whether the hub changed it without the sender knowing."""
        if self.known is None or self.known.version.last is None:
            return False
        return self.sent is None or not self.sent.version.lineage.includes(self.known.version.last)

    @property
    def is_alike(self) -> bool:
        """Whether it is the same at both ends."""
        return self.row == (None if self.sent is None else self.sent.row)

    @property
    def is_conflict(self) -> bool:
        """Whether it conflicts by itself."""
        return self.conflict is not None and not self.is_alike

    @property
    def conflict(self) -> Conflict | None:
        """The conflict of the row by itself."""
        if self.sent is None or self.known is None:
            return None
        said = compare(self.sent.version, self.known.version)
        return said if isinstance(said, Conflict) else None


def is_contested(rows: Sequence[ContestedRow], *, detects: bool) -> bool:
    """Whether a record is in conflict: by a row, or, if conflicts of records are detected, by any changes."""
    if any(row.is_conflict for row in rows):
        return True
    changed = [row for row in rows if not row.is_alike]
    return detects and any(row.is_ahead for row in changed) and any(row.is_behind for row in changed)


def choose(top: Article, rows: Sequence[ContestedRow], priority: float) -> Winner:
    """Return the winner of a record by the resolver of its top article; `priority` is the subscription's.

    The hub's record has the highest priority of those of its concurrent changes.
    """
    ahead = [row for row in rows if row.is_ahead and row.sent is not None]
    behind = [(row.known, row.row) for row in rows if row.is_behind and row.known is not None]
    if not ahead or not behind:
        return Winner.SUBSCRIBER if ahead else Winner.PUBLISHER
    sent = min((row.sent for row in ahead if row.sent is not None), key=lambda sent: NodeChange.decode(sent.last))
    known, row = max(behind, key=lambda one: (priority_of(one[0]), -_nickname(one[0])))
    verdict = find_resolver(top)(Contest(top, sent, known, row, priority))
    assert isinstance(verdict, Winner)
    return verdict


def settle(row: ContestedRow, winner: Winner, priority: float) -> Write | None:
    """Return what the winner's record makes of a row; None if it stays as it is.

    A row that only the winner changed is to be written as without a conflict where that is the subscriber.
    """
    if winner is Winner.SUBSCRIBER:
        if not row.is_behind or row.known is None:
            return None
        if row.sent is None:
            lineage = row.known.version.lineage.encode()
            return withdrawal(row.rowguid, lineage, is_live=True) if row.row is not None else None
        return decide(
            row.sent,
            row.known,
            row.sent.row,
            priority=weight_of(row.sent, priority) or None,
            tombstone=row.sent.tombstone,
        )
    if not row.is_ahead or row.sent is None:
        return None
    if row.known is None:
        return withdrawal(row.rowguid, row.sent.lineage, is_live=False)
    return decide(row.sent, row.known, row.row, priority=row.known.priority)


def kind_of(row: ContestedRow, winner: Winner) -> ConflictType | None:
    """Return the type of the conflict that a row loses by its record; None if nothing is lost."""
    sent = None if row.sent is None else row.sent.row
    lost, won = (row.row, sent) if winner is Winner.SUBSCRIBER else (sent, row.row)
    is_losing = row.is_behind if winner is Winner.SUBSCRIBER else row.is_ahead
    if lost == won or not is_losing:
        return None
    conflict = row.conflict
    if conflict is not None:
        return type_of(conflict, update_wins=won is not None)
    if won is None:
        return ConflictType.RECORD_DELETE_WINS_CONFLICT
    return ConflictType.RECORD_UPDATE_CONFLICT if lost is not None else ConflictType.RECORD_UPDATE_WINS_CONFLICT


def is_live(known: KnownVersion | None) -> bool:
    """Whether the hub has a row."""
    return known is not None and known.version.presence is Presence.LIVE


def _nickname(known: KnownVersion) -> int:
    return 0 if known.version.last is None else known.version.last.nickname
