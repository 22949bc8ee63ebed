"""What the hub does with uploaded changes: it resolves conflicts.

A conflict is resolved once, at the hub, in the transaction that writes the outcome; other nodes receive it as a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from rowtide.merge.articles import Article, PartitionOptions, SubscriberType
from rowtide.merge.conflicts.records import (
    ConflictRecord,
    ConflictType,
    failure_type,
    identify,
    reason_of,
    record,
    type_of,
)
from rowtide.merge.conflicts.resolution import Contest, Resolver, Winner, combine, decide, resolve, winner_of
from rowtide.merge.conflicts.resolvers import find_resolver
from rowtide.merge.errors import FOREIGN_KEY_CODES, RowOutsidePartition, RowsRefused
from rowtide.merge.handlers import ActionOnDataChange, Asked, find_handler
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.partition_membership import FROM_THERE, add_members, remove_members
from rowtide.merge.session.exchange import Counts, Refused, alike, count_writes, taken_alike
from rowtide.merge.session.receiving import NodeReceiver
from rowtide.merge.versions.changes import Known, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Combine, Conflict, Join, Nothing, Presence, Take, compare
from rowtide.merge.versions.lineage import Change


@dataclass(slots=True)
class HubReceiver(NodeReceiver):
    """The hub during an upload; see `Receiver`. `hub_name` is its name in conflicts that it loses.

    `filters` are those of the subscriber's partition, by article.
    """

    filters: Mapping[int, RowFilter] = field(default_factory=dict)
    hub_name: str = ""
    handlers: dict[int, Asked | None] = field(default_factory=dict)

    @property
    def priority(self) -> float:
        """The weight of the subscriber's changes in conflicts."""
        is_server = self.subscription.subscriber_type is SubscriberType.SERVER
        return self.subscription.priority if is_server else 0.0

    def receive(self, article: Article, changes: Sequence[RowChange], *, swaps: bool = False) -> Counts:
        known = self.node.read_known(article, [change.rowguid for change in changes])
        writes: list[Write] = []
        contested: list[tuple[RowChange, Known, Join | Combine | Conflict]] = []
        for several, here in alike(changes, known):
            if here is None:
                if several[0].row is not None:
                    writes += self._taken(several, None)
                continue
            said = compare(several[0].version, here.version)
            match said:
                case Nothing():
                    pass
                case Take():
                    writes += self._taken(several, here)
                case Join() | Combine() | Conflict():
                    contested += [(change, here, said) for change in several]
                case _:
                    assert_never(said)
        writes, rejected = self._ask_about(article, writes, changes, known)
        counts = count_writes(writes)
        settled, conflicts = self._settle(article, contested)
        counts.conflicts = conflicts + rejected
        writes += settled
        self.write(article, writes, swaps=swaps)
        if article.nickname in self.filters:
            self._keep_partition(article, changes)
        self.forget_retries(article, changes)
        return counts

    def conclude(self) -> None:
        """Tell the business logic handlers that all changes are uploaded."""
        for handler in self.handlers.values():
            if handler is not None:
                handler.commit()

    def give_up(self, refused: Refused) -> Counts:
        article, change = refused.article, refused.change
        if article.nickname in self.filters and change.row is not None:
            add_members(self.node.connection, self.source, article, [(change.rowguid, None)], FROM_THERE)
        known = self.node.read_known(article, [change.rowguid]).get(change.rowguid)
        is_live = known is not None and known.version.presence is Presence.LIVE
        holder = None if change.row is None or is_live else self.node.find_key_holder(article, change.row)
        if holder is not None:
            return self._settle_key(refused, known, holder)
        if article.compensate_for_errors or _is_still_referenced(refused):
            return self._compensate(refused, known)
        self.ask_again(refused, known)
        return Counts(refused=1)

    def _ask_about(
        self, article: Article, writes: list[Write], changes: Sequence[RowChange], known: Mapping[str, Known]
    ) -> tuple[list[Write], int]:
        """Ask the article's handler about changes without conflict; return the writes and the number it rejected."""
        handler = self._handler(article)
        if handler is None:
            return writes, 0
        sent = {change.rowguid: change for change in changes}
        rows = self.node.read_rows(article, [write.rowguid for write in writes])
        said, rejected = [], 0
        for write in writes:
            change, present = sent[write.rowguid], rows.get(write.rowguid)
            action, custom = handler.on_change(write.row, present)
            if action is ActionOnDataChange.REJECT_DATA:
                rejected += 1
                conflict_type = failure_type(change, is_upload=True, is_live=present is not None)
                self.keep(article, change, conflict_type, "rejected", "the handler rejected it", winning_row=present)
            if action is not ActionOnDataChange.ACCEPT_DATA:
                said.append(self._instead(change, known.get(write.rowguid), custom or present))
            else:
                said.append(write)
        return said, rejected

    def _instead(self, change: RowChange, known: Known | None, row: Row | None) -> Write:
        """Return a row as the hub's own change, in place of the received one."""
        if known is not None:
            return decide(change, known, row, renewed=frozenset(range(len(row or ()))))
        withdrawn = _withdrawal(change.rowguid, change.lineage, is_live=False)
        return withdrawn if row is None else withdrawn._replace(row=row, columns=change.columns)

    def _keep_partition(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Store which rows the subscriber has now; refuse rows that it may not move out of its partition."""
        live = [change.rowguid for change in changes if change.row is not None]
        if article.partition_options is PartitionOptions.ONE_SUBSCRIBER and live:
            outside = self.node.outside(self.filters[article.nickname], live)
            if outside:
                raise RowOutsidePartition(
                    article.name, "RT-8027", f"{outside[0]} is outside of the subscriber's partition"
                )
        add_members(self.node.connection, self.source, article, [(rowguid, None) for rowguid in live], FROM_THERE)
        gone = [change.rowguid for change in changes if change.row is None]
        remove_members(self.node.connection, self.source, article, gone)

    def _taken(self, changes: Sequence[RowChange], known: Known | None) -> list[Write]:
        return taken_alike(changes, known, self.source, self.priority or None)

    def _settle(
        self, article: Article, contested: Sequence[tuple[RowChange, Known, Join | Combine | Conflict]]
    ) -> tuple[list[Write], int]:
        """Return the writes that resolve contested rows, and the number of conflicts."""
        rows = self.node.read_rows(article, [change.rowguid for change, *_ in contested]) if contested else {}
        writes, conflicts = [], 0
        for change, known, said in contested:
            match said:
                case Conflict() if change.row == rows.get(change.rowguid) and self._is_choosing(article):
                    # Both have come to the same row: nothing is lost.
                    writes.append(decide(change, known, change.row))
                case Join():
                    writes.append(decide(change, known, None))
                case Combine(columns):
                    writes.append(combine(change, known, rows[change.rowguid], columns))
                case Conflict():
                    conflicts += 1
                    writes.append(self._resolve(article, change, known, said, rows.get(change.rowguid)))
                case _:
                    assert_never(said)
        return writes, conflicts

    def _resolve(self, article: Article, change: RowChange, known: Known, conflict: Conflict, row: Row | None) -> Write:
        contest = Contest(article, change, known, row, self.priority)
        verdict = self._resolver(article)(contest)
        winner = winner_of(verdict)
        rows = {Winner.SUBSCRIBER: change.row, Winner.PUBLISHER: row}
        loser = Winner.PUBLISHER if winner is Winner.SUBSCRIBER else Winner.SUBSCRIBER
        conflict_type = type_of(conflict, update_wins=rows[winner] is not None)
        assert known.version.last is not None
        last = {Winner.SUBSCRIBER: Change.decode(change.last), Winner.PUBLISHER: known.version.last}
        lineage = {Winner.SUBSCRIBER: change.lineage, Winner.PUBLISHER: known.version.lineage.encode()}
        record(
            self.node.connection,
            ConflictRecord(
                identify(change.rowguid, change.last, known.version.last.encode()),
                self.subscription.pubid,
                article,
                change.rowguid,
                conflict_type,
                last[loser].nickname,
                str(int(conflict_type)),
                reason_of(conflict_type),
                rows[loser],
                rows[winner],
                lineage[loser],
                self.source_name if loser is Winner.SUBSCRIBER else self.hub_name,
            ),
        )
        return resolve(contest, verdict)

    def _is_choosing(self, article: Article) -> bool:
        """Whether the outcome is always one of both versions; additive columns and handlers may give a third."""
        return article.additive_column is None and self._handler(article) is None

    def _resolver(self, article: Article) -> Resolver:
        handler = self._handler(article)
        return find_resolver(article) if handler is None else handler.resolve

    def _handler(self, article: Article) -> Asked | None:
        """Return an article's handler, created on first use; None if it has none."""
        if article.nickname not in self.handlers:
            found = find_handler(article)
            handler = None if found is None else Asked(article, found())
            if handler is not None:
                handler.handler.initialize(self.hub_name, self.source_name, article.name)
            self.handlers[article.nickname] = handler
        return self.handlers[article.nickname]

    def _settle_key(self, refused: Refused, known: Known | None, holder: str) -> Counts:
        """Resolve two inserts with the same primary key.

        One row keeps the key; the other is deleted everywhere and recorded.
        """
        article, change = refused.article, refused.change
        assert change.row is not None
        held = self.node.read_known(article, [holder])[holder]
        row = self.node.read_rows(article, [holder])[holder]
        winner = Winner.PUBLISHER
        if held.version.last is not None:
            winner = winner_of(self._resolver(article)(Contest(article, change, held, row, self.priority)))
        if winner is Winner.SUBSCRIBER and self._take_key(article, change, known, holder, held):
            self._keep_key_loser(refused, holder, loser_row=row, winner_row=change.row, origin=held)
            return Counts(conflicts=1, inserts=1, deletes=1)
        self.node.write(article, [_withdrawal(change.rowguid, change.lineage, is_live=False)])
        self._keep_key_loser(refused, change.rowguid, loser_row=change.row, winner_row=row, origin=None)
        return Counts(conflicts=1)

    def _take_key(self, article: Article, change: RowChange, known: Known | None, holder: str, held: Known) -> bool:
        """Replace the row that has the key by the subscriber's; return False if the hub refuses that."""
        withdrawal = _withdrawal(holder, held.version.lineage.encode(), is_live=True)
        try:
            self.node.write(article, [withdrawal, *self._taken([change], known)])
        except RowsRefused:
            return False
        return True

    def _keep_key_loser(
        self, refused: Refused, rowguid: str, *, loser_row: Row, winner_row: Row, origin: Known | None
    ) -> None:
        is_sender = origin is None or origin.version.last is None
        record(
            self.node.connection,
            ConflictRecord(
                identify(rowguid, refused.change.last, b"key"),
                self.subscription.pubid,
                refused.article,
                rowguid,
                ConflictType.UPLOAD_INSERT_FAILED,
                self.source if is_sender else origin.version.last.nickname,  # type: ignore[union-attr]
                refused.error.code,
                "two nodes inserted a row with the same primary key",
                loser_row,
                winner_row,
                refused.change.lineage if origin is None else origin.version.lineage.encode(),
                self.source_name if origin is None else self.hub_name,
            ),
        )

    def _compensate(self, refused: Refused, known: Known | None) -> Counts:
        """Undo at the subscriber a change that the hub refuses (SQL Server: @compensate_for_errors)."""
        article, change, error = refused.article, refused.change, refused.error
        is_live = known is not None and known.version.presence is Presence.LIVE
        row = self.node.read_rows(article, [change.rowguid]).get(change.rowguid)
        conflict_type = failure_type(change, is_upload=True, is_live=is_live)
        self.keep(article, change, conflict_type, error.code, error.reason, winning_row=row)
        self.node.write(article, [self._instead(change, known, row)])
        return Counts(conflicts=1)


def _is_still_referenced(refused: Refused) -> bool:
    """Whether a delete was refused because the hub has rows that reference the row.

    The row returns to the subscriber, which would otherwise lack the parent of rows that it receives.
    """
    return refused.change.row is None and refused.error.code in FOREIGN_KEY_CODES


def _withdrawal(rowguid: str, lineage: bytes, *, is_live: bool) -> Write:
    """Return the hub's own deletion of a row that cannot be kept."""
    return Write(
        rowguid=rowguid,
        row=None,
        is_live=is_live,
        lineage=lineage,
        last=None,
        columns=None,
        origin=None,
        tombstone=TombstoneType.SYSTEM,
    )
