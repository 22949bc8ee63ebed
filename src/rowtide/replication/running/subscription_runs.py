"""The agents of a run, each in a thread of its own: one that fails, waits or is slow holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from rowtide.agents.loop import Agent, run_agent
from rowtide.agents.runs import JobRun, RunOutcome, RunStopped
from rowtide.core.errors import RowtideError
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.context import DeliveryContext
from rowtide.replication.distribution.watchers import DeliveryReport, DroppedTable, SkippedCommand, Trouble
from rowtide.replication.running.agent_history import AgentHistory
from rowtide.replication.running.subscription_agent import SubscriptionAgent

_IDLE_S = 0.1
_IDLE_WHILE_WAITED_FOR_S = 0.03
_STOP_PATIENCE_S = 5.0
_STOPPED = "The agent was stopped."


@dataclass(slots=True)
class _Tended:
    """A subscription's thread, and whether its failure was told."""

    subscription: Subscription
    history: AgentHistory
    run: JobRun
    is_told: bool = False

    def is_restarted(self, now: Subscription) -> bool:
        """Tell whether a run that has ended is followed by another: it was wanted again, or resumed after an error."""
        is_resumed = now.resumptions > self.subscription.resumptions
        return self.run.outcome is RunOutcome.STOPPED or (self.run.outcome is RunOutcome.FAILED and is_resumed)


class SubscriptionRuns:
    """The threads of the subscriptions that are wanted now.

    `target`: each ends by itself when all below this log position is delivered; then an outage is waited out only
    once it has begun. Without it an outage is always waited out: the subscriber was there when it subscribed.
    """

    def __init__(self, context: DeliveryContext, target: int | None) -> None:
        self._context = context
        self._target = target
        self._tended: dict[int, _Tended] = {}
        self._given_up: list[tuple[Subscription, RowtideError]] = []

    def follow(self, wanted: Iterable[Subscription]) -> None:
        """Start what is wanted and was not, stop what no longer is, tell of what has failed.

        What has failed stays so until it is resumed.
        """
        by_id = {subscription.agent_id: subscription for subscription in wanted}
        for agent_id, tended in list(self._tended.items()):
            now = by_id.get(agent_id)
            if now is None:
                tended.run.request_stop()
            if _has_ended(tended) and (now is None or tended.is_restarted(now)):
                del self._tended[agent_id]
        for agent_id, subscription in by_id.items():
            if agent_id not in self._tended:
                history = AgentHistory(self._context.engine, subscription)
                run = JobRun(f"to {subscription.subscriber}", partial(self._work, subscription, history))
                self._tended[agent_id] = _Tended(subscription, history, run)
        self._tell_failures()

    def give_up(self, subscription: Subscription, error: RowtideError) -> None:
        """Tell of a subscription that is not wanted any more since it cannot be delivered."""
        self._given_up.append((subscription, error))
        AgentHistory(self._context.engine, subscription).fail(error)
        self._context.watchers.on_trouble(Trouble(subscription, error, None))

    @property
    def failures(self) -> tuple[tuple[Subscription, Exception], ...]:
        """What has stopped with an error, each with its last."""
        last = {failed.agent_id: (failed, error) for failed, error in (*self._failed, *self._given_up)}
        return tuple(last.values())

    @property
    def _failed(self) -> tuple[tuple[Subscription, Exception], ...]:
        return tuple(
            (tended.subscription, tended.run.error)
            for tended in self._tended.values()
            if tended.run.outcome is RunOutcome.FAILED and tended.run.error is not None
        )

    @property
    def have_ended(self) -> bool:
        """All have delivered what was wanted, or failed."""
        return all(_has_ended(tended) for tended in self._tended.values())

    @property
    def have_all_failed(self) -> bool:
        """There are some, and each has failed."""
        return bool(self.failures) and len(self._failed) == len(self._tended)

    def end(self) -> None:
        """Stop all, and wait a while: who waits for a lock at a subscriber is left, its batch is undone there."""
        for tended in self._tended.values():
            tended.run.request_stop()
        self.wait(_STOP_PATIENCE_S)

    def wait(self, patience_s: float) -> None:
        """Wait until all have ended, or for so long."""
        deadline = time.monotonic() + patience_s
        for tended in self._tended.values():
            tended.run.wait(max(0.0, deadline - time.monotonic()))

    def _tell_failures(self) -> None:
        for tended in self._tended.values():
            error = tended.run.error
            if _has_ended(tended) and error is not None and not tended.is_told:
                tended.is_told = True
                tended.history.fail(error)
                self._context.watchers.on_trouble(Trouble(tended.subscription, error, None))

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
                idle_s=_IDLE_S if self._target is None else _IDLE_WHILE_WAITED_FOR_S,
                has_run=self._target is None,
                on_retry=on_retry,
            )
        except RunStopped:
            history.succeed(_STOPPED)
            raise
        is_delivered = self._target is not None and not run.was_stopped
        history.succeed("All that was committed before is delivered." if is_delivered else _STOPPED)
        return ""

    @contextmanager
    def _open(self, subscription: Subscription, context: DeliveryContext) -> Iterator[Agent]:
        with SubscriptionAgent.open(context, subscription) as agent:
            yield _Aimed(agent, context.stop, self._target)

    def _context_of(self, history: AgentHistory, run: JobRun) -> DeliveryContext:
        """Return the context of one subscription's agent: what it tells is also written in its history."""
        of_all = self._context.watchers

        def on_batch(report: DeliveryReport) -> None:
            history.note_batch(report)
            of_all.on_batch(report)
            # Between batches: a step may have many.
            run.require_wanted()

        def on_skipped(skipped: SkippedCommand) -> None:
            history.go_on(skipped.error)
            of_all.on_skipped(skipped)

        def on_dropped(dropped: DroppedTable) -> None:
            history.go_on(dropped.error)
            of_all.on_dropped(dropped)

        watchers = replace(of_all, on_batch=on_batch, on_skipped=on_skipped, on_dropped=on_dropped)
        return replace(self._context, stop=run.stop, watchers=watchers)


@dataclass(frozen=True, slots=True)
class _Aimed:
    """An agent that ends its run at the target."""

    agent: SubscriptionAgent
    stop: threading.Event
    target: int | None

    def step(self) -> bool:
        worked = self.agent.step()
        reached = self.agent.position
        if self.target is not None and reached is not None and reached.log > self.target:
            self.stop.set()
        return worked


def _has_ended(tended: _Tended) -> bool:
    return tended.run.outcome is not RunOutcome.RUNNING
