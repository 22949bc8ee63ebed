from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowtide.diagnosis import CheckResult, State
from rowtide.diagnosis.merge import MergeFacts, check_merge
from rowtide.merge.status import MergeStatus

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
DEVICE = "sqlite:////devices/field.db"
SYNCHRONISED = MergeStatus(
    publication="shop",
    role="publisher",
    articles=("item",),
    retention_days=14,
    open_conflicts=0,
    subscriber=DEVICE,
    rows_refused=0,
    last_sync=NOW - DAY,
    expires=NOW + 13 * DAY,
    state="succeeded",
)


def check(**changes: Any) -> CheckResult:
    result, _ = check_merge(MergeFacts(NOW, [replace(SYNCHRONISED, **changes)], ()))
    return result


def test_a_subscription_of_yesterday_is_well() -> None:
    assert check().state is State.HEALTHY
    assert check().subject == f"merge subscription shop, {DEVICE}"


@pytest.mark.parametrize(
    ("changes", "state", "words", "mend"),
    [
        ({"state": "waiting"}, State.WARNING, "never been synchronised", "sync"),
        ({"state": "failed", "summary": "RT-8006: busy"}, State.FAILING, "it failed: RT-8006: busy", "sync"),
        ({"last_sync": NOW - 12 * DAY, "expires": NOW + 2 * DAY}, State.WARNING, "it expires in 2 days", "sync"),
        (
            {"last_sync": NOW - 15 * DAY, "expires": NOW - DAY},
            State.FAILING,
            "it expired 24 hours ago",
            "reinitialize",
        ),
    ],
)
def test_what_is_wrong_is_mended_at_the_hub(changes: dict[str, Any], state: State, words: str, mend: str) -> None:
    result = check(**changes)
    assert result.state is state
    assert words in result.message
    assert str(result.remediation).startswith(f"rowtide merge {mend} shop --subscriber {DEVICE}")


def test_a_device_that_keeps_no_times_leaves_them_to_the_hub() -> None:
    device = check(role="subscriber", state="waiting", last_sync=None, expires=None)
    assert (device.state, device.message) == (
        State.HEALTHY,
        "its publisher's health says how its synchronisations stand",
    )
    assert check(role="subscriber", last_sync=None, rows_refused=2).state is State.WARNING


def check_device(**changes: Any) -> list[CheckResult]:
    known = {"device": "tablet", "last_contact": NOW - timedelta(hours=5), "tokens_refused": 3}
    results = check_merge(MergeFacts(NOW, [replace(SYNCHRONISED, **{**known, **changes})], ()))
    return [one for one in results if one.subject == "merge device tablet"]


def test_a_device_that_is_refused_for_hours_needs_a_code() -> None:
    (refused,) = check_device()
    assert (refused.state, str(refused.remediation)) == (State.WARNING, "rowtide merge rotate-token tablet")
    assert refused.message == "its last contact: 5 hours ago; requests refused since then, for their token: 3"
    (never,) = check_device(last_contact=None)
    assert never.message.startswith("its last contact: never;")


@pytest.mark.parametrize("changes", [{"tokens_refused": 0}, {"last_contact": NOW - timedelta(minutes=59)}])
def test_a_device_that_came_back_is_not_warned_of(changes: dict[str, Any]) -> None:
    assert check_device(**changes) == []


def test_rows_that_were_refused_are_warned_of() -> None:
    assert check(rows_refused=2).message == "synchronised 24 hours ago; 2 rows were refused"


def test_open_conflicts_are_reported() -> None:
    assert (check(open_conflicts=3).state, check(open_conflicts=3).message) == (
        State.HEALTHY,
        "synchronised 24 hours ago; 3 conflicts are open",
    )


def test_a_subscription_for_ever_does_not_expire() -> None:
    assert check(retention_days=0, expires=None, last_sync=NOW - 900 * DAY).state is State.HEALTHY


def test_a_table_that_lost_its_triggers_fails() -> None:
    (_, damaged) = check_merge(MergeFacts(NOW, [SYNCHRONISED], (("item", "trigger MSmerge_ins_1 is missing"),)))
    assert (damaged.subject, damaged.state) == ("merge article item", State.FAILING)
