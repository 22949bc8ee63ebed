"""What a node does with received changes; the subscriber's part.

A subscriber accepts a version that includes its own. A row that it changed concurrently is uploaded in the next
synchronisation, and the hub's decision comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.merge.articles import Article, Subscription
from rowtide.merge.conflicts.records import (
    ConflictRecord,
    ConflictType,
    failure_type,
    identify,
    record,
    settle_failures,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.unique_swap import temporary_values
from rowtide.merge.progress import drop_retries, put_retry
from rowtide.merge.session.exchange import Counts, Refused, alike, count_writes, taken_alike
from rowtide.merge.versions.changes import Known, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence, Take, compare


@dataclass(slots=True)
class NodeReceiver:
    """Common part of receivers: `source` is the sender's nickname, `again` the rows requested from it once more.

    `kept` are the conflicts recorded for refused changes.
    """

    node: Node
    subscription: Subscription
    source: int
    source_name: str
    again: Mapping[int, Sequence[str]]
    is_upload: bool
    kept: list[ConflictRecord] = field(default_factory=list)
    asking: set[tuple[int, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.asking = {(nickname, rowguid) for nickname, listed in self.again.items() for rowguid in listed}

    @property
    def has_refused(self) -> bool:
        """Whether rows are to be requested again in the next synchronisation."""
        return bool(self.asking)

    def check(self) -> None:
        self.node.require_session(self.subscription)

    def forget_retries(self, article: Article, changes: Sequence[RowChange]) -> None:
        asked = set(self.again.get(article.nickname, ()))
        done = [change.rowguid for change in changes if change.rowguid in asked]
        if done:
            drop_retries(self.node.connection, self.source, article.nickname, done)
            settle_failures(self.node.connection, article, done)
            self.asking.difference_update((article.nickname, rowguid) for rowguid in done)

    def write(self, article: Article, writes: Sequence[Write], *, swaps: bool) -> None:
        updated = [write.rowguid for write in writes if write.row is not None and write.is_live]
        if swaps:
            self.node.write_temporary(article, temporary_values(article, updated))
        self.node.write(article, writes)

    def ask_again(self, refused: Refused, known: Known | None) -> None:
        """Record a refused change as failed, and request the row again in the next synchronisation."""
        change, article, error = refused.change, refused.article, refused.error
        is_live = known is not None and known.version.presence is Presence.LIVE
        self.asking.add((article.nickname, change.rowguid))
        put_retry(self.node.connection, self.source, article.nickname, change.rowguid, error.code, error.reason)
        conflict_type = failure_type(change, is_upload=self.is_upload, is_live=is_live)
        self.keep(article, change, conflict_type, error.code, error.reason, winning_row=None)

    def keep(
        self,
        article: Article,
        change: RowChange,
        conflict_type: ConflictType,
        code: str,
        reason: str,
        *,
        winning_row: Row | None,
    ) -> None:
        """Record a conflict that the sender's version lost."""
        conflict = ConflictRecord(
            identify(change.rowguid, change.last, code.encode()),
            self.subscription.pubid,
            article,
            change.rowguid,
            conflict_type,
            self.source,
            code,
            reason,
            change.row,
            winning_row,
            change.lineage,
            self.source_name,
        )
        record(self.node.connection, conflict)
        self.kept.append(conflict)


@dataclass(slots=True)
class SubscriberReceiver(NodeReceiver):
    """A subscriber that downloads; see `Receiver`.

    `staying` are rows that should leave but remain, because the subscriber changed them or other rows reference them.
    """

    staying: set[str] = field(default_factory=set)

    def receive(self, article: Article, changes: Sequence[RowChange], *, swaps: bool = False) -> Counts:
        known = self.node.read_known(article, [change.rowguid for change in changes])
        writes: list[Write] = []
        for several, here in alike(changes, known):
            if self._are_newer(several, here):
                writes += taken_alike(several, here, self.source, None)
        self.write(article, writes, swaps=swaps)
        self.forget_retries(article, changes)
        return count_writes(writes)

    def _are_newer(self, changes: Sequence[RowChange], known: Known | None) -> bool:
        change = changes[0]
        if known is None:
            return change.row is not None
        if change.tombstone is not TombstoneType.LEFT:
            return isinstance(compare(change.version, known.version), Take)
        if known.version.presence is Presence.DELETED:
            return False
        if known.version.last is None or change.version.lineage.includes(known.version.last):
            return True
        self.staying.update(change.rowguid for change in changes)
        return False

    def give_up(self, refused: Refused) -> Counts:
        if refused.change.tombstone is TombstoneType.LEFT:
            self.staying.add(refused.change.rowguid)
            return Counts(refused=1)
        known = self.node.read_known(refused.article, [refused.change.rowguid])
        self.ask_again(refused, known.get(refused.change.rowguid))
        return Counts(refused=1)
