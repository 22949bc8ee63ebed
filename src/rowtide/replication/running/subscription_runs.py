"""The agents of a run, each in its own thread, and those of articles that join."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from rowtide.agents.runs import Agent, JobRun, RunOutcome, RunStopped, run_agent
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.distribution.watchers import (
    DeliveryContext,
    DeliveryReport,
    DroppedTable,
    SkippedCommand,
    Trouble,
)
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.location import noticing_moves
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced
from rowtide.replication.running.agent_history import AgentHistory
from rowtide.replication.running.subscription_agent import HasFailed, Look, SubscriptionAgent, has_not_failed
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.subscribing.joining import mark_ready, prepare

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


IDLE_S = 0.03
IDLE_AT_BUCKET_S = 0.1
"""Each look at a log store in a bucket is a request that is paid for."""
_STOP_PATIENCE_S = 5.0
_STOPPED = "The agent was stopped."


@dataclass(slots=True)
class _SubscriptionThread:
    """A subscription's thread, and whether its failure was reported."""

    subscription: Subscription
    history: AgentHistory
    run: JobRun
    is_reported: bool = False

    def is_restarted(self, now: Subscription) -> bool:
        """Tell whether a run that has ended is followed by another.

        It was wanted again, or resumed after an error, or another process had taken over meanwhile: while this one
        could not reach the distribution database, say. An article that was ready to join is wanted again if it has to
        deliver more before.
        """
        is_resumed = now.resumptions > self.subscription.resumptions
        match self.run.outcome:
            case RunOutcome.STOPPED:
                return True
            case RunOutcome.FAILED:
                return is_resumed or isinstance(self.run.error, AgentReplaced)
            case RunOutcome.SUCCEEDED:
                return now.joins is not None
            case _:
                return False


class SubscriptionRuns:
    """The threads of the subscriptions that are wanted now.

    `target`: each thread ends when all below this log position is delivered; an outage is then waited out only if the
    subscriber was reached before. Without a target an outage is always waited out: the subscriber was reached when
    it was added.
    """

    def __init__(self, context: DeliveryContext, target: int | None, *, idle_s: float = IDLE_S) -> None:
        self._context = context
        self._target = target
        self._idle_s = idle_s
        self._threads: dict[int, _SubscriptionThread] = {}
        self._given_up: list[tuple[Subscription, RowtideError]] = []
        self._present: tuple[Subscription, ...] = ()
        self._awaiting: frozenset[int] = frozenset()

    def follow(self, wanted: Iterable[Subscription], present: Sequence[Subscription]) -> None:
        """Start what is wanted of all that is present and was not, stop what no longer is, report what has failed.

        What has other settings now is stopped and started. What has failed stays so until it is resumed.
        """
        by_id = {subscription.agent_id: subscription for subscription in wanted}
        self._present = tuple(present)
        self._awaiting = frozenset(self._find_awaiting(by_id))
        for agent_id, thread in list(self._threads.items()):
            now = by_id.get(agent_id)
            if now is None or now.settings != thread.subscription.settings:
                thread.run.request_stop()
            if _has_ended(thread) and (now is None or self._is_restarted(thread, now)):
                self._report_replaced(thread, now)
                del self._threads[agent_id]
        for agent_id, subscription in by_id.items():
            if agent_id not in self._threads:
                history = AgentHistory(self._context.engine, subscription)
                run = JobRun(f"to {subscription.subscriber}", partial(self._work, subscription, history))
                self._threads[agent_id] = _SubscriptionThread(subscription, history, run)
        self._report_failures()

    def is_over(self, subscription: Subscription) -> bool:
        """Whether its agent has delivered what was wanted, or failed and was not resumed."""
        thread = self._threads.get(subscription.agent_id)
        return thread is not None and _has_ended(thread) and not self._is_restarted(thread, subscription)

    def report_stopped(self, subscription: Subscription, error: RowtideError) -> None:
        """Report a subscription that stays stopped because it cannot be delivered."""
        self._given_up.append((subscription, error))
        AgentHistory(self._context.engine, subscription).fail(error)
        self._context.watchers.on_trouble(Trouble(subscription, error, None))

    @property
    def at_work(self) -> frozenset[int]:
        """The agents that have not ended."""
        return frozenset(agent_id for agent_id, thread in self._threads.items() if not _has_ended(thread))

    @property
    def failures(self) -> tuple[tuple[Subscription, Exception], ...]:
        """What has stopped with an error, each with its last."""
        last = {failed.agent_id: (failed, error) for failed, error in (*self._failed, *self._given_up)}
        return tuple(last.values())

    @property
    def _failed(self) -> tuple[tuple[Subscription, Exception], ...]:
        return tuple(
            (thread.subscription, thread.run.error)
            for thread in self._threads.values()
            if thread.run.outcome is RunOutcome.FAILED and thread.run.error is not None
        )

    @property
    def have_ended(self) -> bool:
        """All have delivered what was wanted, or failed."""
        return all(_has_ended(thread) for thread in self._threads.values())

    @property
    def have_all_failed(self) -> bool:
        """There are some, and each has failed."""
        return bool(self.failures) and len(self._failed) == len(self._threads)

    def end(self) -> None:
        """Stop all and wait briefly; a thread that waits for a lock is left, and its batch rolls back."""
        for thread in self._threads.values():
            thread.run.request_stop()
        self.wait(_STOP_PATIENCE_S)

    def wait(self, patience_s: float) -> None:
        """Wait until all have ended, or for a timeout."""
        deadline = time.monotonic() + patience_s
        for thread in self._threads.values():
            thread.run.wait(max(0.0, deadline - time.monotonic()))

    def _report_replaced(self, thread: _SubscriptionThread, now: Subscription | None) -> None:
        """Report that another process took over a subscription which is now delivered here again."""
        error = thread.run.error
        if now is not None and isinstance(error, AgentReplaced):
            thread.history.retry(error)
            self._context.watchers.on_trouble(Trouble(now, error, 0.0))

    def _is_restarted(self, thread: _SubscriptionThread, now: Subscription) -> bool:
        """Whether an agent that has ended is wanted again, for an article that joins since, say."""
        is_awaiting = thread.run.outcome is RunOutcome.SUCCEEDED and now.agent_id in self._awaiting
        return is_awaiting or thread.is_restarted(now)

    def _find_awaiting(self, wanted: Mapping[int, Subscription]) -> Iterator[int]:
        """Yield the subscriptions that articles are about to join."""
        failed = {subscription.agent_id for subscription, _ in self._failed}
        for one in self._present:
            is_worked_on = one.agent_id in wanted and one.agent_id not in failed
            if one.joins is not None and (is_worked_on or one.state is SubscriptionState.READY):
                yield one.joins

    def _report_failures(self) -> None:
        for thread in self._threads.values():
            error = thread.run.error
            if _has_ended(thread) and error is not None and not thread.is_reported:
                thread.is_reported = True
                thread.history.fail(error)
                self._context.watchers.on_trouble(Trouble(thread.subscription, error, None))

    def _work(self, subscription: Subscription, history: AgentHistory, run: JobRun) -> str:
        def on_retry(error: RowtideError, pause_s: float) -> None:
            run.count_retry(error)
            history.retry(error)
            self._context.watchers.on_trouble(Trouble(subscription, error, pause_s))

        history.start()
        try:
            run_agent(
                partial(self._open, subscription, self._context_of(history, run)),
                stop=run.stop,
                idle_s=self._idle_s,
                has_run=self._target is None,
                on_retry=on_retry,
                reports_itself=True,
            )
        except RunStopped:
            history.succeed(_STOPPED)
            raise
        is_delivered = self._target is not None and not run.was_stopped
        history.succeed("All that was committed before is delivered." if is_delivered else _STOPPED)
        return ""

    @contextmanager
    def _open(self, subscription: Subscription, context: DeliveryContext) -> Iterator[Agent]:
        opened = open_agent(context, subscription, lambda: self._present, self._has_failed)
        with noticing_moves(), opened as agent:
            yield _UntilTarget(agent, context.stop, partial(self._has_all, subscription.agent_id, agent))

    def _has_failed(self, subscription: Subscription) -> bool:
        thread = self._threads.get(subscription.agent_id)
        return thread is not None and thread.run.outcome is RunOutcome.FAILED

    def _has_all(self, agent_id: int, agent: SubscriptionAgent | JoiningAgent) -> bool:
        """Whether an agent has done all that is wanted; a joining article's has once it is ready.

        What was committed before the run may be copied after it: then the copy has to be whole, too.
        """
        reached = agent.position
        if reached is None or isinstance(agent, JoiningAgent):
            return reached is not None
        is_reached = self._target is not None and reached.log > self._target
        return is_reached and agent.is_past_copy and agent_id not in self._awaiting

    def _context_of(self, history: AgentHistory, run: JobRun) -> DeliveryContext:
        """Return the context of one subscription's agent: what it reports is also written to its history."""
        of_all = self._context.watchers

        def on_batch(report: DeliveryReport) -> None:
            history.note_batch(report)
            of_all.on_batch(report)
            # Between batches: a step may have many.
            run.require_wanted()

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
                self._given_up.append((trouble.subscription, trouble.error))
            of_all.on_trouble(trouble)

        watchers = replace(
            of_all,
            on_batch=on_batch,
            on_trouble=on_trouble,
            on_snapshot=on_snapshot,
            on_skipped=on_skipped,
            on_dropped=on_dropped,
        )
        return replace(self._context, stop=run.stop, watchers=watchers)


@frozen
class _UntilTarget:
    """An agent that ends its run at a position."""

    agent: SubscriptionAgent | JoiningAgent
    stop: threading.Event
    is_over: Callable[[], bool]

    def step(self) -> bool:
        worked = self.agent.step()
        if self.is_over():
            self.stop.set()
        return worked


def _has_ended(thread: _SubscriptionThread) -> bool:
    return thread.run.outcome is not RunOutcome.RUNNING
