"""What a subscriber needs from its hub to follow schema changes: read from the hub's node, or received in a message."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import select

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, SubscriberType
from rowtide.merge.definitions import schema_changes
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableAlteration, TableDescription
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.nodes.table_definitions import TableChange
from rowtide.merge.publishing.schema_changes import list_by_hand
from rowtide.merge.publishing.snapshots import StartingRows, SubscriberSnapshot, store_memberships
from rowtide.merge.publishing.vertical_partitions import restrict
from rowtide.merge.session.pairing import Pairing, SchemaVersion
from rowtide.merge.versions.changes import Row, Write

NamedRows = Iterator[Sequence[tuple[str, Row]]]
"""Batches of rows, each with its rowguid."""


class HubSchema(Protocol):
    """The hub's schema, as a subscriber follows it."""

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        """Return the hub's tables of articles."""

    def by_hand(self, article: Article) -> Collection[int]:
        """Return the numbers of columns whose changes are left to the subscriber's user."""

    def values(self, change: TableChange, alteration: TableAlteration) -> NamedRows:
        """Yield the hub's values of new and retyped columns, where they are not what the subscriber has."""

    def starting(self, added: Sequence[Article]) -> StartingRows:
        """Return what the tables of new articles start with."""

    def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return the publication's schema changes, as they are stored."""


@frozen
class NodeSchema:
    """A hub's schema that is read from its node, in one snapshot; see `HubSchema`."""

    hub: Node
    pairing: Pairing
    enumeration: Enumeration

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        return self.hub.tables.describe_all(articles)

    def by_hand(self, article: Article) -> Collection[int]:
        since = self.pairing.at_subscriber.schema_version
        return list_by_hand(self.hub.connection, self.pairing.publication, article, since)

    def values(self, change: TableChange, alteration: TableAlteration) -> NamedRows:
        return self.filled(change, _differing(change, alteration)) if change.filled else iter(())

    def filled(self, change: TableChange, where: str | None) -> NamedRows:
        """Yield the values of new and retyped columns, of the subscriber's rows that a condition is true of."""
        wanted = replace(change.after, columns=change.filled)
        yield from self.enumeration.rows(wanted, self.pairing.filters.get(change.after.nickname), where)

    def starting(self, added: Sequence[Article]) -> SubscriberSnapshot:
        kind = self.pairing.at_hub.subscriber_type
        return SubscriberSnapshot(self.enumeration, added, self.pairing.filters, subscriber_type=kind)

    def changes(self) -> Sequence[Mapping[str, Any]]:
        of_publication = schema_changes.c.pubid == self.pairing.publication.pubid
        found = self.hub.connection.execute(select(schema_changes).where(of_publication)).mappings()
        return [dict(row) for row in found]


@contextmanager
def reading_schema(hub: Node, pairing: Pairing) -> Iterator[NodeSchema]:
    """Yield a hub's schema; the subscriber's membership in new articles is stored at the end."""
    known = {article.nickname for article in pairing.known}
    added = [article for article in pairing.articles if article.nickname not in known]
    with hub.changes.enumerating() as enumeration:
        schema = NodeSchema(hub, pairing, enumeration)
        yield schema
        generation, members = enumeration.generation, schema.starting(added).members()
    store_memberships(hub, pairing.at_hub.nickname, members, generation)


@frozen
class SentVersion:
    """The metadata of a row that a table starts with; see `Write`."""

    rowguid: str
    row: Row
    lineage: bytes
    last: bytes
    columns: bytes | None
    priority: float | None


@frozen
class SentTable:
    """What the table of a new article starts with; `included` is the lineage of rows without metadata."""

    rows: Sequence[tuple[str, Row]]
    versions: Sequence[SentVersion]
    included: bytes


@frozen
class SentChange:
    """A schema change as it is stored (SQL Server: sysmergeschemachange); `created_at` is in ISO 8601."""

    schemaversion: int
    schemaguid: str
    article_name: str
    column_number: int | None
    schematype: str
    schematext: str
    schemastatus: str
    created_at: str


@frozen
class SchemaStep:
    """A hub's schema, and what a device that has an earlier one needs to follow it.

    `articles` are the hub's; `tables`, `by_hand`, `values` of new and retyped columns, and `added` are by the article's
    nickname.
    """

    version: int
    guid: str | None
    articles: tuple[Article, ...]
    tables: Mapping[int, TableDescription]
    changes: tuple[SentChange, ...]
    by_hand: Mapping[int, Sequence[int]] = field(default_factory=dict)
    values: Mapping[int, Sequence[tuple[str, Row]]] = field(default_factory=dict)
    added: Mapping[int, SentTable] = field(default_factory=dict)


def describe_schema(schema: NodeSchema) -> SchemaStep:
    """Return what a device needs to follow the hub's schema, whatever default values its new columns get."""
    pairing = schema.pairing
    known = {article.nickname: article for article in pairing.known}
    changed = [one for one in pairing.there if known.get(one.nickname, one) != one]
    added = [article for article in pairing.articles if article.nickname not in known]
    by_hand, values = dict[int, Sequence[int]](), dict[int, Sequence[tuple[str, Row]]]()
    tables = {article.nickname: each for article, each in schema.describe(changed).items()}
    for article in changed:
        by_hand[article.nickname] = sorted(schema.by_hand(article))
        published, _ = restrict(article, tables[article.nickname])
        change = TableChange(
            known[article.nickname], article, published.kind, published.statement, by_hand[article.nickname]
        )
        if change.is_of_table and change.filled:
            rows = schema.filled(change, _differing_anyhow(change))
            values[article.nickname] = [pair for batch in rows for pair in batch]
    if added:
        tables |= {article.nickname: each for article, each in schema.describe(pairing.articles).items()}
    starting = schema.starting(added)
    return SchemaStep(
        pairing.schema.version,
        pairing.schema.guid,
        pairing.articles,
        tables,
        tuple(
            SentChange(**{name: each[name] for name in _STORED}, created_at=each["created_at"].isoformat())
            for each in schema.changes()
        ),
        by_hand,
        values,
        {article.nickname: _sent_table(starting, article) for article in added},
    )


_STORED = (
    *("schemaversion", "schemaguid", "article_name", "column_number"),
    *("schematype", "schematext", "schemastatus"),
)


def _sent_table(starting: SubscriberSnapshot, article: Article) -> SentTable:
    versions = [
        SentVersion(one.rowguid, one.row or (), one.lineage, one.last or b"", one.columns, one.priority)
        for batch in starting.versions(article, 0)
        for one in batch
    ]
    return SentTable([pair for batch in starting.rows(article) for pair in batch], versions, starting.included(article))


@frozen
class SentSchema:
    """A hub's schema from a message; see `HubSchema`."""

    step: SchemaStep
    pubid: str
    subscriber_type: SubscriberType

    def describe(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        return {article: self.step.tables[article.nickname] for article in articles}

    def by_hand(self, article: Article) -> Collection[int]:
        return set(self.step.by_hand.get(article.nickname, ()))

    def values(self, change: TableChange, alteration: TableAlteration) -> NamedRows:
        rows = self.step.values.get(change.after.nickname, ())
        needed = [(rowguid, row) for rowguid, row in rows if _is_needed(change, alteration, row)]
        if needed:
            yield needed

    def starting(self, added: Sequence[Article]) -> StartingRows:
        return _SentRows(self.step, added, self.subscriber_type)

    def changes(self) -> Sequence[Mapping[str, Any]]:
        return [
            {name: getattr(each, name) for name in _STORED}
            | {"pubid": self.pubid, "created_at": datetime.fromisoformat(each.created_at)}
            for each in self.step.changes
        ]

    @property
    def version(self) -> SchemaVersion:
        """The schema's version."""
        return SchemaVersion(self.step.version, self.step.guid)


@frozen
class _SentRows:
    """See `StartingRows`."""

    step: SchemaStep
    articles: Sequence[Article]
    subscriber_type: SubscriberType
    shared: Sequence[Article] = ()
    prepared: Sequence[Article] = ()

    @property
    def new_articles(self) -> Sequence[Article]:
        return self.articles

    def there(self, article: Article) -> Article:
        return article.at_subscriber(self.subscriber_type)

    def rows(self, article: Article) -> NamedRows:
        yield self.step.added[article.nickname].rows

    def versions(self, article: Article, publisher: int) -> Iterator[Sequence[Write]]:
        yield [
            Write(
                rowguid=one.rowguid,
                row=one.row,
                is_live=True,
                lineage=one.lineage,
                last=one.last,
                columns=one.columns,
                origin=publisher,
                priority=one.priority,
            )
            for one in self.step.added[article.nickname].versions
        ]

    def included(self, article: Article) -> bytes:
        return self.step.added[article.nickname].included


_CONSTANT = re.compile(
    r"\(*(?:'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false)(?:::[a-z][\w .]*(?:\([\d, ]+\))?(?:\[\])?)?\)*", re.IGNORECASE
)
"""A default that is the same for all rows."""


def _differing(change: TableChange, alteration: TableAlteration) -> str | None:
    """Return the condition of the rows at the publisher whose values the subscriber needs; None if it needs all."""
    terms = []
    for column in change.filled:
        default = change.default_of(column)
        name = _quoted(column.name)
        if column in change.retyped:
            return None
        if column.name not in alteration.defaulted or default is None:
            terms.append(f"{name} is not null")
        elif _CONSTANT.fullmatch(default.sql):
            terms.append(f"{name} is distinct from {default.sql}")
        else:
            return None
    return " or ".join(terms)


def _differing_anyhow(change: TableChange) -> str | None:
    """Return the condition as `_differing` does, of all rows that any subscriber may need."""
    if change.retyped or any(change.default_of(column) is not None for column in change.filled):
        return None
    return " or ".join(f"{_quoted(column.name)} is not null" for column in change.filled)


def _is_needed(change: TableChange, alteration: TableAlteration, row: Row) -> bool:
    """Whether a subscriber needs a row's values; what it has by a default is replaced in any case."""
    return bool(change.retyped) or any(
        value is not None or column.name in alteration.defaulted
        for column, value in zip(change.filled, row, strict=True)
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
