"""What the hub makes of uploaded changes: conflicts, business logic handlers, and what it writes instead.

A conflict is resolved once, at the hub, in the transaction that writes the outcome; other nodes receive it as a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from rowtide.core.values import frozen
from rowtide.merge.articles import PUBLISHER_PRIORITY, Article, SubscriberType
from rowtide.merge.conflicts.records import ConflictRecord, failure_type, identify, names_lost, reason_of, type_of
from rowtide.merge.conflicts.resolvers import (
    Answered,
    Contest,
    Resolver,
    Winner,
    combine,
    decide,
    find_resolver,
    indexes_unlike,
    resolve,
    winner_of,
    withdrawal,
)
from rowtide.merge.handlers import ActionOnDataChange, ArticleHandler, find_handler
from rowtide.merge.session.accepted_versions import accepted, accepted_alike, alike
from rowtide.merge.session.hub.parent_keys import Families
from rowtide.merge.session.node_receiver import NodeReceiver
from rowtide.merge.session.receiver import Part
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import (
    Accept,
    Combine,
    Conflict,
    Join,
    Lineage,
    NodeChange,
    Nothing,
    changed_concurrently,
    compare,
    encode_columns,
)


def uploaded(
    sent: RowChange, known: KnownVersion, publisher_row: Row | None, origin: int, priority: float | None
) -> Write:
    """Return a subscriber's change of an upload-only row that the hub has: the subscriber's version wins.

    It never learns of the hub's version, so that the outcome must not be at odds with its next change: the row stays
    its own version, or with column tracking keeps the hub's values of those columns alone that it did not change, and
    whose changes these are. What was overridden once stays so, even if it is uploaded again. To undo the hub's changes
    would take one of several devices' versions for the right one, and delete the hub's inserts.
    """
    if sent.columns is not None and publisher_row is not None:
        ahead, _ = changed_concurrently(sent.version, known.version)
        theirs = {place: change for place, change in (sent.version.columns or {}).items() if place in ahead}
        write = combine(sent, known, publisher_row, ahead)
        return write._replace(
            columns=encode_columns({**(known.version.columns or {}), **theirs}), own_columns=frozenset()
        )
    return overriding(known, [accepted(sent, known, origin, priority)])[0]


def overriding(known: KnownVersion, writes: Sequence[Write]) -> list[Write]:
    """Return versions of upload-only rows that are known alike, as such that have overridden these."""
    joined = {write.lineage: known.version.lineage.joined(Lineage.decode(write.lineage)).encode() for write in writes}
    return [write._replace(lineage=joined[write.lineage]) for write in writes]


def instead(change: RowChange, known: KnownVersion | None, row: Row | None, *, is_new: bool = False) -> Write:
    """Return a row as the hub's own change, in place of the received one; `is_new`: it may have values of neither."""
    if known is not None:
        renewed = indexes_unlike(row, change.row) if is_new and row is not None else frozenset[int]()
        return decide(change, known, row, renewed=renewed)
    withdrawn = withdrawal(change.rowguid, change.lineage, is_live=False)
    return withdrawn if row is None else withdrawn._replace(row=row, columns=change.columns)


Contested = Join | Combine | Conflict
"""What is decided with the rows that the hub has."""


@frozen
class Decided:
    """What to write of a part: rows without conflict, `taken`, with those that resolve conflicts; and the conflicts.

    `rejected` is the number of changes that a handler rejected.
    """

    taken: Sequence[Write]
    writes: Sequence[Write]
    conflicts: Sequence[ConflictRecord]
    rejected: int


@dataclass(slots=True)
class HubDecisions(NodeReceiver):
    """The part of `HubReceiver` that decides. `hub_name` is the hub's name in conflicts that it loses."""

    hub_name: str = ""
    handlers: dict[int, ArticleHandler | None] = field(default_factory=dict)
    answered: Answered = field(default_factory=lambda: Answered({}))

    @property
    def priority(self) -> float:
        """The weight of the subscriber's changes in conflicts."""
        is_server = self.subscription.subscriber_type is SubscriberType.SERVER
        return self.subscription.priority if is_server else 0.0

    def weighed(self, known: KnownVersion | None) -> KnownVersion | None:
        if known is None or known.priority is not None or self.hub_priority == PUBLISHER_PRIORITY:
            return known
        return replace(known, priority=self.hub_priority)

    def decide(self, part: Part, known: Mapping[str, KnownVersion], families: Families | None = None) -> Decided:
        """Return what to write of received changes."""
        article, changes = part
        if article.is_download_only:
            return self._reject(article, changes, known)
        writes: list[Write] = []
        contested: list[tuple[RowChange, KnownVersion, Contested]] = []
        for several, here in alike(changes, known):
            if here is None:
                if several[0].row is not None:
                    writes += self.taken(several, None)
                continue
            if several[0].tombstone is TombstoneType.LEFT:
                # It is absent there only; the subscriber was asked for a row that has left it since.
                continue
            if here.has_left:
                # It is decided at the hub of this hub, which has the row.
                if not isinstance(compare(several[0].version, here.version), Nothing):
                    writes += self.taken(several, None)
                continue
            said = compare(several[0].version, here.version)
            match said:
                case Nothing():
                    pass
                case Accept() if article.is_upload_only and article.column_tracking:
                    # It may know nothing of what the hub changed, whose metadata may be gone.
                    ahead, _ = changed_concurrently(several[0].version, here.version)
                    contested += [(change, here, Combine(ahead)) for change in several]
                case Accept() if article.is_upload_only:
                    writes += overriding(here, self.taken(several, here))
                case Accept():
                    writes += self.taken(several, here)
                case Join() | Combine() | Conflict():
                    contested += [(change, here, said) for change in several]
                case _:
                    assert_never(said)
        if families is not None and families.moved:
            writes = self._with_new_parents(changes, families, known, writes)
            contested = [(families.with_new_parents(change), here, said) for change, here, said in contested]
        taken, rejected = self._ask_about(article, writes, changes, known)
        settled, conflicts = self._settle(article, contested)
        combined = {change.rowguid for change, _, said in contested if isinstance(said, Combine)}
        taken += [write for write in settled if write.rowguid in combined]
        return Decided(
            taken, [*taken, *(write for write in settled if write.rowguid not in combined)], conflicts, rejected
        )

    def _reject(self, article: Article, changes: Sequence[RowChange], known: Mapping[str, KnownVersion]) -> Decided:
        """Return what undoes changes at the subscriber."""
        newer = [change for change in changes if _is_newer(change, known.get(change.rowguid))]
        rows = self.node.rows.read(article, [change.rowguid for change in newer]) if newer else {}
        writes = []
        for change in newer:
            present = rows.get(change.rowguid)
            conflict_type = failure_type(change, is_upload=True, is_live=present is not None)
            here, reason = known.get(change.rowguid), "the article is download-only"
            self.keep(article, change, conflict_type, "rejected", reason, known=here, winning_row=present)
            writes.append(instead(change, here, present))
        return Decided([], writes, [], len(newer))

    def _with_new_parents(
        self,
        changes: Sequence[RowChange],
        families: Families,
        known: Mapping[str, KnownVersion],
        writes: Sequence[Write],
    ) -> list[Write]:
        """Write rows with the keys that their parents have here as the hub's own changes, which go back."""
        sent = {change.rowguid: change for change in changes}
        return [
            instead(sent[write.rowguid], known.get(write.rowguid), families.moved[write.rowguid], is_new=True)
            if write.rowguid in families.moved
            else write
            for write in writes
        ]

    def _ask_about(
        self, article: Article, writes: list[Write], changes: Sequence[RowChange], known: Mapping[str, KnownVersion]
    ) -> tuple[list[Write], int]:
        """Ask the article's handler about changes without conflict; return the writes and the number it rejected."""
        handler = self._handler(article)
        if handler is None:
            return writes, 0
        sent = {change.rowguid: change for change in changes}
        rows = self.node.rows.read(article, [write.rowguid for write in writes])
        said, rejected = [], 0
        for write in writes:
            change, present, here = sent[write.rowguid], rows.get(write.rowguid), known.get(write.rowguid)
            action, custom = handler.on_change(write.row, present)
            if action is ActionOnDataChange.REJECT_DATA:
                rejected += 1
                conflict_type = failure_type(change, is_upload=True, is_live=present is not None)
                reason = "the handler rejected it"
                self.keep(article, change, conflict_type, "rejected", reason, known=here, winning_row=present)
            if action is not ActionOnDataChange.ACCEPT_DATA:
                said.append(instead(change, here, custom or present, is_new=True))
            else:
                said.append(write)
        return said, rejected

    def taken(self, changes: Sequence[RowChange], known: KnownVersion | None) -> list[Write]:
        """Return what writes the subscriber's versions of rows that are known alike."""
        return accepted_alike(changes, known, self.source, self.priority or None)

    def _settle(
        self, article: Article, contested: Sequence[tuple[RowChange, KnownVersion, Contested]]
    ) -> tuple[list[Write], list[ConflictRecord]]:
        """Return the writes that resolve contested rows, and the conflicts."""
        rows = self.node.rows.read(article, [change.rowguid for change, *_ in contested]) if contested else {}
        self._ask_procedure(article, contested, rows)
        writes: list[Write] = []
        conflicts: list[ConflictRecord] = []
        for change, known, said in contested:
            match said:
                case Conflict() if change.row == rows.get(change.rowguid) and self._is_choosing(article):
                    # Both have come to the same row: nothing is lost.
                    writes.append(self._same(article, change, known))
                case Join():
                    writes.append(decide(change, known, None))
                case Combine() if article.is_upload_only:
                    writes.append(self._uploaded(change, known, rows.get(change.rowguid)))
                case Combine(columns):
                    writes.append(combine(change, known, rows[change.rowguid], columns))
                case Conflict():
                    write, conflict = self._resolve(article, change, known, said, rows.get(change.rowguid))
                    writes.append(write)
                    conflicts.append(conflict)
                case _:
                    assert_never(said)
        return writes, conflicts

    def _ask_procedure(
        self,
        article: Article,
        contested: Sequence[tuple[RowChange, KnownVersion, Contested]],
        rows: Mapping[str, Row],
    ) -> None:
        """Ask the function of the article's resolver about rows that were updated to different ones at both ends."""
        if article.procedure is None:
            return
        asked = [
            (change.rowguid, change.row)
            for change, _, said in contested
            if isinstance(said, Conflict)
            and change.row is not None
            and rows.get(change.rowguid, change.row) != change.row
        ]
        answers = self.node.rows.ask_procedure(article, self.source_name, asked) if asked else []
        self.answered = Answered({rowguid: row for (rowguid, _), row in zip(asked, answers, strict=True)})

    def _resolve(
        self, article: Article, change: RowChange, known: KnownVersion, conflict: Conflict, row: Row | None
    ) -> tuple[Write, ConflictRecord]:
        contest = Contest(article, change, known, row, self.priority)
        verdict = self._resolver(article)(contest)
        winner = winner_of(verdict)
        rows = {Winner.SUBSCRIBER: change.row, Winner.PUBLISHER: row}
        loser = Winner.PUBLISHER if winner is Winner.SUBSCRIBER else Winner.SUBSCRIBER
        conflict_type = type_of(conflict, update_wins=rows[winner] is not None)
        assert known.version.last is not None
        last = {Winner.SUBSCRIBER: NodeChange.decode(change.last), Winner.PUBLISHER: known.version.last}
        lineage = {Winner.SUBSCRIBER: change.lineage, Winner.PUBLISHER: known.version.lineage.encode()}
        versions = {Winner.SUBSCRIBER: change.version, Winner.PUBLISHER: known.version}
        kept = ConflictRecord(
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
            losing_columns=names_lost(article, versions[loser], versions[winner]),
        )
        write = self._uploaded(change, known, row) if article.is_upload_only else resolve(contest, verdict)
        is_as_it_was = winner is Winner.PUBLISHER and write.row == row
        return write, kept if is_as_it_was else replace(kept, settled_row=write.row)

    def _same(self, article: Article, change: RowChange, known: KnownVersion) -> Write:
        """Return a row that both ends have made alike: the hub's own, or the uploading subscriber's."""
        if article.is_upload_only:
            return self._uploaded(change, known, change.row)
        return decide(change, known, change.row)

    def _uploaded(self, change: RowChange, known: KnownVersion, row: Row | None) -> Write:
        return uploaded(change, known, row, self.source, self.priority or None)

    def _is_choosing(self, article: Article) -> bool:
        """Whether rows that are alike may stay so; additive columns and handlers may make something else of them."""
        return article.additive_column is None and self._handler(article) is None

    def _resolver(self, article: Article) -> Resolver:
        handler = self._handler(article)
        if handler is not None:
            return handler.resolve
        return find_resolver(article) if article.procedure is None else self.answered.resolve

    def _handler(self, article: Article) -> ArticleHandler | None:
        """Return an article's handler, created on first use; None if it has none."""
        if article.nickname not in self.handlers:
            found = find_handler(article)
            begun = None if found is None else ArticleHandler.begin(article, found, self.hub_name, self.source_name)
            self.handlers[article.nickname] = begun
        return self.handlers[article.nickname]

    def conclude(self) -> None:
        """Tell the business logic handlers that all changes are uploaded."""
        for handler in self.handlers.values():
            if handler is not None:
                handler.commit()


def _is_newer(change: RowChange, known: KnownVersion | None) -> bool:
    """Whether the subscriber changed a row that the hub has, or has a row that the hub has not."""
    if known is None:
        return change.row is not None
    return not isinstance(compare(change.version, known.version), Nothing)
