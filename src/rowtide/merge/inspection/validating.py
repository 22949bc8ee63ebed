"""What nodes have of rows: compared with the hub's, and explained (SQL Server: sp_showrowreplicainfo)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, Subscription
from rowtide.merge.catalogue import list_articles, list_publications, read_nickname
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.nodes.untyped_values import are_same
from rowtide.merge.progress import list_retry_reasons, list_subscriptions, set_subscription
from rowtide.merge.session.pairing import HUB, Pairing, require_same_schema, require_tables, unsent_columns
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.comparison import Presence

_SHOWN = 3
Rows = Iterator[Sequence[tuple[str, Row]]]
"""Batches of rows with their rowguids, by rowguid."""


@frozen
class ArticleValidation:
    """Result of comparing a table.

    `checksum` is the hub's, over all rows and values in rowguid order; None if only rows were counted. `differing`
    lists the first rows that only one node has, or that have different values; `unsent` the columns that only one node
    has, which are not compared.
    """

    article: str
    publisher_rows: int
    subscriber_rows: int
    checksum: str | None
    is_equal: bool
    differing: tuple[str, ...]
    unsent: tuple[str, ...] = ()


def validate(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    *,
    checksum: bool,
    on_progress: Callable[[str], None] = lambda _article: None,
) -> Sequence[ArticleValidation]:
    """Compare all tables but upload-only ones, each node in one snapshot.

    Changes that are not exchanged yet count as differences.
    Raises `DefinitionsDiffer`, `MergedTableAltered`.
    """
    require_same_schema(hub, pairing)
    require_tables(hub, HUB, pairing.going_down)
    require_tables(subscriber, pairing.at_hub.subscriber, pairing.going_down)
    unsent = unsent_columns(pairing, *(node.tables.examine(pairing.articles).unsent for node in (hub, subscriber)))
    with hub.changes.enumerating() as ours, subscriber.changes.enumerating() as theirs:
        found = []
        for article in pairing.going_down:
            on_progress(article.name)
            row_filter = pairing.filters.get(article.nickname)
            rows = (ours.rows(article, row_filter), theirs.rows(article))
            compared = _compare(article, *rows) if checksum else _count(article, *rows)
            named = tuple(str(each) for each in unsent if each.table == article.qualified_name)
            found.append(replace(compared, unsent=named))
        return found


def record_validation(hub: Node, pairing: Pairing, found: Sequence[ArticleValidation]) -> None:
    """Store at the hub that a subscriber was validated, and whether all rows were equal."""
    now = datetime.now(UTC)
    dates = {"attempted_validate": now} | ({"last_validated": now} if all(each.is_equal for each in found) else {})
    with hub.transaction():
        set_subscription(hub.connection, pairing.at_hub.subid, **dates)


def _count(article: Article, ours: Rows, theirs: Rows) -> ArticleValidation:
    counts = [sum(map(len, rows)) for rows in (ours, theirs)]
    return ArticleValidation(article.name, counts[0], counts[1], None, counts[0] == counts[1], ())


def _compare(article: Article, ours: Rows, theirs: Rows) -> ArticleValidation:
    one, other = _NodeRows(ours), _NodeRows(theirs)
    differing: list[str] = []
    is_equal = True
    while one.rowguid is not None or other.rowguid is not None:
        first = min(each.rowguid for each in (one, other) if each.rowguid is not None)
        is_same = one.rowguid == other.rowguid and are_same(article, one.row, other.row)
        if not is_same:
            is_equal = False
            if len(differing) < _SHOWN:
                differing.append(first)
        for each in (one, other):
            if each.rowguid == first:
                each.step()
    return ArticleValidation(article.name, one.count, other.count, one.checksum, is_equal, tuple(differing))


class _NodeRows:
    """A node's rows one by one, by rowguid; at the end `rowguid` is None."""

    def __init__(self, batches: Rows) -> None:
        self._rows = (pair for batch in batches for pair in batch)
        self._hash = hashlib.sha256()
        self.count = -1
        self.rowguid: str | None = None
        self.row: Row = ()
        self.step()

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()[:32]

    def step(self) -> None:
        self.count += 1
        self.rowguid, self.row = next(self._rows, (None, ()))
        if self.rowguid is not None:
            self._hash.update(repr((self.rowguid, self.row)).encode())


@frozen
class RowReplica:
    """What this node knows of a row at one node; `version` is the last change of that node that the row includes.

    `rowversion_table` is the table that says so: contents or tombstone; None if the row has no metadata.
    """

    publication: str
    server: str
    nickname: str
    version: int | None
    state: str
    rowversion_table: str | None
    comment: str


def explain(node: Node, table: str, rowguid: str) -> Sequence[RowReplica]:
    """Return one `RowReplica` for each node. Raises `ArticleTableNotFound`."""
    found = [
        (publication, article)
        for publication in list_publications(node.connection)
        for article in list_articles(node.connection, publication.pubid)
        if article.is_named(table)
    ]
    if not found:
        raise ArticleTableNotFound(table)
    return [row for publication, article in found for row in _explain(node, publication, article, rowguid.lower())]


def _explain(node: Node, publication: Publication, article: Article, rowguid: str) -> Iterator[RowReplica]:
    own = read_nickname(node.connection)
    known = transact_at(node, lambda: node.versions.read_known(article, [rowguid])).get(rowguid)
    others = list_subscriptions(node.connection, publication.pubid)
    names = {own: "this node"} | {other.nickname: _name(publication, other) for other in others}
    source = _source(known)
    yield RowReplica(
        publication.name, "this node", f"{own:012x}", _version(known, own), _state(known), source, _said(known, names)
    )
    for other in others:
        reason = list_retry_reasons(node.connection, other.nickname, article.nickname).get(rowguid)
        comment = f"its row was refused here and is asked for again: {reason}" if reason else _sent(known, other)
        state = "unknown" if known is None else ("pending" if _is_pending(known, other) else _state(known))
        nickname = f"{other.nickname:012x}"
        version = _version(known, other.nickname)
        yield RowReplica(publication.name, names[other.nickname], nickname, version, state, source, comment)


def _name(publication: Publication, other: Subscription) -> str:
    return "the publisher" if other.nickname == publication.publisher else other.subscriber


def _version(known: KnownVersion | None, nickname: int) -> int | None:
    return (known.version.lineage.version_of(nickname) or None) if known is not None else None


def _state(known: KnownVersion | None) -> str:
    return "unknown" if known is None else known.version.presence.value


def _source(known: KnownVersion | None) -> str | None:
    if known is None or known.generation is None:
        return None
    return "contents" if known.version.presence is Presence.LIVE else "tombstone"


def _said(known: KnownVersion | None, names: dict[int, str]) -> str:
    if known is None:
        return "there is no such row, and nothing is known of one"
    if known.generation is None:
        return "it has not been changed since all nodes have it"
    if known.origin is None:
        return f"changed here, in generation {known.generation}"
    made = "" if known.version.last is None else names.get(known.version.last.nickname, "another node")
    return f"came from {names.get(known.origin, 'another node')}, made by {made}, in generation {known.generation} here"


def _is_pending(known: KnownVersion, other: Subscription) -> bool:
    return known.generation is not None and known.origin != other.nickname and known.generation > other.sent


def _sent(known: KnownVersion | None, other: Subscription) -> str:
    if known is None:
        return "nothing is to be sent"
    if known.generation is None:
        return "it has the row since its snapshot, or a synchronisation long ago"
    if known.origin == other.nickname:
        return "the version is its own"
    if _is_pending(known, other):
        return f"still to be sent: generation {known.generation}, and {other.sent} is the last that was"
    return f"sent: generation {known.generation} of {other.sent}"
