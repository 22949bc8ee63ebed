"""What a hub has of the rows of a subscriber whose tables a program rebuilt: read from its node, or by messages.

A device that reaches its hub by requests is told of the rows that are in its partition alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, identify, record
from rowtide.merge.errors.subscribing import UploadMalformed
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.partitions.partition_membership import find_held
from rowtide.merge.row_hashes import hash_rows
from rowtide.merge.session.hub.lineage_checks import SELECT_GENERATIONS, check_lineages, read_generations
from rowtide.merge.session.messages import DeviceState, RowBatch, RowsByArticle
from rowtide.merge.session.pairing import Pairing, require_met, require_original
from rowtide.merge.session.spool_transfer import known_rows
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.checked_metadata import are_rowguids, read_lineage
from rowtide.merge.versions.comparison import Malformed

_BATCH_ROWS = 2000
_MOST_KEYS = 20_000
"""Of a request: for each one, the hub reads the keys of the partition."""
_UNTRACKED = "untracked"
_REASON = "the row differs from the publisher's, and whether it was changed here is not known: its table was rebuilt"
Key = tuple[str | None, ...]
"""The values of a row's primary key, in the order of `Article.key_columns`."""


@frozen
class UntrackedRow:
    """A row of a device that differs from the hub's, while it is not known whether it was changed there.

    `row` has the device's columns; `lineage` is that of the version that the device knows, empty for none.
    """

    article: int
    rowguid: str
    row: Row
    lineage: bytes


@frozen
class RowsRequest:
    """A device whose tables a program has rebuilt asks what the hub has: of `rows`, and of rows by their primary keys.

    `untracked` are to be kept as conflicts, which the device has lost. With `has_tables` it wants descriptions of its
    tables, of which some are gone.
    """

    state: DeviceState
    rows: RowsByArticle = field(default_factory=dict)
    keys: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    untracked: Sequence[UntrackedRow] = ()
    has_tables: bool = False

    @property
    def size(self) -> int:
        """The number of rows that it names."""
        return sum(map(len, (*self.rows.values(), *self.keys.values()))) + len(self.untracked)


@frozen
class RowsAnswer:
    """The rowguids of the rows with the keys of a `RowsRequest`, in their order, null for none.

    Rows and tombstones come as batches, in the columns of the device; those that are not in its partition do not.
    `tables` are by the article's nickname.
    """

    keys: Mapping[int, Sequence[str | None]] = field(default_factory=dict)
    tables: Mapping[int, TableDescription] = field(default_factory=dict)


class RowsAtHub(Protocol):
    """A hub's rows, in the columns of a subscriber."""

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        """Return the hub's tables of the subscriber's articles."""

    def ask(self, article: Article, rowguids: Sequence[str]) -> Iterator[RowChange]:
        """Yield the hub's rows or tombstones of those that it knows."""

    def find_by_key(self, article: Article, keys: Sequence[Key]) -> Mapping[Key, str]:
        """Return the rowguids of the partition's rows with some primary keys."""

    def keep(self, untracked: Sequence[UntrackedRow]) -> None:
        """Keep rows as conflicts that the subscriber has lost. Idempotent."""


@frozen
class NodeRows:
    """See `RowsAtHub`. What is kept is stored by `store`, after the enumeration has ended."""

    hub: Node
    pairing: Pairing
    enumeration: Enumeration
    _kept: list[ConflictRecord] = field(default_factory=list)

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        return self.hub.tables.describe_all(articles)

    def ask(self, article: Article, rowguids: Sequence[str]) -> Iterator[RowChange]:
        published = _published(self.pairing, article)
        if published is None:
            return
        for chunk in _chunks(rowguids):
            for change in self.enumeration.again(published, chunk):
                yield change._replace(row=_carry(published, article, change.row))

    def find_by_key(self, article: Article, keys: Sequence[Key]) -> Mapping[Key, str]:
        published, wanted = _published(self.pairing, article), set(keys)
        if published is None or not wanted:
            return {}
        places = [
            None if (column := published.same_column(each)) is None else published.columns.index(column)
            for each in article.key_columns
        ]
        found: dict[Key, str] = {}
        for batch in self.enumeration.rows(published, self.pairing.filters.get(article.nickname)):
            for rowguid, row in batch:
                key = tuple(None if place is None else row[place] for place in places)
                if key in wanted:
                    found[key] = rowguid
        return found

    def keep(self, untracked: Sequence[UntrackedRow]) -> None:
        pairing, known = self.pairing, {article.nickname: article for article in self.pairing.known}
        for number in dict.fromkeys(each.article for each in untracked):
            own = {each.rowguid: each for each in untracked if each.article == number}
            published = _published(pairing, known[number])
            if published is None:
                continue
            for chunk in _chunks([*own]):
                self._kept.extend(
                    _conflict(pairing, published, known[number], change, own[change.rowguid])
                    for change in self.enumeration.again(published, chunk)
                )

    def store(self) -> None:
        """Store the conflicts that are kept. Not within a transaction."""
        if self._kept:
            with self.hub.transaction():
                for conflict in self._kept:
                    record(self.hub.connection, conflict)


def _published(pairing: Pairing, article: Article) -> Article | None:
    """Return the hub's definition of an article; None if the hub has dropped it."""
    return next((each for each in pairing.articles if each.nickname == article.nickname), None)


def _carry(sender: Article, receiver: Article, row: Row | None) -> Row | None:
    """Return a row of a definition in the columns of another one, with NULL for those that are not there."""
    if row is None or sender.columns == receiver.columns:
        return row
    same = [sender.same_column(column) for column in receiver.columns]
    return tuple(None if column is None else row[sender.columns.index(column)] for column in same)


def _conflict(
    pairing: Pairing, published: Article, article: Article, change: RowChange, own: UntrackedRow
) -> ConflictRecord:
    (hashed,) = hash_rows(article, [own.row])
    is_there = change.row is not None
    losing = _carry(article, published, own.row)
    return ConflictRecord(
        identify(change.rowguid, change.last, hashed),
        pairing.publication.pubid,
        published,
        change.rowguid,
        ConflictType.UPDATE_CONFLICT if is_there else ConflictType.UPDATE_DELETE_WINS_CONFLICT,
        pairing.at_hub.nickname,
        _UNTRACKED,
        _REASON,
        losing,
        change.row,
        own.lineage,
        pairing.at_hub.subscriber,
    )


def _chunks(rowguids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(rowguids), _BATCH_ROWS):
        yield list(rowguids[start : start + _BATCH_ROWS])


@frozen
class SentRows:
    """A hub's rows by messages; see `RowsAtHub`. `state` has the device's definitions."""

    state: DeviceState
    request: Callable[[RowsRequest], tuple[RowsAnswer, Sequence[RowBatch]]]

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        tables = self.request(RowsRequest(self.state, has_tables=True))[0].tables
        return {article: tables[article.nickname] for article in articles if article.nickname in tables}

    def ask(self, article: Article, rowguids: Sequence[str]) -> Iterator[RowChange]:
        for chunk in _chunks(rowguids):
            _, batches = self.request(RowsRequest(self.state, rows={article.nickname: chunk}))
            for batch in batches:
                yield from batch.changes

    def find_by_key(self, article: Article, keys: Sequence[Key]) -> Mapping[Key, str]:
        found: dict[Key, str] = {}
        for start in range(0, len(keys), _MOST_KEYS):
            asked = keys[start : start + _MOST_KEYS]
            answer, _ = self.request(RowsRequest(self.state, keys={article.nickname: asked}))
            rowguids = answer.keys.get(article.nickname, [None] * len(asked))
            found.update((key, rowguid) for key, rowguid in zip(asked, rowguids, strict=True) if rowguid is not None)
        return found

    def keep(self, untracked: Sequence[UntrackedRow]) -> None:
        for start in range(0, len(untracked), _BATCH_ROWS):
            self.request(RowsRequest(self.state, untracked=untracked[start : start + _BATCH_ROWS]))


def serve_rows(hub: Node, pairing: Pairing, request: RowsRequest) -> tuple[RowsAnswer, Sequence[RowBatch]]:
    """Return what a hub has of a device's rows, and keep those that are untracked as conflicts.

    Raises `NodeCopied`, `NodeRestored`, `GenerationRefused`, `UploadMalformed`.
    """
    require_original(hub)
    require_met(request.state, pairing)
    known = {article.nickname: article for article in pairing.known}
    untracked = _checked(hub, pairing, known, request.untracked)
    batches: list[RowBatch] = []
    with hub.changes.enumerating() as enumeration:
        rows = NodeRows(hub, pairing, enumeration)
        for nickname, rowguids in known_rows(request.rows).items():
            if nickname in known:
                batches += _batches(nickname, _seen(hub, pairing, nickname, rows.ask(known[nickname], rowguids)))
        keys = {
            nickname: _rowguids_of(rows.find_by_key(known[nickname], asked), asked)
            for nickname, asked in request.keys.items()
            if nickname in known
        }
        if untracked:
            held = {
                (nickname, change.rowguid)
                for nickname in {each.article for each in untracked}
                for change in _seen(
                    hub,
                    pairing,
                    nickname,
                    rows.ask(known[nickname], [each.rowguid for each in untracked if each.article == nickname]),
                )
            }
            rows.keep([each for each in untracked if (each.article, each.rowguid) in held])
    rows.store()
    described = hub.tables.describe_all(pairing.known) if request.has_tables else {}
    return RowsAnswer(keys, {article.nickname: each for article, each in described.items()}), batches


def _rowguids_of(found: Mapping[Key, str], asked: Sequence[Row]) -> list[str | None]:
    return [found.get(tuple(key)) for key in asked]


def _checked(
    hub: Node, pairing: Pairing, known: Mapping[int, Article], untracked: Sequence[UntrackedRow]
) -> list[UntrackedRow]:
    """Return the rows of articles, with what the hub believes of their versions. Raises `UploadMalformed`."""
    if not untracked:
        return []
    last = read_generations(hub.read_together(SELECT_GENERATIONS)[0])
    claims = check_lineages(hub, pairing, last)
    claims.begin(pairing.at_hub.received)
    found: list[UntrackedRow] = []
    for each in untracked:
        article = known.get(each.article)
        if article is None:
            continue
        if len(each.row) != len(article.columns) or not are_rowguids([each.rowguid]):
            raise UploadMalformed(
                pairing.at_hub.subscriber, f"a row of {article.name} has other columns, or no rowguid"
            )
        try:
            read_lineage(each.lineage)
        except Malformed as error:
            raise UploadMalformed(pairing.at_hub.subscriber, f"a row of {article.name}: {error}") from error
        found.append(replace(each, lineage=claims.reduce(article, each.lineage)))
    return found


def _seen(hub: Node, pairing: Pairing, nickname: int, changes: Iterator[RowChange]) -> list[RowChange]:
    """Return the rows that are in a device's partition, and the tombstones of those that it has."""
    row_filter, found = pairing.filters.get(nickname), list(changes)
    if row_filter is None:
        return found
    article = row_filter.article
    live = [change.rowguid for change in found if change.row is not None]
    gone = [change.rowguid for change in found if change.row is None]
    seen = set(hub.rows.find_belonging(row_filter, live)) if live else set()
    if gone:
        seen |= find_held(hub.connection, pairing.at_hub.nickname, article, gone)
    return [change for change in found if change.rowguid in seen]


def _batches(nickname: int, changes: Sequence[RowChange]) -> Iterator[RowBatch]:
    for is_gone in (False, True):
        several = [change for change in changes if (change.row is None) == is_gone]
        if several:
            yield RowBatch(nickname, several)
