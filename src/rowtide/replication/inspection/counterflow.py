"""What a subscriber's own programs changed and the publisher does not have yet, where both publish a table.

Such a row differs from the published one without being wrong: its change is on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rowtide.copying.chunks import TransactionSnapshot
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import Reader
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.altering_transactions import find_altering
from rowtide.replication.distribution.delivery_interface import resume_position
from rowtide.replication.distribution.reader_entry import read_log
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.inspection.rows_at_position import NotComparable, PositionMove
from rowtide.replication.targets.compared_rows import (
    Row,
    key_of,
)
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.comparison.rows import PostgresComparedRows

_ALL = TransactionSnapshot(1 << 62, 1 << 62, ())
"""Sees every transaction."""


@frozen
class _Flow:
    """A subscription by which a subscriber sends its changes of a table to the publisher, and the article there."""

    subscription: Subscription
    article: Article


class Counterflow:
    """What the subscriber of a publisher publishes to it, and how far that is delivered."""

    def __init__(self, url: str, guids: Collection[str]) -> None:
        """`url` is the subscriber's, `guids` are of the subscriptions by which it publishes to the publisher.

        Raises what opening the subscriber's log store raises.
        """
        self._engine = open_engine(url)
        self._url = url
        with translated(), self._engine.connect() as connection:
            self._manifest = open_own_manifest(read_source(connection, url))
            self._flows = {
                article.qualified_name: _Flow(subscription, article)
                for subscription in subscription_records.list_subscriptions(connection)
                if subscription.guid in guids
                for article in subscription_records.list_subscribed(connection, subscription.agent_id)
            }
        self._readers: Mapping[str, Reader] = {}

    def note_delivered(self) -> None:
        """Note how far delivery to the publisher is; what that has written, a later snapshot of the publisher sees."""
        self._readers = self._manifest.refresh().readers

    def find_keys(self, article: Article, published: PostgresComparedRows) -> frozenset[Row]:
        """Return the keys of rows that the subscriber's programs have changed, and the publisher's snapshot lacks.

        Of rows that are locked at the subscriber, all are found. Raises `NotComparable`, and what reading the
        subscriber's log raises.
        """
        flow = self._flows.get(article.qualified_name)
        if flow is None:
            return frozenset()
        recorded, _ = progress.read(published.connection, flow.subscription.guid)
        reader = self._readers.get(flow.subscription.reader)
        since = recorded.position if reader is None else resume_position(recorded, reader)
        with translated(), self._engine.begin() as connection:
            mark = mark_log(connection)
        read_log(self._engine, self._url, self._manifest, mark)
        state = self._manifest.state
        end = Position.of(state.epoch, mark + 1)
        if since < state.low or since.epoch != state.epoch or find_altering(state, [flow.article], since, end):
            raise NotComparable("its changes that are on their way here are not known", may_pass=False)
        move = PositionMove(
            flow.article, forwards=False, snapshot=_ALL, position=since, begin=since, end=end, unseen_since=None
        )
        try:
            segments = (read_segment(self._manifest.store, one.path) for one in move.find_segments(state))
            rows = [row for found in segments for row, _ in move.list_changes(state, found, with_values=False)]
        except NotComparable as error:
            raise NotComparable("it was truncated at the subscriber, which is on its way here") from error
        return frozenset(_keys(article, flow.article, rows))


def _keys(article: Article, sent: Article, rows: Iterable[Row]) -> Iterable[Row]:
    """Yield the keys of rows, which the subscriber sends, as the publisher's article has them."""
    names = [column.name for column in sent.key_columns]
    try:
        places = [names.index(column.name) for column in article.key_columns]
    except ValueError:
        raise NotComparable("both sides publish it by another key", may_pass=False) from None
    for row in rows:
        key = key_of(sent, row)
        yield tuple(key[place] for place in places)
