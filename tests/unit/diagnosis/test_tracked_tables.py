from __future__ import annotations

from dataclasses import replace

import pytest

from builders.commands.check_facts import TRACKED
from rowtide.core.formats import FormatUnnumbered
from rowtide.diagnosis.result import Advice, State
from rowtide.diagnosis.tracked_tables import (
    MANY_TOMBSTONES,
    NO_TOMBSTONES,
    Tombstones,
    TrackedFacts,
    TrackingLoss,
    check_format,
    check_tracked,
    enable,
    move_beside,
)
from rowtide.tracking.options import StampIndex, Storage, TrackingKeyType, TrackingOptions

WHOLE = TrackedFacts(TRACKED, None, NO_TOMBSTONES)


def test_correctly_tracked_table_has_no_findings() -> None:
    assert list(check_tracked(WHOLE)) == []
    assert list(check_format(None)) == []


@pytest.mark.parametrize(
    ("loss", "mend"),
    [
        (TrackingLoss("a trigger is gone", None), "rowtide tracking resume 'it'\"'\"'s'"),
        (
            TrackingLoss("there is no such table any more", None, is_dropped=True),
            "rowtide tracking disable 'it'\"'\"'s'",
        ),
    ],
)
def test_what_was_lost_is_resumed_and_what_was_dropped_disabled(loss: TrackingLoss, mend: str) -> None:
    (result,) = check_tracked(replace(WHOLE, tracked=replace(TRACKED, name="it's"), loss=loss))
    assert (result.state, result.subject, str(result.remediation)) == (State.FAILING, "table it's", mend)


def test_since_when_it_is_lost_is_reported_where_that_is_known() -> None:
    (result,) = check_tracked(replace(WHOLE, loss=TrackingLoss("a trigger is gone", "2026-01-31 08:00:00")))
    assert result.message.startswith("its tracking is lost, found out at 2026-01-31 08:00:00 UTC: a trigger is gone;")
    (result,) = check_tracked(replace(WHOLE, loss=TrackingLoss("a trigger is gone", None)))
    assert result.message.startswith("its tracking is lost: a trigger is gone;")


def test_without_its_key_a_table_is_not_resumed() -> None:
    (result,) = check_tracked(replace(WHOLE, loss=TrackingLoss("it has no primary-key any more", None, lacks_key=True)))
    assert isinstance(result.remediation, Advice)
    assert "rowtide tracking resume public.t1" in str(result.remediation)


def test_tombstones_are_warned_of_when_a_purge_would_take_many() -> None:
    young = Tombstones(10 * MANY_TOMBSTONES, MANY_TOMBSTONES - 1, 900.0)
    assert list(check_tracked(replace(WHOLE, tombstones=young))) == []
    (result,) = check_tracked(replace(WHOLE, tombstones=Tombstones(300_000, MANY_TOMBSTONES, 90.5)))
    assert result.state is State.WARNING
    assert "300000 tombstones, 100000 of them older than 30 days, the oldest of 90.5 days ago" in result.message
    assert str(result.remediation) == "rowtide tracking purge tombstones public.t1 --days 30"


def test_why_what_is_tracked_is_not_used_is_said() -> None:
    (result,) = check_format(FormatUnnumbered("change tracking", "shop"))
    assert result.state is State.FAILING
    assert 'at "shop" was written before' in result.message


def test_a_printed_command_has_what_is_not_as_usual() -> None:
    assert str(enable("t")) == "rowtide tracking enable t"
    tracked = replace(
        TRACKED, key_type=TrackingKeyType.ROWGUID, options=TrackingOptions.INSERT | TrackingOptions.DELETE
    )
    assert str(move_beside(tracked, '"public"."t1"', StampIndex.BTREE)) == (
        'rowtide tracking disable public.t1 && rowtide tracking enable \'"public"."t1"\' '
        "--key rowguid --options insert,delete --storage side --index btree"
    )
    assert tracked.storage is Storage.ROW
