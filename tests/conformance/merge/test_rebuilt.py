"""Tables of subscribers that a program rebuilt, as migrations do: triggers are gone, and sometimes the rowguids."""

from __future__ import annotations

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.errors.subscribing import TablesUnfit
from rowtide.merge.publishing.exchange_requests import Recovered

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)"
COLUMNS = "id, name, qty"
REBUILDS = {
    "with rowguids": "id integer primary key, name varchar(20), qty integer, rowguid {guid}",
    "in another order": "rowguid {guid}, qty integer, name varchar(20), id integer primary key",
    "without rowguids": "id integer primary key, name varchar(20), qty integer",
}


def begin(merged: Merge, **options: object) -> Member:
    """One table with four rows, synchronised; return the first subscriber."""
    merged.begin(ITEM, ROWS, item=options)
    merged.settle(1)
    return merged.subscribers[0]


def rebuild(member: Member, definition: str) -> None:
    """Copy the table as SQLite's documentation advises, and an application's migration does."""
    guid = "text" if isinstance(member, FileMember) else "uuid"
    definition = definition.format(guid=guid)
    names = ", ".join(column.split()[0] for column in definition.split(", "))
    member.execute(
        f"create table item_new ({definition})",
        f"insert into item_new ({names}) select {names} from item",
        "drop table item",
        "alter table item_new rename to item",
    )


def recover(merged: Merge, *, absent_is_delete: bool = False) -> list[Recovered]:
    """Reinitialize the first subscriber, uploading first; return what was found."""
    found: list[Recovered] = []
    url = merged.subscribers[0].url
    with pytest.raises(MergedTableAltered, match="--upload-first"):
        merged.sync()
    merged.merge.reinitialize(
        PUBLICATION, url, upload_first=True, absent_is_delete=absent_is_delete, on_recovered=found.append
    )
    return found


def require_at_rest(merged: Merge, rows: list[tuple[object, ...]]) -> None:
    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    assert merged.hub.rows("item", COLUMNS) == rows
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param(definition, id=name, marks=() if name == "without rowguids" else pytest.mark.exhaustive)
        for name, definition in REBUILDS.items()
    ],
)
def test_work_in_a_rebuilt_table_is_uploaded(merged: Merge, definition: str) -> None:
    device = begin(merged)
    device.execute("update item set qty = 20 where id = 2")
    rebuild(device, definition)
    device.execute("update item set name = 'own' where id = 1", "insert into item (id, name) values (5, 'new')")
    merged.hub.execute("update item set name = 'hub' where id = 3", "delete from item where id = 4")
    (found,) = recover(merged)

    # What was changed before the rebuild is known as a change too, of all columns by now.
    assert (found.changed, found.inserted, found.conflicts) == (2, 1, 0)
    require_at_rest(merged, [(1, "own", 1), (2, "b", 20), (3, "hub", 3), (5, "new", None)])
    assert merged.conflicts() == []


SCHEMA_CHANGES = {
    "added": "alter table item add column price integer default 7",
    "dropped": "alter table item drop column qty",
    "renamed": "alter table item rename column qty to amount",
}


@pytest.mark.parametrize("change", SCHEMA_CHANGES)
def test_work_after_a_schema_change_is_uploaded(merged: Merge, change: str) -> None:
    """What was exchanged before the change is known by the columns that the rows have now."""
    device = begin(merged)
    device.execute("delete from item where id = 4")
    merged.settle(1)
    merged.hub.execute(SCHEMA_CHANGES[change])
    merged.settle(1)
    changed = {"added": "qty integer, price integer", "dropped": "", "renamed": "amount integer"}[change]
    rebuild(device, ", ".join(filter(None, ["id integer primary key, name varchar(20)", changed, "rowguid {guid}"])))
    device.execute("update item set name = 'own' where id = 1", "delete from item where id = 3")
    merged.hub.execute("update item set name = 'hub' where id = 2")
    (found,) = recover(merged, absent_is_delete=True)

    assert (found.changed, found.inserted, found.missing, found.conflicts) == (1, 0, 1, 0)
    merged.settle()
    merged.require_equal("item", columns="id, name")
    assert merged.hub.rows("item", "id, name") == [(1, "own"), (2, "hub")]


@pytest.mark.parametrize("is_named", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_device_rebuilds_as_the_publisher_alters(merged: Merge, is_named: bool) -> None:  # noqa: FBT001
    """Following a schema change makes triggers again: what was changed without them is not lost, and not lost first."""
    device = begin(merged)
    rebuild(device, REBUILDS["with rowguids" if is_named else "in another order"])
    device.execute("update item set name = 'own' where id = 1", "insert into item (id, name) values (5, 'new')")
    merged.hub.execute("alter table item add column price integer default 7", "delete from item where id = 4")
    (found,) = recover(merged)

    assert (found.changed, found.inserted) == (1, 1)
    merged.settle()
    merged.require_equal("item", columns=f"{COLUMNS}, price")
    assert merged.hub.rows("item", "id, name") == [(1, "own"), (2, "b"), (3, "c"), (5, "new")]


def test_what_lacks_rowguids_is_copied_as_it_is_altered(merged: Merge) -> None:
    device = begin(merged)
    rebuild(device, REBUILDS["without rowguids"])
    merged.hub.execute("alter table item add column price integer default 7")
    merged.merge.reinitialize(PUBLICATION, device.url)

    merged.settle(1)
    merged.require_equal("item", columns=f"{COLUMNS}, price")


@pytest.mark.parametrize(
    "definition",
    [
        "id integer primary key, name varchar(30), qty integer, rowguid {guid}",
        pytest.param("id integer primary key, name varchar(30), qty integer", marks=pytest.mark.exhaustive),
    ],
)
def test_a_table_that_the_publisher_rebuilt_is_noticed(merged: Merge, definition: str) -> None:
    """Also where it has another definition, which alone would be a schema change."""
    device = begin(merged)
    rebuild(merged.hub, definition)
    merged.hub.execute(
        "update item set name = 'hub' where id = 2", "insert into item (id) values (5)", "delete from item where id = 3"
    )
    device.execute("update item set qty = 10 where id = 1")
    with pytest.raises(MergedTableAltered, match="of the publisher was altered: .*trigger"):
        merged.sync()
    with pytest.raises(MergedTableAltered, match="of the publisher was altered"):
        merged.sync(1)

    merged.merge.reinitialize(PUBLICATION, merged.subscribers[0].url, upload_first=True)
    merged.merge.reinitialize(PUBLICATION, merged.subscribers[1].url)
    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    expected = [(2, "hub", 2), (4, "d", 4), (5, None, None)]
    if "{guid}" in definition:
        assert merged.hub.rows("item", COLUMNS) == [(1, "a", 10), *expected]
    else:
        # What a device changed of a row that is another one now is kept as a conflict, if it is not at the publisher.
        assert merged.hub.rows("item", COLUMNS)[1:] == expected


@pytest.mark.exhaustive
def test_both_sides_changes_of_a_row_are_a_conflict(merged: Merge) -> None:
    device = begin(merged)
    rebuild(device, REBUILDS["with rowguids"])
    device.execute("update item set name = 'own' where id = 1", "update item set name = 'own' where id = 2")
    merged.hub.execute("update item set name = 'hub' where id = 1", "delete from item where id = 2")
    recover(merged)

    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    assert len(merged.conflicts()) == 2
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
def test_missing_rows_come_back_unless_they_are_deletes(merged: Merge) -> None:
    device = begin(merged)
    rebuild(device, REBUILDS["with rowguids"])
    device.execute("delete from item where id > 2")
    merged.hub.execute("insert into item (id, name) values (9, 'later')")
    (found,) = recover(merged)
    assert (found.missing, "2 missing, copied again" in str(found)) == (2, True)
    assert [row[0] for row in device.rows("item", "id")] == [1, 2, 3, 4, 9]

    rebuild(device, REBUILDS["with rowguids"])
    device.execute("delete from item where id > 2")
    merged.hub.execute("insert into item (id, name) values (10, 'later')")
    (found,) = recover(merged, absent_is_delete=True)
    assert "3 deleted" in str(found)
    require_at_rest(merged, [(1, "a", 1), (10, "later", None), (2, "b", 2)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("gone", ["drop table item", "alter table item rename to old_item"])
def test_a_table_that_is_gone_is_made_again(merged: Merge, gone: str) -> None:
    device = begin(merged)
    device.execute(gone)
    (found,) = recover(merged)

    assert (found.damage, found.missing) == ("it is not there", 4)
    require_at_rest(merged, [(1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", 4)])


@pytest.mark.exhaustive
def test_a_recreated_table_with_fewer_rows_loses_nothing(merged: Merge) -> None:
    device = begin(merged)
    device.execute("drop table item", ITEM, "insert into item values (1, 'a', 1), (2, 'own', 2), (7, 'new', 7)")
    (found,) = recover(merged)

    assert (found.changed, found.inserted, found.missing) == (1, 1, 2)
    require_at_rest(merged, [(1, "a", 1), (2, "own", 2), (3, "c", 3), (4, "d", 4), (7, "new", 7)])


@pytest.mark.exhaustive
def test_rows_without_a_hash_are_kept_as_conflicts(merged: Merge) -> None:
    """As after a schema change that was left to the subscriber's user."""
    device = begin(merged)
    prefix = "" if isinstance(device, FileMember) else "rowtide_merge."
    device.execute_as_agent(f'delete from {prefix}"MSmerge_row_hashes"')
    rebuild(device, REBUILDS["with rowguids"])
    device.execute("update item set name = 'own' where id = 1", "insert into item (id, name) values (5, 'new')")
    (found,) = recover(merged)

    assert (found.changed, found.inserted, found.conflicts) == (0, 1, 1)
    assert '"own"' in merged.conflicts()[0][2]
    require_at_rest(merged, [(1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", 4), (5, "new", None)])


@pytest.mark.exhaustive
def test_changes_missed_by_restored_triggers_are_found(merged: Merge) -> None:
    """A program that saves and restores triggers, as SQLite advises, misses what it does in between."""
    device = begin(merged, column_tracking=True)
    if isinstance(device, FileMember):
        triggers = [row[0] for row in device.execute("select sql from sqlite_master where type = 'trigger'")]
        names = [row[0] for row in device.execute("select name from sqlite_master where type = 'trigger'")]
        device.execute(*(f'drop trigger "{name}"' for name in names), "update item set qty = 9 where id = 1", *triggers)
    else:
        listed = "select tgname from pg_trigger where tgrelid = 'item'::regclass and not tgisinternal"
        names = [row[0] for row in device.execute(listed)]
        triggers = [f'alter table item enable always trigger "{name}"' for name in names]
        device.execute("alter table item disable trigger user", "update item set qty = 9 where id = 1", *triggers)
    device.execute("update item set name = 'tracked' where id = 2")
    merged.hub.execute("update item set qty = 7 where id = 2")
    merged.merge.reinitialize(PUBLICATION, device.url, upload_first=True)

    require_at_rest(merged, [(1, "a", 9), (2, "tracked", 7), (3, "c", 3), (4, "d", 4)])


@pytest.mark.exhaustive
def test_a_table_that_does_not_fit_is_refused(merged: Merge) -> None:
    device = begin(merged)
    device.execute("drop table item", "create table item (id integer, qty integer, must integer not null)")
    with pytest.raises(TablesUnfit) as refused:
        merged.merge.reinitialize(PUBLICATION, device.url, upload_first=True)

    for misfit in ("column name is missing", "column must", "the primary key is not (id)"):
        assert misfit in str(refused.value)


@pytest.mark.exhaustive
def test_what_was_found_is_printed(merged: Merge) -> None:
    device = begin(merged)
    rebuild(device, REBUILDS["with rowguids"])
    device.execute("update item set name = 'own' where id = 1")
    words = ("merge", "reinitialize", PUBLICATION, "--subscriber", device.url, "--upload-first")
    ended = rowtide(*words, "--db", merged.hub.url)

    assert ended.code == 0, ended.errors
    assert "Found at the subscriber: item" in ended.errors
    assert "1 changed" in ended.errors
