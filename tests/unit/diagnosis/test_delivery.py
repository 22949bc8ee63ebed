from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowtide.diagnosis import CheckResult, State
from rowtide.diagnosis.delivery import check_delivery
from rowtide.replication.distributor.publication_records import Thresholds
from rowtide.replication.status import DeliveryStatus, SubscriptionDelivery

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DELIVERED = SubscriptionDelivery(
    publication="shop",
    subscriber="postgresql://b/shop",
    is_paused=False,
    is_deactivated=False,
    runstatus="succeed",
    comments="All that was committed before is delivered.",
    oldest_waiting=None,
)


def check(**changes: Any) -> CheckResult:
    subscription = replace(DELIVERED, **changes)
    (result,) = check_delivery(DeliveryStatus(NOW, 72 * HOUR, ("shop",), (subscription,)))
    return result


def test_a_subscription_that_lacks_nothing_is_well() -> None:
    assert check().state is State.HEALTHY
    assert check().subject == "subscription shop to postgresql://b/shop"


def test_a_publication_has_thresholds_of_its_own() -> None:
    patient = {"oldest_waiting": NOW - HOUR, "thresholds": Thresholds(latency_s=7200)}
    assert check(**patient).state is State.HEALTHY
    eager = {"oldest_waiting": NOW - 60 * timedelta(seconds=1), "thresholds": Thresholds(latency_s=30)}
    assert "no agent runs: changes wait" in check(**eager).message
    soon = {"oldest_waiting": NOW - HOUR, "thresholds": Thresholds(expiration_percent=1)}
    assert "after 3 days it is deactivated" in check(**soon).message


@pytest.mark.parametrize(
    ("changes", "state", "words", "mend"),
    [
        (
            {"is_deactivated": True},
            State.FAILING,
            "it is deactivated",
            "rowtide replication reinitialize shop --subscriber postgresql://b/shop",
        ),
        (
            {"is_paused": True},
            State.WARNING,
            "it is paused",
            "rowtide replication resume shop --subscriber postgresql://b/shop",
        ),
        (
            {"runstatus": "fail", "comments": "RT-7114: refused. Mend it."},
            State.FAILING,
            "stopped with RT-7114",
            None,
        ),
        ({"runstatus": "retry", "comments": "RT-1101: gone."}, State.WARNING, "tries again after RT-1101: gone;", None),
        ({"runstatus": None}, State.WARNING, "never run", "rowtide replication run"),
        ({"oldest_waiting": NOW - HOUR}, State.WARNING, "no agent runs: changes wait", "rowtide replication run"),
        (
            {"oldest_waiting": NOW - 60 * HOUR},
            State.WARNING,
            "after 3 days it is deactivated",
            "rowtide replication run",
        ),
        ({"oldest_waiting": NOW - 80 * HOUR}, State.FAILING, "changes wait for 3.3 days", "rowtide replication run"),
    ],
)
def test_what_keeps_it_from_being_delivered_is_said(
    changes: dict[str, Any], state: State, words: str, mend: str | None
) -> None:
    result = check(**changes)
    assert result.state is state
    assert words in result.message
    assert mend is None or str(result.remediation) == mend


def test_an_agent_that_runs_is_late_when_changes_wait() -> None:
    at_work = {"delivered_by": "west pid 812"}
    assert check(**at_work, oldest_waiting=NOW - timedelta(seconds=60)).state is State.HEALTHY
    assert "its agent runs on west pid 812, late" in check(**at_work, oldest_waiting=NOW - HOUR).message


def test_a_publication_that_nobody_subscribes_to_is_named() -> None:
    (result,) = check_delivery(DeliveryStatus(NOW, 72 * HOUR, ("shop",), ()))
    assert (result.state, result.message) == (State.HEALTHY, "no subscription to shop")
