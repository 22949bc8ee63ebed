from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import TRACKED, database, server, table, tracking
from rowtide.diagnosis.postgres.server_facts import RoleFacts
from rowtide.diagnosis.postgres.tracking import BIG_TABLE_BYTES, check_tracking
from rowtide.diagnosis.postgres.tracking_facts import CandidateFacts, Readers, StampFacts, TrackedTableFacts
from rowtide.diagnosis.result import Advice, CheckResult, State
from rowtide.diagnosis.tracked_tables import NO_TOMBSTONES, TrackedFacts, TrackingLoss
from rowtide.tracking.options import StampIndex, Storage, TrackedTable

STAMPS = StampFacts('"public"."t1"', BIG_TABLE_BYTES, None, has_whole_index=True, has_row_index=False)


def tracked(how: TrackedTable = TRACKED, *, loss: TrackingLoss | None = None, **changes: Any) -> TrackedTableFacts:
    base = TrackedFacts(how, loss, NO_TOMBSTONES)
    return replace(TrackedTableFacts(base, source_table(), (), STAMPS, Readers()), **changes)


def candidate(**changes: Any) -> CandidateFacts:
    made = CandidateFacts(
        source_table(), is_trackable=True, has_rowguid=False, can_have_rowguid=True, readers=Readers()
    )
    return replace(made, **changes)


def find(*tables: TrackedTableFacts, **changes: Any) -> list[CheckResult]:
    return list(check_tracking(database(tracking=tracking(is_there=True, tables=tables), **changes)))


def check(made: CandidateFacts, *, is_there: bool = True, **changes: Any) -> list[CheckResult]:
    facts = tracking(is_there=is_there, candidates=(made,))
    return list(check_tracking(database(tracking=facts, **changes)))


def test_where_nothing_is_tracked_nothing_is_said() -> None:
    untouched = tracking(has_commit_times=False, whole_publications=("p",))
    assert list(check_tracking(database(tracking=untouched, server=server(in_recovery=True)))) == []
    assert find(tracked()) == []


def test_a_standby_gives_no_anchors() -> None:
    (result,) = find(tracked(), server=server(in_recovery=True))
    assert (result.state, result.subject) == (State.HEALTHY, "server")
    assert "it gives no anchors" in result.message


def test_without_times_of_commits_their_order_is_that_of_bsns() -> None:
    facts = tracking(is_there=True, has_commit_times=False, tables=(tracked(),))
    (result,) = check_tracking(database(tracking=facts))
    assert str(result.remediation).startswith("alter system set track_commit_timestamp = on;")


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"correlation": 0.49}, True),
        ({"correlation": -0.49}, True),
        ({"correlation": 0.51}, False),
        ({"correlation": None}, False),
        ({"correlation": 0.1, "byte_count": BIG_TABLE_BYTES - 1}, False),
        ({"correlation": 0.1, "has_row_index": True}, False),
    ],
)
def test_scattered_changes_are_noted_in_big_tables_without_index(changes: dict[str, Any], *, is_told: bool) -> None:
    stamps = replace(STAMPS, **changes)
    assert [result.state for result in find(tracked(stamps=stamps))] == [State.HEALTHY] * is_told
    assert find(tracked(replace(TRACKED, index=StampIndex.BTREE), stamps=stamps)) == []


def test_stamps_beside_the_rows_are_not_where_the_rows_go() -> None:
    sent = Readers(("p",), is_captured=True)
    (result,) = find(tracked(readers=sent))
    assert result.state is State.WARNING
    assert find(tracked(replace(TRACKED, storage=Storage.SIDE), readers=sent)) == []


def test_lost_key_with_failing_writes_cannot_be_resumed() -> None:
    loss = TrackingLoss("it has no primary-key any more", None, lacks_key=True)
    (result,) = find(tracked(loss=loss, lost_names=("id",), stamps=None))
    assert result.state is State.FAILING
    assert isinstance(result.remediation, Advice)


def test_before_tracking_only_effects_on_others_are_noted() -> None:
    keyless = candidate(table=source_table(key=()))
    assert check(keyless, is_there=False) == []
    assert [str(result.remediation) for result in check(keyless)] == [
        """rowtide tracking enable '"public"."t1"' --key rowguid"""
    ]
    assert check(candidate(is_trackable=False), is_there=False) == []
    (result,) = check(replace(keyless, readers=Readers(("p",))), is_there=False)
    assert str(result.remediation) == """rowtide tracking enable '"public"."t1"' --key rowguid --storage side"""


def test_rights_are_judged_where_capture_is_not_looked_at() -> None:
    role = RoleFacts("app", may_replicate=False, may_create=False, is_superuser=False)
    others = table(is_owned=False, owner="boss", is_wanted=True)
    both: dict[str, Any] = {"role": role, "tables": (others,)}
    assert check(candidate(), **both) == []
    assert [result.state for result in check(candidate(), wants_capture=False, **both)] == [State.FAILING] * 2
    assert [result.state for result in find(tracked(), wants_capture=False, **both)] == [State.WARNING]
    elsewhere = replace(others, table=source_table(source_id=7))
    assert find(tracked(), wants_capture=False, role=role, tables=(elsewhere,)) == []
