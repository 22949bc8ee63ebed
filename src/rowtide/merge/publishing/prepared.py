"""Take over tables that a subscriber has already, with their rows (SQL Server: @sync_type none).

Rows are matched by primary key and get the hub's rowguids; equal rows are not copied. For others the user chooses: the
subscriber's rows are changes that it uploads, or are overwritten. Each row counts as received in the hub's version, so
that what differs from it is a change like any other. A row that the hub has outside the partition is matched, too:
uploaded as an insert, it would conflict with itself over its key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from uuid import uuid4

from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import Article, Publication
from rowtide.merge.errors.subscribing import TablesUnfit
from rowtide.merge.exchange_state import put_retry
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.untyped_values import are_same
from rowtide.merge.publishing.requests import Existing, ExistingRows
from rowtide.merge.publishing.snapshots import SubscriberSnapshot, put_at_subscriber
from rowtide.merge.row_hashes import HashBatch, hash_rows
from rowtide.merge.session.accepted_versions import accepted
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import NodeChange

_BATCH_ROWS = 2000
_NUMBERS = (TypeKind.NUMERIC, TypeKind.FLOAT)


def require_tables_fit(subscriber: Node, subscriber_name: str, articles: Sequence[Article]) -> None:
    """Raise `TablesUnfit` with all that prevents tables from taking the rows of their articles."""
    found = [
        f"{article.qualified_name}: {misfit}"
        for article in articles
        for misfit in subscriber.rebuilt.find_misfits(article)
    ]
    if found:
        raise TablesUnfit(subscriber_name, "; ".join(found))


@dataclass(slots=True)
class PreparedTable:
    """A table that is taken over, within a transaction of the subscriber.

    `different` and `missing` are rowguids of the hub's rows, `own` those of rows that only the subscriber has. Of the
    hub's rows outside the partition, the subscriber has those of `foreign` with the same values.
    """

    subscriber: Node
    snapshot: SubscriberSnapshot
    article: Article
    equal: int = 0
    different: dict[str, frozenset[int]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    _outside: dict[str, frozenset[int]] = field(default_factory=dict)
    _alike: set[str] = field(default_factory=set)
    _hashes: HashBatch = field(init=False)

    def __post_init__(self) -> None:
        self._hashes = HashBatch(self.article)

    @property
    def counts(self) -> ExistingRows:
        """What was found."""
        return ExistingRows(
            self.article.name,
            self.equal,
            len(self.different),
            len(self.own) + len(self.foreign) + len(self._outside),
            len(self.missing),
            tuple(self.subscriber.tables.find_rewriting(self.article)),
        )

    @property
    def outside(self) -> Collection[str]:
        """Rows outside the partition that the subscriber has in another version."""
        return self._outside.keys()

    def adopt(self) -> None:
        """Compare all rows, and give those that the hub has its rowguids."""
        rebuilt = self.subscriber.rebuilt
        with rebuilt.rewriting(self.article):
            here = self._read_keys()
            everything = {rowguid for rowguid, _ in here.values()}
            matched, unequal = self._match(here)
            outside = self._match_outside(here)
            later = {own: theirs for own, theirs in (matched | outside).items() if own != theirs}
            # What only the subscriber has is new to the hub, and no rowguid may be there twice at any moment.
            targets = set(later.values())
            aside = {rowguid: str(uuid4()) for rowguid, _ in here.values()}
            aside |= {own: str(uuid4()) for own in everything & targets if own not in aside}
            rebuilt.set_rowguids(self.article, aside)
            rebuilt.set_rowguids(self.article, {aside.get(own, own): theirs for own, theirs in later.items()})
        self.own = [aside[rowguid] for rowguid, _ in here.values()]
        self._compare(unequal, self.different)
        self._compare(list(outside.values()), self._outside)
        self.foreign = [rowguid for rowguid in outside.values() if rowguid not in self._outside]

    def _read_keys(self) -> dict[tuple[str | None, ...], tuple[str, bytes]]:
        """Return the rowguid and the hash of each row by its primary key."""
        found: dict[tuple[str | None, ...], tuple[str, bytes]] = {}
        for batch in self.subscriber.rebuilt.rows(self.article):
            hashes = hash_rows(self.article, [row for _, row in batch])
            found.update((self._key(row), (own, each)) for (own, row), each in zip(batch, hashes, strict=True))
        return found

    def _key(self, row: Row) -> tuple[str | None, ...]:
        places = (self.article.index_of(column.name) for column in self.article.key_columns)
        return tuple(row[place] for place in places if place is not None)

    def _match(self, here: dict[tuple[str | None, ...], tuple[str, bytes]]) -> tuple[dict[str, str], list[str]]:
        """Return the hub's rowguids by the subscriber's, and those of rows that may differ; matched rows leave `here`.

        All rows of the snapshot count as received.
        """
        matched: dict[str, str] = {}
        unequal: list[str] = []
        for batch in self.snapshot.rows(self.article):
            self._hashes.add(batch)
            hashes = hash_rows(self.article, [row for _, row in batch])
            for (rowguid, row), each in zip(batch, hashes, strict=True):
                own = here.pop(self._key(row), None)
                if own is None:
                    self.missing.append(rowguid)
                    continue
                matched[own[0]] = rowguid
                if own[1] == each:
                    self.equal += 1
                else:
                    unequal.append(rowguid)
        return matched, unequal

    def _match_outside(self, here: dict[tuple[str | None, ...], tuple[str, bytes]]) -> dict[str, str]:
        """Return the same of rows that are not in the partition."""
        if not here or self.article.nickname not in self.snapshot.filters:
            return {}
        matched: dict[str, str] = {}
        for batch in self.snapshot.enumeration.rows(self.article):
            for rowguid, row in batch:
                own = here.pop(self._key(row), None)
                if own is not None:
                    matched[own[0]] = rowguid
        return matched

    def _compare(self, rowguids: Sequence[str], different: dict[str, frozenset[int]]) -> None:
        """Find rows that differ, and in which columns; numbers that are equal as numbers get the hub's digits."""
        for changes in self._ask(rowguids):
            ours = self.subscriber.rows.read(self.article, [change.rowguid for change in changes])
            for change in changes:
                own, theirs = ours[change.rowguid], change.row
                assert theirs is not None
                places = _differing(self.article, own, theirs)
                if places:
                    different[change.rowguid] = places
                elif different is self.different:
                    self.equal += 1
                    self._alike.add(change.rowguid)

    def _ask(self, rowguids: Collection[str]) -> Iterator[Sequence[RowChange]]:
        listed = list(rowguids)
        for start in range(0, len(listed), _BATCH_ROWS):
            yield self.snapshot.enumeration.again(self.article, listed[start : start + _BATCH_ROWS])

    def track(self, publication: Publication) -> None:
        """Define the article, track its table, and store what is known of its rows."""
        included = self.snapshot.enumeration.included(self.article)
        put_at_subscriber(self.subscriber, publication, self.snapshot.there(self.article), included)
        self.subscriber.tables.track(self.snapshot.there(self.article))
        self._hashes.put(self.subscriber.connection)

    def delete(self, existing: Existing, publisher: int) -> None:
        """Delete rows that do not stay here: those outside the partition, and what is overwritten."""
        is_overwritten = existing is Existing.OVERWRITE
        for changes in self._ask([*self.foreign, *(self._outside if is_overwritten else ())]):
            self.subscriber.writer.write(self.article, [_leave(change, publisher) for change in changes])
        own = self.own if is_overwritten else []
        for start in range(0, len(own), _BATCH_ROWS):
            # No version of the hub's: with this number, it includes nothing.
            unknown = [
                RowChange(rowguid, b"", NodeChange(publisher, 0).encode(), None, None)
                for rowguid in own[start : start + _BATCH_ROWS]
            ]
            self.subscriber.writer.write(self.article, [_leave(change, publisher) for change in unknown])

    def write(self, existing: Existing, publisher: int, *, absent_is_delete: bool) -> None:
        """Write the hub's rows and metadata, and log what the subscriber's own rows change. Raises `RowsRefused`."""
        node, article, is_kept = self.subscriber, self.article, existing is Existing.KEEP
        # These are written below, with their rows; of the others the metadata suffices.
        asked = {*self.different, *self.missing, *self._alike}
        for versions in self.snapshot.versions(article, publisher):
            node.writer.write(article, [each for each in versions if each.rowguid not in asked])
        changed = self.different | self._outside if is_kept else self.different
        for changes in self._ask([*changed, *self._alike]):
            kept = node.rows.read(article, [change.rowguid for change in changes]) if is_kept else {}
            rows = {rowguid: row for rowguid, row in kept.items() if rowguid in changed}
            node.writer.write(
                article, [self._take(change, publisher, rows.get(change.rowguid, change.row)) for change in changes]
            )
        for changes in self._ask(self.missing):
            if absent_is_delete:
                node.writer.write(article, [_bury(change) for change in changes])
            else:
                self._insert(changes, publisher)
        if is_kept:
            # One statement for all rows in which the same columns differ.
            for places, rowguids in _by_indexes(changed).items():
                node.rebuilt.log(article, Logged.UPDATED, rowguids, places)
            node.rebuilt.log(article, Logged.INSERTED, self.own)

    def _take(self, change: RowChange, publisher: int, row: Row | None) -> Write:
        """Return what stores the hub's version with a row that is there."""
        return accepted(change, None, publisher, self.snapshot.hub_priority)._replace(row=row, is_live=True)

    def _insert(self, changes: Sequence[RowChange], publisher: int) -> None:
        """Insert the hub's rows; those that the subscriber's own rows prevent are requested again."""
        writes = [self._take(change, publisher, change.row)._replace(is_live=False) for change in changes]
        (refusals,) = self.subscriber.writer.write_each([(self.article, writes)])
        for rowguid, refusal in refusals.items():
            error = refusal.error
            put_retry(self.subscriber.connection, publisher, self.article.nickname, rowguid, error.code, error.reason)


def _differing(article: Article, ours: Row, theirs: Row) -> frozenset[int]:
    """Return the positions of columns with different values."""
    if are_same(article, ours, theirs):
        return frozenset()
    return frozenset(
        place
        for place, (column, one, other) in enumerate(zip(article.columns, ours, theirs, strict=True))
        if one != other and not (kind_of(column.type_text) in _NUMBERS and _are_equal(one, other))
    )


def _are_equal(one: str | None, other: str | None) -> bool:
    try:
        return one is not None and other is not None and Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def _by_indexes(changed: Mapping[str, frozenset[int]]) -> dict[frozenset[int], list[str]]:
    found: dict[frozenset[int], list[str]] = {}
    for rowguid, places in changed.items():
        found.setdefault(places, []).append(rowguid)
    return found


def _leave(change: RowChange, publisher: int) -> Write:
    left = change._replace(row=None, tombstone=TombstoneType.LEFT)
    return accepted(left, None, publisher, None)._replace(is_live=True)


def _bury(change: RowChange) -> Write:
    """Return the subscriber's own delete of a row of the hub's that it does not have."""
    return Write(change.rowguid, None, is_live=False, lineage=change.lineage, last=None, columns=None, origin=None)
