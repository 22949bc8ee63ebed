"""What a run does for its subscriptions: each in its own thread, with agents of articles that join.

At intervals the run expires subscriptions, deletes old history, and removes lost readers from the log store.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from sqlalchemy import Connection, Engine

from rowtide.agents.runs import JobRun, RunOutcome, RunStopped, run_agent
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.log.errors import LeaseHeld
from rowtide.log.store.manifest import Manifest
from rowtide.replication.distribution.run_context import (
    DeliveryContext,
    DeliveryReport,
    DroppedTable,
    SkippedCommand,
    Trouble,
)
from rowtide.replication.distributor import definitions, history, tracers
from rowtide.replication.distributor.definitions import SubscriptionState, noticing_moves
from rowtide.replication.distributor.subscription_records import Subscription, deactivate_expired
from rowtide.replication.errors.delivery import AgentReplaced
from rowtide.replication.publishing.publisher_log import advance_placeholder
from rowtide.replication.running.agent_history import AgentHistory
from rowtide.replication.running.subscription_agent import HasFailed, Look, SubscriptionAgent, has_not_failed
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.subscribing.joining import mark_ready, prepare
from rowtide.replication.subscribing.readers import remove_lost_readers

# The agent of an article that joins a subscription: it copies the article's rows, and delivers until they are level.
# Everything else continues meanwhile. Then the subscription's agent attaches the article, between two of its batches.


class JoiningAgent:
    """An agent of a subscription that joins another; made by `open`."""

    def __init__(self, context: DeliveryContext, subscription: Subscription, held: ExitStack) -> None:
        self._context = context
        self._subscription = subscription
        self._held = held
        self._agent: SubscriptionAgent | None = None
        self._ready_at: Position | None = None

    @classmethod
    @contextmanager
    def open(cls, context: DeliveryContext, subscription: Subscription) -> Iterator[JoiningAgent]:
        """Open the agent; its first step prepares the subscriber."""
        with ExitStack() as held:
            yield cls(context, subscription, held)

    @property
    def position(self) -> Position | None:
        """Everything below is delivered; None until the article is ready to join, after which nothing is."""
        return self._ready_at

    def step(self) -> bool:
        """Do one piece of work; return whether there was any. Raises as `SubscriptionAgent`, and as `prepare`."""
        if self._ready_at is not None:
            return False
        if self._agent is None:
            if not prepare(self._context.engine, self._context.url, self._subscription):
                return False
            self._agent = self._held.enter_context(SubscriptionAgent.open(self._context, self._subscription))
        worked = self._agent.step()
        level = self._agent.record_if_level()
        if level is not None:
            self._held.close()
            failpoint("article_readiness.before")
            mark_ready(self._context.engine, self._subscription, level)
            failpoint("article_readiness.after")
            self._ready_at = level
        return worked


@contextmanager
def open_agent(
    context: DeliveryContext, subscription: Subscription, look: Look = tuple, has_failed: HasFailed = has_not_failed
) -> Iterator[SubscriptionAgent | JoiningAgent]:
    """Open the agent of a subscription, or of an article that joins one."""
    if subscription.joins is not None:
        with JoiningAgent.open(context, subscription) as joining:
            yield joining
    else:
        with SubscriptionAgent.open(context, subscription, look, has_failed) as agent:
            yield agent


_STOPPED = "The agent was stopped."


class OtherRuns(Protocol):
    """What the run of one subscription knows of the others of its process."""

    @property
    def present(self) -> Sequence[Subscription]:
        """The subscriptions that were recorded lately, of the run or not."""

    def has_failed(self, subscription: Subscription) -> bool:
        """Whether a subscription's run has ended with an error."""

    def awaits_joining(self, agent_id: int) -> bool:
        """Whether articles are about to join a subscription."""

    def note_rejected(self, subscription: Subscription, error: RowtideError) -> None:
        """Count a subscription among those that stay stopped."""


class SubscriptionRun(JobRun):
    """One run of a subscription's agent, in its own thread; it starts when it is created.

    `target`: it ends when all below this log position is delivered; an outage is then waited out only if the
    subscriber was reached before. Without a target an outage is always waited out: the subscriber was reached when
    it was added.
    """

    def __init__(
        self,
        context: DeliveryContext,
        subscription: Subscription,
        others: OtherRuns,
        *,
        target: int | None,
        idle_s: float,
    ) -> None:
        self.subscription = subscription
        self.history = AgentHistory(context.engine, subscription)
        self._context = context
        self._others = others
        self._target = target
        self._idle_s = idle_s
        self._agent: SubscriptionAgent | JoiningAgent | None = None
        self._is_reported = False
        super().__init__(f"to {subscription.subscriber}", self._deliver)

    @property
    def has_ended(self) -> bool:
        """Whether it has delivered what was wanted, was stopped, or has failed."""
        return self.outcome is not RunOutcome.RUNNING

    def is_followed(self, now: Subscription) -> bool:
        """Whether another run follows this one, which has ended.

        The subscription was wanted again, or resumed after an error, or another process had taken over meanwhile: while
        this one could not reach the distribution database, say. An article that was ready to join is wanted again if it
        has to deliver more before, and a subscription for an article that joins since.
        """
        is_resumed = now.resumptions > self.subscription.resumptions
        match self.outcome:
            case RunOutcome.STOPPED:
                return True
            case RunOutcome.FAILED:
                return is_resumed or isinstance(self.error, AgentReplaced)
            case RunOutcome.SUCCEEDED:
                return now.joins is not None or self._others.awaits_joining(now.agent_id)
            case _:
                return False

    def report_failure(self) -> None:
        """Report once that it has failed, if it has."""
        if self.has_ended and self.error is not None and not self._is_reported:
            self._is_reported = True
            self.history.fail(self.error)
            self._context.watchers.on_trouble(Trouble(self.subscription, self.error, None))

    def report_replaced(self, now: Subscription) -> None:
        """Report that another process took over the subscription, which is now delivered here again."""
        if isinstance(self.error, AgentReplaced):
            self.history.retry(self.error)
            self._context.watchers.on_trouble(Trouble(now, self.error, 0.0))

    def _deliver(self, _run: JobRun) -> str:
        context = self._reporting()
        self.history.start()
        try:
            run_agent(
                partial(self._open, context),
                stop=self.stop,
                idle_s=self._idle_s,
                has_run=self._target is None,
                on_retry=self._on_retry,
                reports_itself=True,
                on_step=self._end_at_target,
            )
        except RunStopped:
            self.history.succeed(_STOPPED)
            raise
        is_delivered = self._target is not None and not self.was_stopped
        self.history.succeed("All that was committed before is delivered." if is_delivered else _STOPPED)
        return ""

    def _on_retry(self, error: RowtideError, pause_s: float) -> None:
        self._agent = None
        self.count_retry(error)
        self.history.retry(error)
        self._context.watchers.on_trouble(Trouble(self.subscription, error, pause_s))

    @contextmanager
    def _open(self, context: DeliveryContext) -> Iterator[SubscriptionAgent | JoiningAgent]:
        opened = open_agent(context, self.subscription, lambda: self._others.present, self._others.has_failed)
        with noticing_moves(), opened as self._agent:
            yield self._agent

    def _end_at_target(self) -> None:
        if self._has_all():
            self.stop.set()

    def _has_all(self) -> bool:
        """Whether the agent has done all that is wanted; a joining article's has once it is ready.

        What was committed before the run may be copied after it: then the copy has to be whole, too.
        """
        reached = None if self._agent is None else self._agent.position
        if reached is None or isinstance(self._agent, JoiningAgent):
            return reached is not None
        is_reached = self._target is not None and reached.log > self._target
        is_past_copy = self._agent is not None and self._agent.is_past_copy
        return is_reached and is_past_copy and not self._others.awaits_joining(self.subscription.agent_id)

    def _reporting(self) -> DeliveryContext:
        """Return the agent's context: what it reports is also written to its history."""
        of_all, history = self._context.watchers, self.history

        def on_batch(report: DeliveryReport) -> None:
            history.note_batch(report)
            of_all.on_batch(report)
            # Between batches: a step may have many.
            self.require_wanted()

        def on_snapshot(report: SnapshotReport) -> None:
            history.note_copy(report)
            of_all.on_snapshot(report)

        def on_skipped(skipped: SkippedCommand) -> None:
            history.record_and_resume(skipped.error)
            of_all.on_skipped(skipped)

        def on_dropped(dropped: DroppedTable) -> None:
            history.record_and_resume(dropped.error)
            of_all.on_dropped(dropped)

        def on_trouble(trouble: Trouble) -> None:
            # Of an article that it rejects.
            if trouble.pause_s is None and isinstance(trouble.error, RowtideError):
                self._others.note_rejected(trouble.subscription, trouble.error)
            of_all.on_trouble(trouble)

        watchers = replace(
            of_all,
            on_batch=on_batch,
            on_trouble=on_trouble,
            on_snapshot=on_snapshot,
            on_skipped=on_skipped,
            on_dropped=on_dropped,
        )
        return replace(self._context, stop=self.stop, watchers=watchers)


# What a run of replication does at intervals: it deactivates expired subscriptions and deletes old history. It
# removes lost readers from the log store, and advances its placeholder reader.

_CLEANUP_S = 600.0
_EXPIRY_S = 60.0
_READERS_S = 10.0
_ROWS_FORGOTTEN = 1000


class Upkeep:
    """The work of a run at intervals, and when each is due next; over the run's connection to the publisher."""

    def __init__(self, engine: Engine, manifest: Manifest) -> None:
        self._engine = engine
        self._manifest = manifest
        self._began = time.monotonic()
        self._next_cleanup = 0.0
        self._next_expiry = 0.0
        self._next_readers = 0.0

    def deactivate_expired(
        self, connection: Connection, present: Iterable[Subscription], failed: Set[int], *, is_last: bool
    ) -> Sequence[Subscription]:
        """Deactivate expired subscriptions, and return them; at intervals, unless this is the run's last look.

        After a pause of all, those that can be delivered, and have not `failed`, first get time to catch up.
        """
        if not is_last and time.monotonic() < self._next_expiry:
            return ()
        is_early = time.monotonic() < self._began + _EXPIRY_S
        expirable = [
            subscription
            for subscription in present
            if not is_early or subscription.state is SubscriptionState.INACTIVE or subscription.agent_id in failed
        ]
        expired = deactivate_expired(connection, self._manifest, expirable, read_server_time(connection))
        self._next_expiry = time.monotonic() + _EXPIRY_S
        return list(expired)

    def forget_old(self, connection: Connection) -> None:
        """Forget old history, and what the log store needs no longer."""
        self._forget_old_history(connection)
        self._keep_log_store_small(connection)

    def _keep_log_store_small(self, connection: Connection) -> None:
        """Remove lost readers and advance the placeholder, at intervals: each may be a manifest entry."""
        if time.monotonic() < self._next_readers:
            return
        self._next_readers = time.monotonic() + _READERS_S
        remove_lost_readers(connection, self._manifest)
        # The source is being made or removed: the next step tries again.
        with suppress(LeaseHeld):
            advance_placeholder(self._engine, self._manifest)

    def _forget_old_history(self, connection: Connection) -> None:
        """Delete in portions: after a long pause there may be many rows."""
        if time.monotonic() >= self._next_cleanup and definitions.is_made(connection):
            now = datetime.now(UTC)
            has_more = [kind.forget_old(connection, now, limit=_ROWS_FORGOTTEN) for kind in (history, tracers)]
            self._next_cleanup = time.monotonic() + (0 if any(has_more) else _CLEANUP_S)
