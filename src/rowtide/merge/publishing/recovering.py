"""Find what was changed in tables of a subscriber while it was not tracked: a program had rebuilt them.

Each row is compared with its hash. A row that differs was changed here, one that is equal was not. A row without a hash
that the hub has in another version is a conflict, which the hub wins. A missing row is restored, or counts as deleted
here: the user says which. What is found is logged as triggers would have logged it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rowtide.merge.articles import Article
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, identify, record
from rowtide.merge.errors.subscribing import TablesUnfit
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.nodes.untyped_values import are_same
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.row_hashes import GONE, hash_rows, key_of, read_hashes, rowguid_of
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange
from rowtide.merge.versions.comparison import Lineage, Presence

_BATCH_ROWS = 2000
_UNTRACKED = "untracked"
_REASON = "the row differs from the publisher's, and whether it was changed here is not known: its table was rebuilt"


def recover(hub: Node, subscriber: Node, pairing: Pairing, *, absent_is_delete: bool = False) -> Sequence[Recovered]:
    """Log what a subscriber's program changed in tables without triggers, and track them again.

    A repeat completes an interrupted call. Returns what was found in tables that are not as they were left. Raises
    `TablesUnfit`, `RowguidUnfit`.
    """
    damages = subscriber.tables.examine(pairing.known).damages
    present = [article for article in pairing.known if subscriber.tables.is_there(article)]
    misfits = [
        f"{article.qualified_name}: {misfit}"
        for article in present
        if article.nickname in damages
        for misfit in subscriber.rebuilt.find_misfits(article)
    ]
    if misfits:
        raise TablesUnfit(pairing.at_hub.subscriber, "; ".join(misfits))
    found: list[Recovered] = []
    conflicts: list[ConflictRecord] = []
    with hub.changes.enumerating() as enumeration, subscriber.transaction():
        _make_absent(hub, subscriber, pairing, present)
        tables = [
            _RecoveredTable(subscriber, enumeration, pairing, article, damages.get(article.nickname), absent_is_delete)
            for article in pairing.known
        ]
        for table in tables:
            table.adopt()
        for table in tables:
            found.append(table.log_changes())
            conflicts += table.conflicts
    with hub.transaction():
        for conflict in conflicts:
            record(hub.connection, conflict)
    return [each for each in found if each.is_any]


def _make_absent(hub: Node, subscriber: Node, pairing: Pairing, present: Sequence[Article]) -> None:
    """Create the tables that are not there any more."""
    absent = [article for article in pairing.known if article not in present]
    if absent:
        described = hub.tables.describe_all(pairing.known)
        subscriber.tables.make(list(described.items()), present=present)
        for article in absent:
            subscriber.tables.track(article)


@dataclass(slots=True)
class _Scan:
    """Rowguids of a table's rows: that differ from their hashes, that have none; and keys of rows that are missing."""

    changed: list[str] = field(default_factory=list)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    present: set[bytes] = field(default_factory=set)
    missing: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _RecoveredTable:
    subscriber: Node
    enumeration: Enumeration
    pairing: Pairing
    article: Article
    damage: str | None
    absent_is_delete: bool
    conflicts: list[ConflictRecord] = field(default_factory=list)
    hashes: dict[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = read_hashes(self.subscriber.connection, self.article)

    def adopt(self) -> None:
        """Give rows that have lost their rowguids those by which the hub knows them, and track the table."""
        if self.damage is None:
            return
        with self.subscriber.rebuilt.rewriting(self.article):
            scan = self._scan()
            there = {change.rowguid for change in self._ask([rowguid for rowguid, _ in scan.unknown])}
            strangers = {rowguid: value for rowguid, value in scan.unknown if rowguid not in there}
            # By values before keys: a row with the same values is the hub's row, while a key may have been given to
            # another row since.
            adopted = self._adopt_by_hash(strangers, scan)
            adopted |= self._adopt_by_key({rowguid for rowguid in strangers if rowguid not in adopted}, scan)
            if adopted:
                self.subscriber.rebuilt.set_rowguids(self.article, adopted)
        self.subscriber.tables.track(self.article)

    def _adopt_by_hash(self, strangers: dict[str, bytes], scan: _Scan) -> dict[str, str]:
        missing = {self.hashes[key]: key for key in scan.missing}
        adopted = {}
        for rowguid, value in strangers.items():
            key = missing.pop(value, None)
            if key is not None:
                adopted[rowguid] = rowguid_of(key)
                scan.present.add(key)
        return adopted

    def _adopt_by_key(self, strangers: set[str], scan: _Scan) -> dict[str, str]:
        """Return what the hub calls rows with the same primary keys; of these the device has no others."""
        places = [self.article.index_of(column.name) for column in self.article.key_columns]
        keys = {
            tuple(row[place] for place in places if place is not None): rowguid
            for batch in self.subscriber.rebuilt.rows(self.article)
            for rowguid, row in batch
            if rowguid in strangers
        }
        published = self._published()
        if not keys or published is None:
            return {}
        theirs = [published.index_of(column.name) for column in self.article.key_columns]
        adopted: dict[str, str] = {}
        for batch in self.enumeration.rows(published, self._filter()):
            for rowguid, row in batch:
                own = keys.get(tuple(row[place] for place in theirs if place is not None))
                if own is not None and key_of(rowguid) not in scan.present:
                    adopted[own] = rowguid
        return adopted

    def _published(self) -> Article | None:
        """Return the hub's definition of the article; None if the hub has dropped it."""
        return next((each for each in self.pairing.articles if each.nickname == self.article.nickname), None)

    def _filter(self) -> RowFilter | None:
        return self.pairing.filters.get(self.article.nickname)

    def _scan(self) -> _Scan:
        scan = _Scan()
        for batch in self.subscriber.rebuilt.rows(self.article):
            hashed = hash_rows(self.article, [row for _, row in batch])
            for (rowguid, _), value in zip(batch, hashed, strict=True):
                key = key_of(rowguid)
                scan.present.add(key)
                known = self.hashes.get(key, GONE)
                if known == GONE:
                    scan.unknown.append((rowguid, value))
                elif known != value:
                    scan.changed.append(rowguid)
        scan.missing = [key for key, value in self.hashes.items() if value != GONE and key not in scan.present]
        return scan

    def log_changes(self) -> Recovered:
        """Log what was changed; the table's rows have their rowguids."""
        scan, rebuilt = self._scan(), self.subscriber.rebuilt
        inserted, concurrent = self._judge_unknown([rowguid for rowguid, _ in scan.unknown])
        changed = [*self._untracked(scan.changed), *concurrent]
        missing = [rowguid_of(key) for key in scan.missing]
        # Deletes that were tracked before the damage are known already, and are not logged again.
        known = self._read_known(missing)
        missing = [
            rowguid
            for rowguid in missing
            if rowguid not in known or known[rowguid].version.presence is not Presence.DELETED
        ]
        rebuilt.log(self.article, Logged.UPDATED, changed)
        rebuilt.log(self.article, Logged.INSERTED, inserted)
        if self.absent_is_delete:
            rebuilt.log(self.article, Logged.DELETED, missing)
        return Recovered(
            self.article.name,
            self.damage,
            len(changed),
            len(inserted),
            len(missing),
            len(self.conflicts),
            self.absent_is_delete,
        )

    def _untracked(self, changed: Sequence[str]) -> Sequence[str]:
        """Omit changes that are known already, with their columns, if the table has its triggers."""
        if self.damage is not None:
            return changed
        known = self._read_known(changed)
        return [rowguid for rowguid in changed if not (rowguid in known and self._is_unsent(known[rowguid]))]

    def _is_unsent(self, known: KnownVersion) -> bool:
        generation = known.generation or 0
        return known.origin is None and known.version.last is not None and generation > self.pairing.at_subscriber.sent

    def _judge_unknown(self, rowguids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the rows that the hub does not have, and those that are known to be changed here.

        Of others the hub's version remains.
        """
        inserted: list[str] = []
        changed: list[str] = []
        for chunk in _chunks(rowguids):
            theirs = {change.rowguid: change for change in self._ask(chunk)}
            ours, known = self.subscriber.rows.read(self.article, chunk), self._read_known(chunk)
            for rowguid in chunk:
                change, row = theirs.get(rowguid), ours[rowguid]
                if change is None:
                    inserted.append(rowguid)
                elif change.row is not None and are_same(self.article, row, change.row):
                    continue
                elif rowguid in known and self._is_unsent(known[rowguid]):
                    # It is uploaded as a concurrent change, and the hub resolves the conflict as any other.
                    changed.append(rowguid)
                else:
                    # Without metadata it is unknown whether the row was changed here or is only outdated: the hub's
                    # version stays, and this one is kept as the loser.
                    self.conflicts.append(self._conflict(change, row, known.get(rowguid)))
        return inserted, changed

    def _ask(self, rowguids: Sequence[str]) -> Iterator[RowChange]:
        """Yield the hub's rows or tombstones, in the columns that the subscriber has."""
        published = self._published()
        if published is None:
            return
        for chunk in _chunks(rowguids):
            for change in self.enumeration.again(published, chunk):
                yield change._replace(row=self._carry(published, change.row))

    def _carry(self, published: Article, row: Row | None) -> Row | None:
        if row is None or published.columns == self.article.columns:
            return row
        places = [published.index_of(column.name) for column in self.article.columns]
        return tuple(None if place is None else row[place] for place in places)

    def _read_known(self, rowguids: Sequence[str]) -> dict[str, KnownVersion]:
        found: dict[str, KnownVersion] = {}
        for chunk in _chunks(rowguids):
            found.update(self.subscriber.versions.read_known(self.article, chunk))
        return found

    def _conflict(self, change: RowChange, row: Row, known: KnownVersion | None) -> ConflictRecord:
        lineage = Lineage.EMPTY if known is None else known.version.lineage
        (hashed,) = hash_rows(self.article, [row])
        is_there = change.row is not None
        return ConflictRecord(
            identify(change.rowguid, change.last, hashed),
            self.pairing.publication.pubid,
            self._published() or self.article,
            change.rowguid,
            ConflictType.UPDATE_CONFLICT if is_there else ConflictType.UPDATE_DELETE_WINS_CONFLICT,
            self.pairing.at_hub.nickname,
            _UNTRACKED,
            _REASON,
            self._back(row),
            None if change.row is None else self._back(change.row),
            lineage.encode(),
            self.pairing.at_hub.subscriber,
        )

    def _back(self, row: Row) -> Row:
        """Return a row in the hub's columns."""
        published = self._published() or self.article
        places = [self.article.index_of(column.name) for column in published.columns]
        return tuple(None if place is None else row[place] for place in places)


def _chunks(rowguids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(rowguids), _BATCH_ROWS):
        yield list(rowguids[start : start + _BATCH_ROWS])
