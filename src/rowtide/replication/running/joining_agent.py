"""The agent of an article that joins a subscription: it copies the article's rows, and delivers until they are level.

Everything else continues meanwhile. Then the subscription's agent attaches the article, between two of its batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.replication.distribution.run_context import (
    DeliveryContext,
)
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.running.subscription_agent import HasFailed, Look, SubscriptionAgent, has_not_failed
from rowtide.replication.subscribing.joining import mark_ready, prepare


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
        level = self._agent.record_if_caught_up()
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
