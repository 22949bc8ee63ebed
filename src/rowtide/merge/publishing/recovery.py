"""Find what was changed in tables of a subscriber while it was not tracked: a program had rebuilt them.

Each row is compared with its hash. A row that differs was changed here, one that is equal was not. A row without a hash
that the hub has in another version is a conflict, which the hub wins. A missing row is restored, or counts as deleted
here: the user says which. What is found is logged as triggers would have logged it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.errors.subscribing import TablesUnfit
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.untyped_values import are_same
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.rows_at_hub import RowsAtHub, UntrackedRow
from rowtide.merge.row_hashes import GONE, hash_rows, key_of, read_hashes, rowguid_of
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import KnownVersion
from rowtide.merge.versions.comparison import Lineage, Presence

_BATCH_ROWS = 2000


@frozen
class Rebuilt:
    """A subscriber whose tables may have been rebuilt: its definitions, and the last generation that the hub has."""

    node: Node
    name: str
    known: Sequence[Article]
    sent: int


def recover(rebuilt: Rebuilt, hub: RowsAtHub, *, absent_is_delete: bool = False) -> Sequence[Recovered]:
    """Log what a subscriber's program changed in tables without triggers, and track them again.

    A repeat completes an interrupted call. Returns what was found in tables that are not as they were left. Raises
    `TablesUnfit`, `RowguidUnfit`.
    """
    subscriber = rebuilt.node
    damages = subscriber.tables.examine(rebuilt.known).damages
    present = [article for article in rebuilt.known if subscriber.tables.is_there(article)]
    misfits = [
        f"{article.qualified_name}: {misfit}"
        for article in present
        if article.nickname in damages
        for misfit in subscriber.rebuilt.find_misfits(article)
    ]
    if misfits:
        raise TablesUnfit(rebuilt.name, "; ".join(misfits))
    found: list[Recovered] = []
    untracked: list[UntrackedRow] = []
    with subscriber.transaction():
        _make_absent(rebuilt, hub, present)
        tables = [
            _RecoveredTable(rebuilt, hub, article, damages.get(article.nickname), absent_is_delete)
            for article in rebuilt.known
        ]
        for table in tables:
            table.adopt()
        for table in tables:
            found.append(table.log_changes())
            untracked += table.conflicts
    hub.keep(untracked)
    return [each for each in found if each.is_any]


def _make_absent(rebuilt: Rebuilt, hub: RowsAtHub, present: Sequence[Article]) -> None:
    """Create the tables that are not there any more."""
    subscriber = rebuilt.node
    absent = [article for article in rebuilt.known if article not in present]
    if absent:
        described = hub.describe(rebuilt.known)
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
    rebuilt: Rebuilt
    hub: RowsAtHub
    article: Article
    damage: str | None
    absent_is_delete: bool
    conflicts: list[UntrackedRow] = field(default_factory=list)
    hashes: dict[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = read_hashes(self.subscriber.connection, self.article)

    @property
    def subscriber(self) -> Node:
        return self.rebuilt.node

    def adopt(self) -> None:
        """Give rows that have lost their rowguids those by which the hub knows them, and track the table."""
        if self.damage is None:
            return
        with self.subscriber.rebuilt.rewriting(self.article):
            scan = self._scan()
            unknown = [rowguid for rowguid, _ in scan.unknown]
            there = {change.rowguid for change in self.hub.ask(self.article, unknown)}
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
        found = self.hub.find_by_key(self.article, [*keys]) if keys else {}
        return {keys[key]: rowguid for key, rowguid in found.items() if key_of(rowguid) not in scan.present}

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
        return known.origin is None and known.version.last is not None and generation > self.rebuilt.sent

    def _judge_unknown(self, rowguids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the rows that the hub does not have, and those that are known to be changed here.

        Of others the hub's version remains.
        """
        inserted: list[str] = []
        changed: list[str] = []
        for chunk in _chunks(rowguids):
            theirs = {change.rowguid: change for change in self.hub.ask(self.article, chunk)}
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
                    lineage = known[rowguid].version.lineage if rowguid in known else Lineage.EMPTY
                    self.conflicts.append(UntrackedRow(self.article.nickname, rowguid, row, lineage.encode()))
        return inserted, changed

    def _read_known(self, rowguids: Sequence[str]) -> dict[str, KnownVersion]:
        found: dict[str, KnownVersion] = {}
        for chunk in _chunks(rowguids):
            found.update(self.subscriber.versions.read_known(self.article, chunk))
        return found


def _chunks(rowguids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(rowguids), _BATCH_ROWS):
        yield list(rowguids[start : start + _BATCH_ROWS])
