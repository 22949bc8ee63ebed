"""Move subscribers' sequences to where the publisher's are, before programs write to a subscriber instead.

The log has no values of sequences. Delivered rows have their numbers, but no sequence of the subscriber gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, literal_column, select, text

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.publisher import read_source
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.sequences import COLUMN_SEQUENCE, PublishedSequence, SyncedSequence


def sync_sequences(
    engine: Engine, database: str, publication: str, subscriber: str | None
) -> tuple[SyncedSequence, ...]:
    """Move the sequences of a publication's columns at one subscriber or all; return those that were moved.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, and what connecting to a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        read_source(connection, database)
        publication_records.get_publication(connection, publication)
        known = tuple(
            one for one in subscription_records.list_subscriptions(connection, publication) if one.joins is None
        )
        if subscriber is not None:
            address = kind_of(subscriber).address(subscriber)
            known = (subscription_records.get_subscription(connection, publication, address),)
        articles = [subscription_records.list_subscribed(connection, found.agent_id) for found in known]
        published = [list(_read(connection, subscribed)) for subscribed in articles]
    return tuple(
        one
        for found, sequences in zip(known, published, strict=True)
        for one in kind_of(found.subscriber).move_sequences(found.subscriber, sequences)
    )


def _read(connection: Connection, articles: Sequence[Article]) -> Iterator[PublishedSequence]:
    for article in articles:
        for column in article.columns:
            named = {"table": quote_qualified(article.schema, article.table), "column": column.name}
            sequence = connection.execute(text(_SEQUENCE), named).scalar()
            if sequence is not None:
                columns: list[ColumnElement[Any]] = [literal_column("last_value"), literal_column("is_called")]
                values = select(*columns).select_from(text(sequence))
                last_value, is_called = connection.execute(values).one()
                step = connection.execute(text(_INCREMENT), {"sequence": sequence}).scalar_one()
                yield PublishedSequence(article.schema, article.table, column.name, last_value, is_called, step)


_SEQUENCE = COLUMN_SEQUENCE.format(table=":table", column=":column")
_INCREMENT = "select seqincrement from pg_sequence where seqrelid = cast(:sequence as regclass)"
