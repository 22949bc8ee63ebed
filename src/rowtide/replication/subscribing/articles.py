"""Copy one article of a subscription again, while the others go on (SQL Server: sp_reinitsubscription, @article)."""

from __future__ import annotations

from sqlalchemy import Engine

from rowtide.databases.postgres.errors import translated
from rowtide.replication.distributor import definitions, joining, publication_records, subscription_records
from rowtide.replication.distributor.location import distributor
from rowtide.replication.errors.delivery import PublishedTableDropped
from rowtide.replication.publisher import read_source
from rowtide.replication.sync_types import IfExists
from rowtide.replication.targets.kinds import kind_of


def reinitialize_article(
    engine: Engine, database: str, publication: str, table: str, subscriber: str | None, if_exists: IfExists | None
) -> tuple[str, ...]:
    """Copy a table again to one subscriber or all; return which. `if_exists`: what becomes of the table there; None: it
    is dropped, or emptied where the subscription kept what was there.

    Its article leaves the subscription and joins it again: the agents do that, when they run. Raises
    `PublicationUnknown`, `ArticleUnknown`, `PublishedTableDropped`, `SubscriptionUnknown`.
    """
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        definitions.require_writable(connection)
        article = publication_records.get_article(connection, publication, table)
        if article in publication_records.list_dropped(connection):
            raise PublishedTableDropped(article.qualified_name)
        article_id = article.article_id
        joining.lock_articles(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
        chosen = [one for one in known if one.joins is None]
        if subscriber is not None:
            address = kind_of(subscriber).address(subscriber)
            chosen = [subscription_records.get_subscription(connection, publication, address)]
        for subscription in chosen:
            held = None
            for holder in known:
                if article_id in holder.starts and subscription.agent_id in (holder.agent_id, holder.joins):
                    held = subscription_records.get_held(connection, holder.agent_id, article_id)
                    for step in joining.detach_steps(subscription, holder, held):
                        distributor(connection).execute(step)
            usual = IfExists.TRUNCATE if subscription.settings.keeps_tables else IfExists.DROP
            for step in joining.join_steps(subscription, article_id, if_exists or usual, held):
                distributor(connection).execute(step)
    return tuple(one.subscriber for one in chosen)
