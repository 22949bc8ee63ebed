"""What a run does for its subscriptions: each in its own thread, with agents of articles that join.

At intervals the run expires subscriptions, deletes old history, and removes lost readers from the log store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from rowtide.agents.loop import JobRun, RunOutcome, RunStopped, run_agent
from rowtide.core.errors import RowtideError
from rowtide.replication.distribution.run_context import (
    DeliveryContext,
    DeliveryReport,
    DroppedTable,
    SkippedCommand,
    Trouble,
)
from rowtide.replication.distributor.location import noticing_moves
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced
from rowtide.replication.running.agent_history import AgentHistory
from rowtide.replication.running.joining_agent import JoiningAgent, open_agent
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.snapshot.agent import SnapshotReport

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
