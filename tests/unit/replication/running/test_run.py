"""Which subscriptions a run is for."""

from __future__ import annotations

import pytest

from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.subscribing import SubscriberUnknown, SubscriptionUnknown
from rowtide.replication.running.run import EVERYTHING, RunScope

KNOWN = Subscription(1, "shop", "postgresql://west/copy", "guid", {})
OTHER = Subscription(2, "shop", "postgresql://east/copy", "guid", {})


def test_run_is_for_all_unless_subscribers_are_named() -> None:
    assert EVERYTHING.includes(KNOWN)
    named = RunScope.of(None, ["postgresql://west/copy"])
    assert [named.includes(KNOWN), named.includes(OTHER)] == [True, False]


def test_subscriber_without_a_subscription_is_refused() -> None:
    RunScope.of("shop", [KNOWN.subscriber]).require_known([KNOWN])
    with pytest.raises(SubscriptionUnknown, match="east/copy has no subscription to publication shop"):
        RunScope.of("shop", [OTHER.subscriber]).require_known([KNOWN])
    with pytest.raises(SubscriberUnknown, match="east/copy subscribes to no publication"):
        RunScope.of(None, [OTHER.subscriber]).require_known([KNOWN])
