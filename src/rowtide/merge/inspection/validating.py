"""Compare a subscriber's rows with the hub's, and explain a row at each node (SQL Server: sp_showrowreplicainfo)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.exchange_state import set_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.untyped_values import are_same
from rowtide.merge.session.pairing import HUB, Pairing, require_same_schema, require_tables, unsent_columns
from rowtide.merge.versions.changes import Row

SHOWN = 3
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
    record_result(hub, pairing, is_equal=all(each.is_equal for each in found))


def record_result(hub: Node, pairing: Pairing, *, is_equal: bool) -> None:
    now = datetime.now(UTC)
    dates = {"attempted_validate": now} | ({"last_validated": now} if is_equal else {})
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
            if len(differing) < SHOWN:
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
