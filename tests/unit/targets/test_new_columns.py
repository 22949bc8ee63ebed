"""When a table goes over to a newer instance of its source's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from builders.capture.consumers import NOON
from rowtide.cdc.consumers.consumers import ConsumedInstance, Consumer
from rowtide.cdc.instances import CapturedColumn, Instance, SeenColumn
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn
from rowtide.targets.definitions import Target
from rowtide.targets.hand_over import HandOver, find_hand_overs, translate
from rowtide.targets.options import CURRENT, TargetOptions
from rowtide.targets.table_format import order_renames


def recorded(name: str, *columns: str, source_id: int = 1, seen: tuple[str, ...] = ()) -> RecordedInstance:
    """An instance whose table has columns `seen` now, by default those that are captured."""
    captured = tuple(
        CapturedColumn(column, place, "int", 23, -1, column, is_computed=False, index_ordinal=None)
        for place, column in enumerate(columns, 1)
    )
    instance = Instance(
        capture_instance=name,
        member_id=f"m-{name}",
        database_kind="postgres",
        source_id=source_id,
        source_schema="public",
        source_table="item",
        supports_net_changes=True,
        index_name=None,
        columns=captured,
        seen_columns=tuple(SeenColumn(column, 23, -1) for column in seen or columns),
    )
    return RecordedInstance(instance, ENABLED, CommitLsn(1), None)


def find(
    *known: RecordedInstance, names: tuple[str, ...] = ("old",), copied: bool = True, follows: bool = True, **more: Any
) -> list[HandOver]:
    instances = tuple(ConsumedInstance(name, f"m-{name}") for name in names)
    consumer = Consumer("target:t", instances, timedelta(hours=1), None, None, None, None, NOON, names)
    target = Target("t", "id", CURRENT, TargetOptions(path="/t", follow_columns=follows, **more), consumer, NOON)
    by_name = {one.instance.capture_instance: one for one in known}
    return list(find_hand_overs(target, by_name, CommitLsn(9), lambda _one: copied))


OLD, NEW = recorded("old", "id", "a"), recorded("new", "id", "a", "b")


def test_an_instance_with_more_columns_takes_over_once_copied() -> None:
    assert find(OLD, NEW) == [HandOver(OLD.instance, NEW.instance)]
    assert find(OLD, NEW, copied=False) == []
    assert find(OLD, NEW, follows=False) == []


def test_others_do_not() -> None:
    assert find(OLD, recorded("same", "id", "a")) == []
    assert find(OLD, recorded("other", "id", "a", "b", source_id=2)) == []
    assert find(OLD, NEW, names=("old", "new")) == []
    assert find(OLD, replace(NEW, instance=replace(NEW.instance, role_name="readers"))) == []
    assert find(replace(OLD, instance=replace(OLD.instance, member_id="another")), NEW) == []


def test_dropped_columns_stay_behind() -> None:
    """An instance cannot have them any more; the table has nulls there as of an LSN that it has to be at."""
    before = recorded("old", "id", "a", "b")
    columns = before.instance.columns
    for dropped_at, is_behind in ((9, True), (10, False)):
        gone = (*columns[:2], replace(columns[2], dropped_at=dropped_at))
        old = replace(before, instance=replace(before.instance, columns=gone))
        for name, kind, is_fit in (("c", "int", True), ("b", "int", True), ("B", "text", False)):
            added = replace(columns[2], name=name, lake_name=name, column_id=4, type_text=kind)
            new = recorded("new", "id", "a")
            new = replace(new, instance=replace(new.instance, columns=(*new.instance.columns, added)))
            assert bool(find(old, new)) is (is_behind and is_fit), (dropped_at, name)
        # A column that takes the name of one that was dropped would leave its own values behind in the table.
        renamed = recorded("new", "id", "b")
        more = (*renamed.instance.columns, replace(columns[2], name="d", lake_name="d", column_id=4))
        assert find(old, replace(renamed, instance=replace(renamed.instance, columns=more))) == []


def test_each_newer_instance_takes_the_place_of_one() -> None:
    again = recorded("again", "id", "a")
    assert find(OLD, again, NEW, names=("old", "again")) == [HandOver(OLD.instance, NEW.instance)]


def test_an_instance_with_the_present_names_takes_over() -> None:
    before, after = recorded("old", "id", "a", seen=("id", "b")), recorded("new", "id", "b")
    assert find(before, after) == [HandOver(before.instance, after.instance)]
    # Not the other way round, nor where an expression would no longer find its column.
    assert find(before, after, names=("new",)) == []
    assert find(before, after, columns={"x": "upper(A)"}) == []
    assert find(before, after, apply_as_deletes="a = 'gone'") == []
    assert find(before, after, columns={"x": "upper(aa)"}) != []
    swapped = recorded("new", "id", "b", "a")
    assert find(recorded("old", "id", "a", "b"), swapped) == []


def test_options_go_on_meaning_the_same_columns() -> None:
    change = HandOver(
        recorded("old", "id", "a", "b", "c").instance, recorded("new", "id", "a2", "b2", "c", "a").instance
    )
    options = TargetOptions(
        path="/t",
        except_column_list=("a", "old.c"),
        rename={"old.b": "label", "c": "see"},
        columns={"twice": "1", "old.mine": "2"},
        track_history_column_list=("a", "label", "see"),
        partition_by=("id", "old.label"),
        table_names={"old": "first"},
    )
    alone, beside = translate(options, change, ()), translate(options, change, ("other",))
    # What was omitted stays omitted, and what is new under its name is not.
    assert alone.except_column_list == ("a2", "new.c")
    assert beside.except_column_list == ("new.a2", "other.a", "new.c")
    assert alone.rename == {"new.b2": "label", "c": "see"}
    assert alone.columns == {"twice": "1", "new.mine": "2"}
    assert alone.track_history_column_list == ("a2", "label", "see")
    assert alone.partition_by == ("id", "new.label")
    assert alone.table_names == {"old": "first", "new": "first"}
    assert alone.renamed_columns == {"new": {"a": "a2"}}
    plain = translate(TargetOptions(path="/t"), HandOver(OLD.instance, NEW.instance), ())
    assert plain == TargetOptions(path="/t", table_names={"new": "old"})


def test_columns_get_names_when_these_are_free() -> None:
    assert order_renames({"a": "b", "b": "c"}, ["a", "b", "x"]) == [("b", "c"), ("a", "b")]
    assert order_renames({"a": "b", "b": "c"}, ["a", "c", "x"]) == [("a", "b")]
    assert order_renames({"a": "b", "b": "c"}, ["b", "c", "x"]) == []
    assert order_renames({"a": "b", "b": "a"}, ["a", "b"]) == []
