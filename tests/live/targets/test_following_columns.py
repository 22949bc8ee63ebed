"""Targets that follow columns: an instance is made for those that are added or renamed, and ends after its time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.capture.snapshot_machines import Cut
from builders.commands.checks import run_line
from builders.commands.hints import find_runnable
from builders.faults.failpoints import FOLLOWING_FAILPOINTS
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from rowtide.cdc.errors.enabling import TwoInstancesExist
from rowtide.core import failpoints
from rowtide.core.tables import BeforeImages
from rowtide.diagnosis import Code
from rowtide.diagnosis.result import ShellCommand
from rowtide.handle import connect
from rowtide.targets.errors import ColumnsGated, ColumnsLeftOut, ColumnsNotCopied, NewColumnsNotFollowed
from rowtide.targets.options import TargetFormat


def instances(captured: CapturedDatabase) -> list[str]:
    """Return the instances of table item, oldest first."""
    query = (
        "select capture_instance from cdc.change_tables where source_object_id = 'item'::regclass order by object_id"
    )
    return [name for (name,) in captured.execute(query)]


@pytest.fixture
def applied(captured: CapturedDatabase) -> AppliedTargets:
    """Table item is captured with a copy of its two rows."""
    captured.execute("create table item (id int primary key, name text)", "insert into item values (1, 'a'), (2, 'b')")
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    return AppliedTargets(captured)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rounds", [1, 3])
def test_added_columns_come_by_themselves(applied: AppliedTargets, rounds: int) -> None:
    captured, targets = applied.captured, applied.targets
    applied.add("now", "public_item")
    first = targets.apply()["now"].lsn
    for number in range(2, rounds + 2):
        captured.execute(f"alter table item add x{number} int default {number}", f"insert into item values ({number}0)")
        # It continues without the column until the copy is there.
        applied.follow()
        assert instances(captured)[-1] == f"public_item_{number}"
        captured.copy_tables()
        if number > 2:
            # It has the last LSN before it goes over; the copy comes with the next.
            captured.execute(f"update item set name = 'c' where id = {number}0")
            captured.capture()
        targets.apply(spark=captured.spark)
        if number > 2:
            assert len(applied.rows("now", f"public_item_{number}")) == number + 1
            captured.execute(f"update item set name = 'd' where id = {number}0")
            applied.follow()
        assert [(one.instance, one.note) for one in targets.list_targets()] == [(f"public_item_{number}", None)]
        source = [tuple(row) for row in captured.execute("select * from item")]
        assert applied.rows("now", "public_item") == sorted(source, key=repr)
    # What was made has gone with its time, what a user enabled stays.
    assert instances(captured) == ["public_item", f"public_item_{rounds + 1}"]
    if rounds > 1:
        earlier = targets.read("now", "public_item_3", first, spark=captured.spark)
        assert earlier.columns == ["id", "name"]
        captured.execute("update item set x3 = 5 where id = 1")
        applied.follow()
        assert applied.rows("now", "public_item", "id", "x3", where="id = 1") == [(1, 5)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", TargetFormat)
def test_a_history_keeps_its_moments_over_new_columns(applied: AppliedTargets, form: TargetFormat) -> None:
    """It goes over with what it had not applied by then, however long that was."""
    captured, columns = applied.captured, ("id", "name")
    applied.add("past", "public_item", kind="history", format=form)
    applied.follow()

    def change(number: int) -> None:
        captured.execute(
            f"insert into item values ({number}, 'new'), ({number}0, 'new')",
            f"update item set name = name || {number} where id between 3 and 99",
            f"delete from item where id = {number}0",
        )

    change(3)
    captured.execute("alter table item add area text")
    change(4)
    applied.follow()
    change(5)
    captured.copy_tables()
    change(6)
    captured.capture()
    applied.targets.apply(spark=captured.spark)
    change(7)
    applied.follow()
    assert [one.instance for one in applied.targets.list_targets()] == ["public_item_2"]
    rows = applied.targets.read("past", "public_item", spark=captured.spark).collect()
    # The first instance has all changes.
    states = states_by_change(captured, "public_item", ("id",), columns)
    assert found_slices((row.asDict() for row in rows if row["id"] > 2), ("id",), columns) == slices_of(states)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", TargetFormat)
def test_a_copy_does_not_defer_the_drop_of_a_column(applied: AppliedTargets, form: TargetFormat) -> None:
    captured, targets = applied.captured, applied.targets
    applied.add("steps", "public_item", kind="history", format=form)
    applied.add("at_once", "public_item", kind="history", format=form)
    targets.apply(spark=captured.spark)
    captured.execute("insert into item values (3, 'c')", "alter table item drop name", "insert into item values (4)")
    captured.capture()
    targets.apply("steps", spark=captured.spark)
    captured.cdc.resnapshot("item")
    captured.copy_tables()
    captured.execute("insert into item values (5)")
    applied.follow()
    wanted = applied.rows("steps", "public_item")
    assert len(wanted) > len(captured.execute("select from item"))
    assert applied.rows("at_once", "public_item") == wanted


@pytest.mark.exhaustive
def test_columns_are_dropped_renamed_and_added_again(applied: AppliedTargets) -> None:
    captured, targets = applied.captured, applied.targets
    captured.execute("alter table item add spare int default 1, add secret text")
    captured.cdc.enable_table("item", capture_instance="item", snapshot=True)
    captured.copy_tables()
    applied.add("now", "item", except_column_list=("secret",))
    applied.add("past", "item", kind="history", except_column_list=("secret",))
    targets.apply(spark=captured.spark)
    captured.execute(
        "update item set spare = 2 where id = 1",
        "alter table item drop spare, add spare int default 3, add extra int default 4",
        "alter table item rename name to title",
        "alter table item rename secret to private",
        "insert into item values (3, 'c')",
    )
    applied.follow()
    captured.copy_tables()
    targets.apply(spark=captured.spark)
    wanted = sorted(captured.execute("select id, title, spare, extra from item"))
    assert {one.instance for one in targets.list_targets()} == {"item_2"}
    assert applied.rows("now", "item", "id", "title", "spare", "extra") == wanted
    assert applied.rows("past", "item", "id", "title", "spare", "extra", where="is_current") == wanted
    ended = applied.rows("past", "item", "id", "title", "spare", where="not is_current")
    # The values of before the drop, and that there were none between the drop and the copy.
    assert {(1, "a", 1), (1, "a", 2), (2, "b", 1)} <= set(ended)
    for target in ("now", "past"):
        assert "private" not in targets.read(target, "item", spark=captured.spark).columns
    captured.execute("alter table item drop extra, add extra text")
    applied.follow()
    reason = "columns extra of public.item: its table has dropped columns of the same names (extra)"
    for target, note in notes(applied).items():
        assert f"RT-8169: target {target} does not follow the {reason}" in (note or "")
    assert applied.rows("now", "item", "id", "extra") == [(1, None), (2, None), (3, None)]


@pytest.mark.exhaustive
def test_what_is_not_followed_is_said_with_the_command(captured: CapturedDatabase) -> None:
    tables: dict[str, type[NewColumnsNotFollowed] | None] = {"listed": ColumnsLeftOut, "plain": ColumnsLeftOut}
    tables |= {"gated": ColumnsGated, "later": ColumnsNotCopied, "named": NewColumnsNotFollowed}
    tables |= {"less": None, "known": None}
    captured.execute(*(f"create table {name} (id int primary key, a int, b int)" for name in tables))
    captured.cdc.enable_db(str(captured.lake))
    captured.cdc.enable_table("listed", columns=("id", "a"))
    captured.cdc.enable_table("plain", snapshot=False)
    captured.cdc.enable_table("gated", role_name=f"readers_{captured.session.info.dbname}")
    for name in ("later", "named", "less", "known"):
        captured.cdc.enable_table(name, rows_per_second=1000)
    applied = AppliedTargets(captured)
    for name in tables:
        applied.add(name, f"public_{name}", columns={"c": "upper(A)"} if name == "named" else {})
    applied.add("never", "public_known", follow_columns=False)
    captured.capture()
    assert {target: note is not None for target, note in notes(applied).items()} == {
        name: name == "listed" for name in (*tables, "never")
    }
    for name in tables:
        added = {"named": "rename a to d", "less": "drop b", "listed": "drop b, add b int"}.get(name, "add d int")
        captured.execute(f"alter table {name} {added}")
    captured.cdc.enable_table("later", capture_instance="later_2", snapshot=False)
    captured.capture()
    found = notes(applied)
    for name, error in tables.items():
        note = found[name] or ""
        if error is None:
            assert (name, "RT-" in note) == (name, False)
        else:
            assert note.startswith(f"RT-{error.number}: target {name} does not follow the columns"), note
    assert found["known"] == "the owner's next apply makes an instance for columns d"
    assert (found["less"], found["never"]) == (None, None)
    database = connect(captured.url)
    for results in (database.health(), database.check()):
        told = {result.subject for result in results if result.code is Code.TARGET_COLUMNS_UNFOLLOWED}
        assert told == {f"target {name}" for name, note in found.items() if note is not None}
    (named,) = (one for one in database.check("listed") if one.code is Code.TARGET_COLUMNS_UNFOLLOWED)
    assert named.subject == "target listed"
    for name in ("listed", "gated", "later"):
        (printed,) = find_runnable(found[name] or "")
        run_line(ShellCommand(printed), captured.url)
    captured.capture()
    assert {name: notes(applied)[name] for name in ("listed", "gated", "later")} == dict.fromkeys(
        ("listed", "gated", "later")
    )


def _cut(place: str, name: str, _directory: str | None) -> None:
    if name == place:
        raise Cut(name)


def notes(applied: AppliedTargets) -> dict[str, str | None]:
    """Return what is said of each target, of one table each."""
    return {one.target: one.note for one in applied.targets.list_targets()}


def test_an_instance_is_made_once_as_the_first_one_is(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two processes with a target each, of which one ends before; it leaves a user's two instances alone."""
    captured.execute("create table item (id int primary key, name text)", "create table item_2 (id int primary key)")
    captured.cdc.enable_db(str(captured.lake))
    captured.cdc.enable_table("item", rows_per_second=1000, refuses_truncate=True, before_images=BeforeImages.KEY)
    applied = AppliedTargets(captured)
    for name in ("first", "second"):
        applied.add(name, "public_item")
    captured.copy_tables()
    applied.targets.apply()
    captured.execute("alter table item add amount int")
    captured.capture()
    for place, there in zip(FOLLOWING_FAILPOINTS[:2], (1, 2), strict=True):
        monkeypatch.setattr(failpoints, "_find_armed", partial(_cut, place))
        with pytest.raises(Cut):
            connect(captured.url).targets.apply("first")
        monkeypatch.undo()
        assert len(instances(captured)) == there
        if there == 2:
            captured.cdc.disable_table("item", capture_instance="public_item_3")
    both = [connect(captured.url).targets for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda targets, name: targets.apply(name), both, ("first", "second")))
    applied.targets.apply()
    assert instances(captured) == ["public_item", "public_item_3"]
    assert captured.execute(
        "select before_images, refuses_truncate, rows_per_second, state from cdc.change_tables t "
        "join cdc.snapshots s using (member_id) where t.capture_instance = 'public_item_3'"
    ) == [("key", True, 1000, "requested")]
    captured.cdc.enable_table("item", capture_instance="own", snapshot=False)
    with pytest.raises(TwoInstancesExist):
        captured.cdc.enable_table("item", capture_instance="third", snapshot=False)
