"""`MergeReplication`: what `rowtide.connect(url).merge` gives, at the hub."""

from __future__ import annotations

from rowtide.merge.articles import Article, Publication, SubscriberType, Subscription
from rowtide.merge.connecting import address, open_node, open_subscriber
from rowtide.merge.publishing import ArticleOptions, add_article, add_publication, drop_article, drop_publication
from rowtide.merge.subscribing import Progress as SnapshotProgress
from rowtide.merge.subscribing import add_subscription, drop_subscription
from rowtide.merge.synchronisation import Progress, Summary, pair, synchronise

DEFAULT_RETENTION_DAYS = 14


class MergeReplication:
    """Merge replication of a publisher, the hub of its subscribers; each call opens connections of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def add_publication(self, name: str, *, retention_days: int = DEFAULT_RETENTION_DAYS) -> Publication:
        """Make a publication (SQL Server: sp_addmergepublication). 0 days of retention are for ever.

        Raises `PublicationExists`.
        """
        with open_node(self.url) as hub:
            return add_publication(hub, name, retention_days=retention_days)

    def add_article(
        self,
        publication: str,
        table: str,
        *,
        column_tracking: bool = False,
        resolver: str = "priority",
        compensate_for_errors: bool = False,
    ) -> Article:
        """Publish a table, and track its changes from now on (SQL Server: sp_addmergearticle).

        `resolver` is priority, publisher-wins, subscriber-wins or later-wins:COLUMN. Raises as the function of that
        name in `publishing`.
        """
        options = ArticleOptions(column_tracking, resolver, compensate_for_errors)
        with open_node(self.url) as hub:
            return add_article(hub, publication, table, options)

    def drop_article(self, publication: str, article: str) -> None:
        """Publish a table no more (SQL Server: sp_dropmergearticle). Raises `ArticleUnknown`, `SubscriptionsLeft`."""
        with open_node(self.url) as hub:
            drop_article(hub, publication, article)

    def drop_publication(self, name: str) -> None:
        """Drop a publication (SQL Server: sp_dropmergepublication). Raises `SubscriptionsLeft`."""
        with open_node(self.url) as hub:
            drop_publication(hub, name)

    def add_subscription(
        self,
        publication: str,
        subscriber: str,
        *,
        subscriber_type: SubscriberType = SubscriberType.CLIENT,
        priority: float = 0.0,
        on_progress: SnapshotProgress = lambda _article, _rows: None,
    ) -> Subscription:
        """Subscribe a database, and make and fill its tables (SQL Server: sp_addmergesubscription).

        A SQLite file that is not there is made. Raises as `subscribing.add_subscription`.
        """
        with open_node(self.url) as hub, open_subscriber(subscriber) as node:
            return add_subscription(
                hub,
                node,
                publication,
                address(subscriber),
                subscriber_type=subscriber_type,
                priority=priority,
                on_progress=on_progress,
            )

    def drop_subscription(self, publication: str, subscriber: str, *, hub_only: bool = False) -> None:
        """End a subscription at both ends; tables and rows stay (SQL Server: sp_dropmergesubscription).

        `hub_only` where the subscriber is gone for good. Raises `SubscriptionUnknown`.
        """
        with open_node(self.url) as hub:
            if hub_only:
                drop_subscription(hub, None, publication, address(subscriber))
                return
            with open_node(subscriber) as node:
                drop_subscription(hub, node, publication, address(subscriber))

    def synchronise(
        self, publication: str, subscriber: str, *, on_progress: Progress = lambda _phase, _done, _all: None
    ) -> Summary:
        """Bring a subscriber's changes up and the hub's down (SQL Server: the Merge Agent).

        Raises as `synchronisation.synchronise`.
        """
        with open_node(self.url) as hub, open_node(subscriber) as node:
            return synchronise(hub, node, pair(hub, node, publication, address(subscriber)), on_progress)
