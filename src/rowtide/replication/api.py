"""Transactional replication of one publisher, as Python programs use it: `rowtide.connect(url).replication`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Unpack

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.replication import definitions, publishing, running, status, subscribing
from rowtide.replication.articles import ArticleOptions, ArticleRequest
from rowtide.replication.distribution.agent import DeliveryReport
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.status import SubscriptionStatus
from rowtide.replication.subscribers import KINDS, POSTGRESQL, kind_of


class TransactionalReplication:
    """Publications of a PostgreSQL database, their subscriptions, and the agents that deliver."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)

    def add_publication(self, name: str) -> None:
        """Make a publication without articles (SQL Server: sp_addpublication)."""
        publishing.add_publication(self._engine, self._url, name)

    def drop_publication(self, name: str) -> None:
        """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication)."""
        publishing.drop_publication(self._engine, self._url, name)

    def add_article(self, publication: str, table: str, **options: Unpack[ArticleOptions]) -> None:
        """Publish a table (SQL Server: sp_addarticle). Options are the fields of `ArticleRequest`."""
        publishing.add_article(self._engine, self._url, publication, table, ArticleRequest(**options))

    def drop_article(self, publication: str, table: str) -> None:
        """Take a table out of a publication (SQL Server: sp_droparticle)."""
        publishing.drop_article(self._engine, self._url, publication, table)

    def add_subscription(self, publication: str, subscriber: str) -> None:
        """Deliver all that commits from now on to a database that has the tables and their rows.

        (SQL Server: sp_addsubscription, @sync_type = 'replication support only'.)
        """
        subscribing.add_subscription(self._engine, self._url, publication, subscriber)

    def drop_subscription(self, publication: str, subscriber: str, *, ignores_subscriber: bool = False) -> None:
        """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription)."""
        subscribing.drop_subscription(
            self._engine, self._url, publication, subscriber, ignores_subscriber=ignores_subscriber
        )

    def script_procedures(self, publication: str, subscriber: str | None = None) -> Sequence[str]:
        """Return the statements that prepare a subscriber, one in PostgreSQL where none is named.

        (SQL Server: sp_scriptpublicationcustomprocs.) The subscriber itself is not asked.
        """
        kind = KINDS[POSTGRESQL] if subscriber is None else kind_of(subscriber)
        with translated(), self._engine.connect() as connection:
            publication_id = definitions.get_publication(connection, publication)
            return kind.creations(definitions.list_articles(connection, publication_id))

    def status(self, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
        """Return how far the subscriptions are, without asking the subscribers."""
        return status.read_status(self._engine, self._url, publication)

    def run(
        self,
        publication: str | None = None,
        *,
        once: bool = False,
        limits: BatchLimits | None = None,
        stop: threading.Event | None = None,
        on_batch: Callable[[DeliveryReport], None] = lambda _report: None,
        on_retry: Callable[[RowtideError, float], None] = lambda _error, _pause_s: None,
    ) -> None:
        """Read the log, if nobody else does, and deliver to all subscribers of a publication, or of all, in turn.

        It ends when `stop` is set; with `once`, when all that was committed before is delivered.
        (SQL Server: the Log Reader Agent and the Distribution Agents.)
        """
        running.run_replication(
            self._url,
            publication=publication,
            once=once,
            stop=stop or threading.Event(),
            limits=limits or BatchLimits(),
            on_batch=on_batch,
            on_retry=on_retry,
        )
