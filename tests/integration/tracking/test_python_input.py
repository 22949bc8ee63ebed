"""Tracking from Python with what users hold in their hands: texts, None, a handle that nobody keeps."""

from __future__ import annotations

import gc

import pytest

import rowtide
from builders.tracking.tracked_databases import TrackedFile
from rowtide.core.anchors import InvalidAnchor
from rowtide.tracking.errors import NothingTracked, TableToTrackNotFound
from rowtide.tracking.options import PurgeType


def test_an_anchor_may_be_given_as_the_text_that_was_kept(tracked_file: TrackedFile) -> None:
    tracking = rowtide.connect(f"sqlite:///{tracked_file.path}").tracking
    with tracking.changes("t") as first:
        assert list(first) == []
    tracked_file.program.execute("insert into t (id) values (1)")

    with tracking.changes(["t"], str(first.anchor)) as changes:
        assert [change.operation for change in changes] == ["insert"]
    assert tracking.changed_since("t", [1], str(first.anchor))
    for nonsense in ("7", "", 5, object()):
        with pytest.raises(InvalidAnchor):
            tracking.changes("t", nonsense)  # type: ignore[arg-type]


@pytest.mark.parametrize("table", [None, 5, b"t", ["t"]])
def test_what_is_no_name_of_a_table_is_refused(tracked_file: TrackedFile, table: object) -> None:
    tracking = rowtide.connect(f"sqlite:///{tracked_file.path}").tracking
    for use in ("enable_tracking", "disable_tracking", "resume_tracking", "get_tracked"):
        with pytest.raises(TableToTrackNotFound, match=r"there is no table .* that can be tracked"):
            getattr(tracking, use)(table)


def test_tracking_outlives_a_handle_that_nobody_keeps(tracked_file: TrackedFile) -> None:
    tracking = rowtide.connect(f"sqlite:///{tracked_file.path}").tracking
    gc.collect()

    with tracking.transaction():
        pass
    assert [table.name for table in tracking.list_tracked()] == ["t"]


def test_nothing_is_purged_where_nothing_is_tracked(tracked_file: TrackedFile) -> None:
    tracking = rowtide.connect(f"sqlite:///{tracked_file.path}").tracking
    tracking.disable_tracking("t")

    with pytest.raises(NothingTracked):
        tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 1)
