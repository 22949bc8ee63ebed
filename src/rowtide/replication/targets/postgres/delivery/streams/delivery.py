"""Delivery to a PostgreSQL subscriber over several connections (SQL Server: -SubscriptionStreams).

A batch is divided among streams and committed by all or by none: each prepares its part, then the first is committed,
whose progress row is the decision, then the others. A batch that cannot be divided, is small, or was refused, is sent
over one connection of its own, as with one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from rowtide.core.lsn import Position
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.distribution.calls.batches import Block, ProcedureCall
from rowtide.replication.distribution.delivery import BatchUndone, DeliveryProgress, JoiningArticle
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CommandError
from rowtide.replication.targets.postgres.delivery.delivery import PostgresDelivery
from rowtide.replication.targets.postgres.delivery.modes import FEWEST_AS_COPY, Mode, RowByRow, SetBased
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.streams.division import Division
from rowtide.replication.targets.postgres.delivery.streams.group import StreamGroup, require_prepared
from rowtide.replication.targets.postgres.delivery.streams.rules import Routes, read_rules
from rowtide.replication.targets.postgres.delivery.table_relations import (
    SetPlan,
    SubscriberTables,
    find_edited,
    plan_sets,
)
from rowtide.replication.targets.postgres.recovery import TakenOver
from rowtide.replication.targets.postgres.written_tables import WrittenTables

FEWEST_CALLS = 100
"""A batch of fewer is not divided: it would wait for two commits more than it gains."""
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
            partial(_make_mode, plan_sets(tables, articles)),
            articles=articles,
            edited=find_edited(tables, articles),
        )
        self._group: StreamGroup | None = None
        self._single = PostgresDelivery(taken, subscription, articles, tables, written)
        self._way = _Way.OVER_ONE
        self._kept: list[ProcedureCall] | None = None
        self._block_rows = 0

    @property
    def progress(self) -> DeliveryProgress:
        return self._single.progress

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        """See `Delivery`. With `one_by_one`, and only then, an error names its call, or the call is skipped."""
        self._kept, self._block_rows = [], 0
        if one_by_one:
            self._way = _Way.OVER_ONE
            self._single.begin(one_by_one=True)
        else:
            self._way = _Way.KEPT

    def begin_early(self) -> Callable[[], None] | None:
        """See `Delivery`; over one connection, as any batch that is not kept in memory."""
        self._way, self._kept = _Way.OVER_ONE, None
        return self._single.begin_early()

    def run(self, call: ProcedureCall) -> None:
        if self._way is _Way.OVER_ONE:
            self._single.run(call)
            return
        if not self._division.is_divisible(call):
            self._send_over_one()
            self._single.run(call)
            return
        if self._kept is not None:
            self._kept.append(call)
        if self._way is _Way.ROUTED:
            self._route(call)
        else:
            self._look_at_kept()

    def run_block(self, block: Block) -> None:
        if self._way is _Way.KEPT:
            self._block_rows += len(block.rows)
            if self._block_rows >= FEWEST_AS_COPY:
                # COPY over one connection is faster than calls of several streams.
                self._send_over_one()
        if self._way is _Way.OVER_ONE:
            self._single.run_block(block)
            return
        for call in block.calls():
            self.run(call)

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
        shares: Sequence[Sequence[ProcedureCall]] = ()
        if self._way is _Way.KEPT:
            shares = self._divide(self._kept or ())
            if sum(map(bool, shares)) < 2:
                self._send_over_one()
        self._kept = None
        if self._way is _Way.OVER_ONE:
            return self._single.end(reached)
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

    def _divide(self, calls: Sequence[ProcedureCall]) -> Sequence[Sequence[ProcedureCall]]:
        if len(calls) < FEWEST_CALLS:
            return ()
        routed = self._routes.divide(calls) if self._routes is not None else None
        return routed or self._division.divide(calls, self._streams)

    def _look_at_kept(self) -> None:
        """Begin to route the batch once it is large enough, and the streams are open."""
        assert self._kept is not None
        if len(self._kept) < FEWEST_CALLS:
            return
        is_open = self._required_group.is_open
        # Rows of blocks may yet be enough for a COPY.
        if is_open and self._routes is not None and len(self._kept) - self._block_rows >= FEWEST_CALLS:
            self._way = _Way.ROUTED
            for call in self._kept.copy():
                if self._way is _Way.ROUTED:
                    self._route(call)
        elif len(self._kept) > MOST_CALLS:
            self._send_over_one()

    def _route(self, call: ProcedureCall) -> None:
        assert self._routes is not None
        number = self._routes.find(call)
        if number is None:
            self._stop_routing()
            return
        self._required_group.add(number, call, self.progress)
        if self._kept is not None and len(self._kept) > MOST_CALLS:
            self._forget_kept()

    def _stop_routing(self) -> None:
        """Divide this batch, and all later ones, as a whole: keys change, which joins rows of two streams."""
        self._routes = None
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
        if calls is None:
            raise BatchUndone
        self._single.begin()
        for call in calls:
            self._single.run(call)


def _make_mode(plan: SetPlan, sender: Sender) -> Mode:
    return SetBased(sender, plan) if plan.groups else RowByRow(sender)
