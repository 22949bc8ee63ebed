"""Published tables of which nothing is delivered, or not all that was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, select

from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import read_tables
from rowtide.databases.postgres.query_memo import make_once
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import members_table
from rowtide.log.membership import Member
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.log.postgres.missed_ddl import shape_of
from rowtide.log.store.state import ManifestState
from rowtide.replication.articles.articles import FEATURE, Article
from rowtide.replication.distribution.log_events import find_lost_identity
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import IdentityUnfit

_Present = tuple[Article, SourceTable]
"""An article, and its table as it is now."""


@frozen
class ArticlesStatus:
    """Published tables: of `unread` ones the log reader has not met the beginning, `dropped` ones are gone.

    `stored` are columns that were generated when the table was published, and are ordinary ones now. `left_out` are
    columns that were added since and that a subscriber does not get, `kept` were dropped and a subscriber has them
    still, each with the reason. Of `unidentified` ones the log lacks old rows that delivery needs, from the next
    update or delete on. `rekeyed` ones have another primary key than subscribers find rows by.
    Of `unwritable` ones the server refuses updates and deletes: quoted names, with the virtual column.
    """

    unread: tuple[str, ...]
    dropped: tuple[str, ...]
    stored: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unidentified: tuple[IdentityUnfit, ...] = ()
    rekeyed: tuple[str, ...] = ()
    unwritable: tuple[tuple[str, str], ...] = ()


def read_articles_status(connection: Connection, state: ManifestState | None) -> ArticlesStatus:
    """Return the problems of published tables; without a readable log store none is `unread`."""
    members = state.members if state is not None else None
    return make_once("articles", lambda: _read_status(connection, members), members)


def _read_status(connection: Connection, members: tuple[Member, ...] | None) -> ArticlesStatus:
    columns = members_table.c
    query = select(columns.member_id, columns.name).where(columns.feature == FEATURE).order_by(columns.name)
    met = {member.member_id for member in members or ()}
    unread = [row.name for row in connection.execute(query) if row.member_id not in met]
    dropped = [f"{gone.schema}.{gone.table}" for gone in publication_records.list_dropped(connection)]
    published, subscribed = _read_published(connection), tuple(_list_subscribed(connection))
    delivered = _with_tables(connection, [article for _, article in subscribed])
    return ArticlesStatus(
        tuple(unread) if members is not None else (),
        tuple(dropped),
        tuple(_find_stored(delivered)),
        tuple(_find_omitted(subscribed, are_kept=False)),
        tuple(_find_omitted(subscribed, are_kept=True)),
        tuple(_check_identities(published).values()),
        tuple(_find_rekeyed(delivered)),
        tuple(_find_unwritable(published)),
    )


def find_unidentified(connection: Connection) -> dict[str, IdentityUnfit]:
    """Return which articles, by their ids, need old rows that the log does not get any more."""
    return _check_identities(_read_published(connection))


def _check_identities(published: Iterable[_Present]) -> dict[str, IdentityUnfit]:
    judged = ((article, table, find_lost_identity(article, shape_of(table))) for article, table in published)
    return {
        article.article_id: IdentityUnfit(table.qualified_name, lost, quote_qualified(table.schema, table.name))
        for article, table, lost in judged
        if lost is not None
    }


def _read_published(connection: Connection) -> tuple[_Present, ...]:
    return _with_tables(connection, publication_records.list_all_articles(connection))


def _list_subscribed(connection: Connection) -> Iterator[tuple[Subscription, Article]]:
    """Yield articles as subscribers have them."""
    subscribed = subscription_records.list_all_subscribed(connection)
    for subscription in subscription_records.list_subscriptions(connection):
        for article in subscribed.get(subscription.agent_id, ()):
            yield subscription, article


def _with_tables(connection: Connection, articles: Sequence[Article]) -> tuple[_Present, ...]:
    """Return articles with their tables as these are now, without those whose table is gone."""
    tables = {table.source_id: table for table in read_tables(connection, [article.source_id for article in articles])}
    return tuple((article, tables[article.source_id]) for article in articles if article.source_id in tables)


def _find_omitted(subscribed: Iterable[tuple[Subscription, Article]], *, are_kept: bool) -> Iterator[str]:
    for subscription, article in subscribed:
        for column in article.left_out:
            if column.is_kept is are_kept:
                name = f"{article.qualified_name}.{column.name}"
                yield f"{name} to {redact(subscription.subscriber)}: {column.reason}"


def _find_stored(delivered: Iterable[_Present]) -> Iterator[str]:
    found = {
        f"{article.qualified_name}.{column.name}": None
        for article, table in delivered
        for column in table.columns
        if not column.is_generated and column.name in article.generated_columns
    }
    yield from found


def _find_rekeyed(delivered: Iterable[_Present]) -> Iterator[str]:
    found = {
        article.qualified_name: None
        for article, table in delivered
        if article.key_columns
        and {column.number: column.key_ordinal for column in article.key_columns}
        != {column.number: column.key_ordinal for column in table.key_columns}
    }
    yield from found


def _find_unwritable(published: Iterable[_Present]) -> Iterator[tuple[str, str]]:
    """Yield what a virtual column made so that was added where no event trigger reports it."""
    for table in {table.source_id: table for _, table in published}.values():
        virtual = next((column.name for column in table.columns if column.is_virtual), None)
        if virtual is not None and table.identity == FULL_IDENTITY:
            yield quote_qualified(table.schema, table.name), virtual
