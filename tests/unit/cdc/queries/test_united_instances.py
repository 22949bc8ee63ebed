from __future__ import annotations

from dataclasses import replace

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.queries.united_instances import Share, share_out, unite, united_columns
from rowtide.core.lsn import CommitLsn

OLD_LOW, NEW_LOW = CommitLsn(100), CommitLsn(500)
LOWS = [("old", OLD_LOW), ("new", NEW_LOW)]
LAST_OLD = CommitLsn(499)
EARLY, LATE = CommitLsn(200), CommitLsn(900)

OLD = instance("m1", table=source_table([("id", "integer"), ("name", "text"), ("gone", "text")]), name="old")
_LATER = source_table([("id", "integer"), ("label", "text"), ("more", "text"), ("gone", "integer")])
_NUMBERS = (1, 2, 4, 5)
_COLUMNS = tuple(replace(column, number=number) for column, number in zip(_LATER.columns, _NUMBERS, strict=True))
NEW = instance("m2", table=replace(_LATER, columns=_COLUMNS), name="new")


def test_window_is_split_at_the_newer_instance_low_endpoint() -> None:
    assert share_out(LOWS, None, None) == [Share("old", None, LAST_OLD), Share("new", NEW_LOW, None)]
    assert share_out(LOWS, EARLY, LATE) == [Share("old", EARLY, LAST_OLD), Share("new", NEW_LOW, LATE)]


def test_a_window_on_one_side_is_one_instance_s() -> None:
    assert share_out(LOWS, EARLY, LAST_OLD) == [Share("old", EARLY, LAST_OLD)]
    assert share_out(LOWS, None, EARLY) == [Share("old", None, EARLY)]
    assert share_out(LOWS, NEW_LOW, LATE) == [Share("new", NEW_LOW, LATE)]
    assert share_out(LOWS, LATE, None) == [Share("new", LATE, None)]
    assert share_out(LOWS[:1], EARLY, None) == [Share("old", EARLY, None)]


def test_a_window_that_is_none_is_left_to_the_oldest_to_refuse() -> None:
    assert share_out(LOWS, LATE, EARLY) == [Share("old", LATE, EARLY)]
    assert share_out(LOWS, None, CommitLsn(50)) == [Share("old", None, CommitLsn(50))]


def test_share_starts_at_a_moved_low_endpoint() -> None:
    assert share_out([("old", NEW_LOW), ("new", NEW_LOW)], None, None) == [Share("new", NEW_LOW, None)]


def test_renamed_source_column_is_one_column_in_the_union() -> None:
    united = unite([OLD, NEW])
    assert [(column.name, column.type_text) for column in united.columns] == [
        ("id", "integer"),
        ("label", "text"),
        ("more", "text"),
        ("gone", "integer"),
        ("gone_2", "text"),
    ]


def test_an_instance_gives_what_it_has_and_null_for_the_rest() -> None:
    united = unite([OLD, NEW])
    old = united_columns(OLD, united)
    assert old[4:9] == [
        "`id` as `id`",
        "`name` as `label`",
        "cast(null as string) as `more`",
        "cast(null as int) as `gone`",
        "`gone` as `gone_2`",
    ]
    assert "map(1, 1, 2, 2, 3, 5)" in old[-2]
    assert old[-1] == "'old' as `__$capture_instance`"
    assert united_columns(NEW, united)[4:9][-1] == "cast(null as string) as `gone_2`"


def test_one_instance_alone_is_itself() -> None:
    assert unite([OLD]).columns == OLD.columns
