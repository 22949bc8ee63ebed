"""Delivery to a PostgreSQL subscriber over several connections, and the choice between this and the other ways.

A batch is divided among streams and committed by all or by none: each prepares its part, then the first is committed,
whose progress row is the decision, then the others. A batch that cannot be divided, is small, or was refused, is sent
over one connection of its own, as with one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import chain

import numpy as np

from rowtide.core.lsn import Position
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.distribution.calls.ordered import OrderedCalls
from rowtide.replication.distribution.delivery_interface import BatchUndone, Delivery, DeliveryProgress, JoiningArticle
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CommandError
from rowtide.replication.targets.postgres.connecting import closed_on_error
from rowtide.replication.targets.postgres.delivery.conflict_detection import ConflictDelivery
from rowtide.replication.targets.postgres.delivery.sender import FEWEST_AS_COPY
from rowtide.replication.targets.postgres.delivery.single_connection import PostgresDelivery
from rowtide.replication.targets.postgres.delivery.streams.division import (
    Division,
)
from rowtide.replication.targets.postgres.delivery.streams.group import StreamGroup
from rowtide.replication.targets.postgres.delivery.streams.requirements import require_prepared
from rowtide.replication.targets.postgres.delivery.streams.routes import Routes, read_rules
from rowtide.replication.targets.postgres.delivery.table_relations import (
    SubscriberTables,
    find_edited,
    plan_sets,
)
from rowtide.replication.targets.postgres.recovery import TakenOver, open_agent
from rowtide.replication.targets.postgres.writing_rights import WrittenTables, open_written

FEWEST_CALLS = 100
"""A batch of fewer is not divided: it would wait for two commits more than it gains."""
_ROUTED_AT_ONCE = 1000
"""Calls are divided in portions: while one stream is sent to, the others have something to do."""
MOST_CALLS = 200_000
"""A larger batch is not kept in memory: it continues as it has begun, over one connection if it waits to be divided."""


class _Way(Enum):
    """How a batch is sent; set when it begins, and by its calls."""

    KEPT = "kept in memory until it is known whether, and how, it is divided"
    ROUTED = "each call at once in the stream of its row"
    OVER_ONE = "over the single connection"


class StreamsDelivery:
    """Several connections that deliver to a PostgreSQL subscriber; see `Delivery`."""

    def __init__(
        self,
        taken: TakenOver,
        subscription: Subscription,
        articles: Sequence[Article],
        tables: SubscriberTables,
        written: WrittenTables,
    ) -> None:
        """Raises `PreparedTransactionsLacking`, and as for one stream."""
        settings = subscription.settings
        require_prepared(taken.connection, subscription.subscriber, subscription.guid, settings.streams)
        self._division = Division(read_rules(taken.connection, tables, articles))
        self._routes = Routes(settings.streams) if self._division.is_of_rows else None
        self._streams = settings.streams
        self._open_group = partial(
            StreamGroup,
            subscription,
            plan_sets(tables, articles),
            articles=articles,
            edited=find_edited(tables, articles),
        )
        self._group: StreamGroup | None = None
        self._single = PostgresDelivery(taken, subscription, articles, tables, written)
        self._way = _Way.OVER_ONE
        self._kept: list[OrderedCalls] | None = None
        self._kept_count = self._bulk_count = 0

    @property
    def progress(self) -> DeliveryProgress:
        return self._single.progress

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        """See `Delivery`. With `one_by_one`, and only then, an error names its call, or the call is skipped."""
        self._kept, self._kept_count, self._bulk_count = [], 0, 0
        if one_by_one:
            self._way = _Way.OVER_ONE
            # Over one connection: an error names its call only where calls run in log order.
            self._single.begin(one_by_one=True)
        else:
            self._way = _Way.KEPT

    def begin_early(self) -> Callable[[], None] | None:
        """See `Delivery`; over one connection, as any batch that is not kept in memory."""
        # The whole of the transaction is not known yet, so neither is how it could be divided.
        self._way, self._kept = _Way.OVER_ONE, None
        return self._single.begin_early()

    def run(self, calls: OrderedCalls) -> None:
        if self._way is _Way.KEPT:
            self._bulk_count += calls.count_bulk()
            if self._bulk_count >= FEWEST_AS_COPY:
                # COPY over one connection is faster than calls of several streams.
                self._send_over_one()
        # Users' code may read or write any row. Its calls keep their order among all others only over one connection.
        if self._way is not _Way.OVER_ONE and not all(map(self._division.is_divisible, calls)):
            self._send_over_one()
        if self._way is _Way.OVER_ONE:
            self._single.run(calls)
            return
        if self._kept is not None:
            self._kept.append(calls)
            self._kept_count += len(calls)
        if self._way is _Way.ROUTED:
            self._route(calls)
        else:
            self._look_at_kept()

    def alter(self, followed: Followed) -> None:
        self._single.alter(followed)

    def join(self, joining: JoiningArticle) -> None:
        self._single.join(joining)

    def flush(self) -> None:
        if self._way is _Way.ROUTED:
            self._forget_kept()
            self._required_group.flush()
            return
        if self._kept:
            self._send_over_one()
        self._single.flush()

    def end(self, reached: Position) -> Sequence[CommandError]:
        shares: Sequence[Sequence[OrderedCalls]] = ()
        if self._way is _Way.KEPT:
            shares = self._divide(self._kept or ())
            if not shares:
                self._send_over_one()
        self._kept = None
        if self._way is _Way.OVER_ONE:
            return self._single.end(reached)
        # The single connection compares the progress row with its own record at its next batch, and would take the
        # streams' commit for another agent's.
        self._single.resume(self._required_group.commit(shares, self.progress, reached))
        return ()

    def close(self) -> None:
        """Close all connections; what is not prepared is rolled back."""
        if self._group is not None:
            self._group.close()
        self._single.close()

    @property
    def _required_group(self) -> StreamGroup:
        if self._group is None:
            self._group = self._open_group()
        return self._group

    def _divide(self, kept: Sequence[OrderedCalls]) -> Sequence[Sequence[OrderedCalls]]:
        """Return each stream's calls; nothing if they are few, or all have to be in one."""
        if self._kept_count < FEWEST_CALLS:
            return ()
        calls = list(chain.from_iterable(kept))
        routed = self._routes.assign(calls) if self._routes is not None else None
        numbers = np.array(routed or self._division.assign(calls, self._streams))
        ends = np.cumsum([len(one) for one in kept])
        divided = list(zip(kept, np.split(numbers, ends[:-1]), strict=True))
        shares = [[one.chosen(of == number) for one, of in divided] for number in range(self._streams)]
        # All calls in one stream gain nothing, and would cost two commits more than one connection.
        return shares if np.ptp(numbers) else ()

    def _look_at_kept(self) -> None:
        """Begin to route the batch once it is large enough, and the streams are open."""
        assert self._kept is not None
        if self._kept_count < FEWEST_CALLS:
            return
        is_open = self._required_group.is_open
        # Rows in bulk may yet be enough for a COPY.
        if is_open and self._routes is not None and self._kept_count - self._bulk_count >= FEWEST_CALLS:
            self._way = _Way.ROUTED
            for calls in self._kept.copy():
                if self._way is _Way.ROUTED:
                    self._route(calls)
        elif self._kept_count > MOST_CALLS:
            self._send_over_one()

    def _route(self, calls: OrderedCalls) -> None:
        assert self._routes is not None
        for start in range(0, len(calls), _ROUTED_AT_ONCE):
            portion = calls.between(start, start + _ROUTED_AT_ONCE)
            numbers = self._routes.assign(portion)
            if numbers is None:
                self._stop_routing()
                return
            of = np.array(numbers)
            for number in np.unique(of).tolist():
                self._required_group.add(number, portion.chosen(of == number), self.progress)
        if self._kept is not None and self._kept_count > MOST_CALLS:
            self._forget_kept()

    def _stop_routing(self) -> None:
        """Divide this batch, and all later ones, as a whole: keys change, which joins rows of two streams."""
        self._routes = None
        # A key that moves to another stream's row orders two streams. What was routed without that order is undone.
        self._required_group.roll_back()
        if self._kept is None:
            raise BatchUndone
        self._way = _Way.KEPT

    def _forget_kept(self) -> None:
        """Let no call be held in memory: what cannot be routed further on undoes the batch."""
        self._kept = None

    def _send_over_one(self) -> None:
        """Send the batch over one connection from here on."""
        calls, self._kept = self._kept, []
        if self._way is _Way.ROUTED:
            self._required_group.roll_back()
        self._way = _Way.OVER_ONE
        # Routed and no longer in memory: the batch is read from the log again, and sent over one connection then.
        if calls is None:
            raise BatchUndone
        self._single.begin()
        for one in calls:
            self._single.run(one)


def open_delivery(subscription: Subscription, articles: Sequence[Article] = ()) -> Delivery:
    """Connect and take over from any earlier agent. Calls of articles that are not given are sent one by one.

    Raises `ConnectionFailed`, `ReplicationRoleRefused`, `SubscriberUnprepared`, `TriggersUnsent`,
    `PreparedTransactionsLacking`, `TableOwnerNotHeld`, `OwnerTriggersDeferred`, `RowsHidden`.
    """
    return deliver_over(open_agent(subscription), subscription, articles)


def deliver_over(taken: TakenOver, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
    """Deliver over the connection of an agent that has taken over. Raises as `open_delivery`."""
    connection, settings = taken.connection, subscription.settings
    with closed_on_error(connection):
        written = open_written(connection, subscription.subscriber, articles, settings.run_as)
        # A conflict is decided by what the row is when its change arrives: one change after the other, over one
        # connection.
        if settings.detects_conflicts:
            return ConflictDelivery(taken, subscription, articles, written)
        tables = SubscriberTables.read(connection, articles, written)
        kind = PostgresDelivery if settings.streams == 1 else StreamsDelivery
        return kind(taken, subscription, articles, tables, written)
