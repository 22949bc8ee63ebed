"""What a subscriber does with received changes and downloaded logical records.

A subscriber accepts a version that includes its own. A row that it changed concurrently is uploaded in the next
synchronisation, and the hub's decision comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import starmap

from rowtide.merge.articles import PUBLISHER_PRIORITY, Article, Subscription
from rowtide.merge.conflicts.records import (
    ConflictRecord,
    ConflictType,
    failure_type,
    identify,
    names_lost,
    record as record_conflict,
    settle_failures,
)
from rowtide.merge.exchange_state import drop_retries, put_retry
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import Holder, Refusal
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.row_hashes import HashBatch
from rowtide.merge.session.accepted_versions import accepted_alike, alike, count_writes
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.receiver import Attempt, Part, Received, Refused, by_article
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType, Write, overruling
from rowtide.merge.versions.comparison import Accept, Presence, compare


@dataclass(slots=True)
class NodeReceiver:
    """Common part of receivers: `source` is the sender's nickname, `again` the rows requested from it once more.

    `kept` are the conflicts recorded for refused changes, `asking` the rows to request again in the next
    synchronisation, `locked` those of them that are only late, `read_versions` what the transaction has read of rows.
    `hub_priority` is the weight of the hub's own versions.
    """

    node: Node
    subscription: Subscription
    source: int
    source_name: str
    again: Mapping[int, Sequence[str]]
    is_upload: bool
    kept: list[ConflictRecord] = field(default_factory=list)
    asking: set[tuple[int, str]] = field(init=False)
    locked: set[tuple[int, str]] = field(default_factory=set)
    read_versions: dict[int, dict[str, KnownVersion | None]] = field(default_factory=dict)
    hub_priority: float = PUBLISHER_PRIORITY

    def __post_init__(self) -> None:
        self.asking = {(nickname, rowguid) for nickname, listed in self.again.items() for rowguid in listed}

    @property
    def bounds(self) -> Mapping[int, RowFilter]:
        """See `Receiver`."""
        return {}

    @property
    def holder(self) -> Holder | None:
        """The sender, if it has some of the rows only."""
        return None

    @property
    def has_refused(self) -> bool:
        """Whether rows are to be requested again in the next synchronisation."""
        return bool(self.asking)

    def check(self) -> None:
        self.read_versions.clear()
        self.node.require_session(self.subscription)

    def read_known(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, KnownVersion]]:
        """Return the metadata of rows, which the transaction reads once."""
        return self.read_known_and_rows(asked, [])[0]

    def read_known_and_rows(
        self, asked: Sequence[tuple[Article, Sequence[str]]], rows: Sequence[tuple[Article, Sequence[str]]]
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return the metadata of rows, which the transaction reads once, and other rows in the same round trip."""
        missing = [
            (article, [rowguid for rowguid in rowguids if rowguid not in self.read_versions.get(article.nickname, {})])
            for article, rowguids in asked
        ]
        unread = [each for each in missing if each[1]]
        known, read = self.node.versions.read_known_and_rows(unread, rows, self.holder)
        for (article, rowguids), found in zip(unread, known, strict=True):
            versions = self.read_versions.setdefault(article.nickname, {})
            versions.update((rowguid, self.weighed(found.get(rowguid))) for rowguid in rowguids)
        again: list[Mapping[str, KnownVersion]] = [
            {
                rowguid: here
                for rowguid in rowguids
                if (here := self.read_versions[article.nickname][rowguid]) is not None
            }
            for article, rowguids in asked
        ]
        return again, read

    def weighed(self, known: KnownVersion | None) -> KnownVersion | None:
        """Return what is known of a row as conflicts weigh it."""
        return known

    def forget_retries(self, article: Article, changes: Sequence[RowChange]) -> None:
        asked = set(self.again.get(article.nickname, ()))
        done = [change.rowguid for change in changes if change.rowguid in asked]
        if done:
            drop_retries(self.node.connection, self.source, article.nickname, done)
            settle_failures(self.node.connection, article, done, self.source)
            self.asking.difference_update((article.nickname, rowguid) for rowguid in done)

    def write(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        attempt: Attempt,
        late: Set[str] = frozenset(),
        *,
        commits: bool = False,
    ) -> list[Mapping[str, Refusal]]:
        """Write rows; return those of each part that the node refuses. Raises `RowsRefused`.

        With `commits`, nothing follows in the transaction.
        """
        if attempt is Attempt.TOGETHER:
            self.node.writer.write_together(parts, bounds=self.bounds)
            return [{} for _ in parts]
        if attempt in (Attempt.FIRST, Attempt.ALONE):
            return self.node.writer.write_each(parts, bounds=self.bounds, commits=commits)
        if attempt is Attempt.RETRY:
            late = {write.rowguid for _, writes in parts for write in writes}
        return self.node.writer.write_each(parts, bounds=self.bounds, late=late)

    def requeue(self, refused: Refused, known: KnownVersion | None, present: Row | None = None) -> None:
        """Record a refused change as failed, and request the row again in the next synchronisation.

        `present` is the row that stays.
        """
        change, article, error = refused.change, refused.article, refused.error
        is_live = known is not None and known.version.presence is Presence.LIVE
        self.asking.add((article.nickname, change.rowguid))
        put_retry(self.node.connection, self.source, article.nickname, change.rowguid, error.code, error.reason)
        if refused.refusal.is_locked:
            # Another session has it locked: it is requested again, and nothing is recorded.
            self.locked.add((article.nickname, change.rowguid))
            return
        conflict_type = failure_type(change, is_upload=self.is_upload, is_live=is_live)
        self.keep(article, change, conflict_type, error.code, error.reason, known=known, winning_row=present)

    def ask_no_more(self, refused: Sequence[Refused]) -> None:
        """Do not request refused rows again: their outcome is decided."""
        for article, changes in parts_of(refused):
            rowguids = [change.rowguid for change in changes]
            if not self.asking.isdisjoint((article.nickname, rowguid) for rowguid in rowguids):
                drop_retries(self.node.connection, self.source, article.nickname, rowguids)
                self.asking.difference_update((article.nickname, rowguid) for rowguid in rowguids)

    def keep(
        self,
        article: Article,
        change: RowChange,
        conflict_type: ConflictType,
        code: str,
        reason: str,
        *,
        known: KnownVersion | None,
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
            change.parents,
            names_lost(article, change.version, None if known is None else known.version),
        )
        record_conflict(self.node.connection, conflict)
        self.kept.append(conflict)


@dataclass(slots=True)
class SubscriberReceiver(NodeReceiver):
    """A subscriber that downloads; see `Receiver`.

    `staying` are rows that should leave but remain, because the subscriber changed them or other rows reference them.
    With `repeats`, a version that the subscriber has is written again: what it has may be something else by now.
    """

    staying: set[str] = field(default_factory=set)
    repeats: bool = False

    def group(self, deletes: Iterable[Part]) -> Iterable[Sequence[Part]]:
        return ([part] for part in deletes)

    def receive(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> list[Received]:
        self.read_versions.clear()
        known = self.read_known(rowguids_of(parts))
        writes: list[tuple[Article, list[Write]]] = []
        for (article, changes), found in zip(parts, known, strict=True):
            compared = starmap(overruling, alike(changes, found))
            newer = [several for several in compared if self._are_newer(*several)]
            taken = [
                write
                for several, here in newer
                for write in accepted_alike(several, here, self.source, self.hub_priority)
            ]
            writes.append((article, taken))
        received = []
        for part, (_, taken), refusals in zip(parts, writes, self.write(writes, attempt, late), strict=True):
            accepted, refused = split(part, refusals)
            self.forget_retries(part[0], accepted)
            written = [write for write in taken if write.rowguid not in refusals]
            hashes = HashBatch(part[0])
            hashes.add([(write.rowguid, write.row) for write in written])
            hashes.put(self.node.connection)
            received.append(Received(count_writes(written), refused))
        return received

    def _are_newer(self, changes: Sequence[RowChange], known: KnownVersion | None) -> bool:
        change = changes[0]
        if known is None or known.has_left:
            return change.row is not None
        if change.tombstone is not TombstoneType.LEFT:
            is_same = known.version.last in (None, change.version.last)
            return isinstance(compare(change.version, known.version), Accept) or (self.repeats and is_same)
        if known.version.presence is Presence.DELETED:
            return False
        if known.version.last is None or change.version.lineage.includes(known.version.last):
            return True
        self.staying.update(change.rowguid for change in changes)
        return False

    def reject(self, refused: Sequence[Refused]) -> list[Counts]:
        parts = parts_of(refused)
        known = self.read_known(rowguids_of(parts))
        found = {article.nickname: each for (article, _), each in zip(parts, known, strict=True)}
        for each in refused:
            if each.change.tombstone is TombstoneType.LEFT:
                self.staying.add(each.change.rowguid)
            else:
                self.requeue(each, found[each.article.nickname].get(each.change.rowguid))
        return [Counts(refused=1) for _ in refused]


def rowguids_of(parts: Sequence[Part]) -> list[tuple[Article, list[str]]]:
    """Return the rows of each part."""
    return [(article, [change.rowguid for change in changes]) for article, changes in parts]


def split(part: Part, refusals: Mapping[str, Refusal]) -> tuple[list[RowChange], list[Refused]]:
    """Return the changes of a part that were taken, and those that were not."""
    article, changes = part
    refused = [Refused(article, change, refusals[change.rowguid]) for change in changes if change.rowguid in refusals]
    return [change for change in changes if change.rowguid not in refusals], refused


def parts_of(refused: Sequence[Refused]) -> list[Part]:
    """Return refused changes as parts, one for each article."""
    return by_article((each.article, each.change) for each in refused)
