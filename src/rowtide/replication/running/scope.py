"""Which subscriptions a run delivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.subscribing import SubscriberUnknown, SubscriptionUnknown
from rowtide.replication.targets.kinds import kind_of


@dataclass(frozen=True, slots=True)
class RunScope:
    """The subscriptions of a publication, or of all (None), to some subscribers, by address, or to all (none named)."""

    publication: str | None = None
    subscribers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, publication: str | None, subscribers: Sequence[str]) -> RunScope:
        """Return the scope of subscribers' URLs. Raises `DatabaseKindUnknown`."""
        return cls(publication, frozenset(kind_of(url).address(url) for url in subscribers))

    def includes(self, subscription: Subscription) -> bool:
        """Whether the run delivers a subscription of its publications."""
        return not self.subscribers or subscription.subscriber in self.subscribers

    def require_known(self, present: Sequence[Subscription]) -> None:
        """Require that each named subscriber has a subscription. Raises `SubscriptionUnknown`, `SubscriberUnknown`."""
        unknown = self.subscribers - {subscription.subscriber for subscription in present}
        if unknown and self.publication is not None:
            raise SubscriptionUnknown(self.publication, min(unknown))
        if unknown:
            raise SubscriberUnknown(min(unknown))


EVERYTHING = RunScope()
