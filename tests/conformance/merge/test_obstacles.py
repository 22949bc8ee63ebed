"""What must not stop a device: texts that are not UTF-8, parents of changed children."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builders.commands.hints import run_printed
from builders.merge.merged_databases import FileMember, Merge, open_file_member, open_server_member
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Partition
from rowtide.merge.errors.nodes import FileHasReaders

BAD = "cast(X'ff41' as text)"


def devices_of(merged: Merge) -> list[FileMember]:
    return [each for each in merged.subscribers if isinstance(each, FileMember)]


def test_a_text_that_is_not_utf_8_holds_back_its_row_alone(merged: Merge) -> None:
    rows = ("create table thing (id integer primary key, v text)", "insert into thing values (1, 'a'), (2, 'b')")
    merged.begin(*rows, thing={})
    for device in devices_of(merged)[:1]:
        device.execute(
            f"insert into thing (id, v) values (3, {BAD})",
            "insert into thing (id, v) values (4, 'd')",
            f"update thing set v = {BAD} where id = 1",
            "update thing set v = 'e' where id = 2",
        )
        number = list(merged.subscribers).index(device)
        assert merged.sync(number).refused == 2
        assert merged.hub.execute("select id, v from thing order by id") == [(1, "a"), (2, "e"), (4, "d")]
        refused = merged.conflicts()
        assert [(code, row is not None) for _, code, row, _, _ in refused] == [("22021", True)] * 2
        device.execute("update thing set v = 'good' where id in (1, 3)")
        merged.settle()

        assert [each.rows("thing", "id, v") for each in merged.members] == [
            [(1, "good"), (2, "e"), (3, "good"), (4, "d")]
        ] * 3
        assert merged.settle()[-1].refused == 0


def test_a_file_hubs_invalid_text_holds_back_its_row_alone(tmp_path: Path) -> None:
    with open_file_member(tmp_path / "hub.db") as hub, open_file_member(tmp_path / "device.db") as device:
        merge = Merge(hub, [device])
        merge.begin("create table thing (id integer primary key, v text)", thing={})
        hub.execute(f"insert into thing (id, v) values (1, {BAD})", "insert into thing (id, v) values (2, 'b')")
        assert merge.sync().refused == 1
        assert device.rows("thing", "id, v") == [(2, "b")]
        assert [row.is_equal for row in merge.merge.validate("shop", device.url, checksum=True)] == [False]


@pytest.mark.parametrize(
    ("hub_first", "action"),
    [(True, ""), (False, ""), pytest.param(True, "on delete restrict", id="restricted")],
)
def test_parents_deleted_beside_changed_children_converge(merged: Merge, action: str, *, hub_first: bool) -> None:
    """Microsoft's KB 307482: the parent returns to where it was deleted, with a record."""
    merged.begin(
        "create table parent (id integer primary key, v text)",
        "create table child (id integer primary key, "
        f"parent_id integer not null references parent (id) {action}, v integer)",
        "insert into parent values (1, 'a')",
        "insert into child values (1, 1, 1)",
        parent={},
        child={},
    )
    deleting, updating = merged.subscribers
    deleting.execute("delete from child", "delete from parent")
    (merged.hub if hub_first else updating).execute("update child set v = 9")
    merged.sync(1)
    merged.settle()

    for table, columns in (("parent", "id, v"), ("child", "id, parent_id, v")):
        merged.require_equal(table, columns=columns)
    assert merged.hub.rows("child", "id, v") == [(1, 9)]
    assert merged.conflicts() != []
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())


@pytest.mark.live
def test_tables_of_one_name_in_two_schemas_are_two_on_devices(server: EmbeddedServer, tmp_path: Path) -> None:
    with fresh_database(server) as url, open_server_member(url) as hub, open_file_member(tmp_path / "d.db") as device:
        hub.execute(
            "create schema archive",
            "create table item (id int primary key, v text)",
            "create table archive.item (id int primary key, item_id int references item (id), v text)",
            "insert into item values (1, 'a')",
            "insert into archive.item values (1, 1, 'old')",
        )
        merge = Merge(hub, [device])
        articles: dict[str, Any] = {"public.item": {}, "archive.item": {}}
        merge.begin(**articles)
        assert device.rows("archive_item", "id, item_id, v") == [(1, 1, "old")]
        device.execute("update item set v = 'b'", "insert into archive_item (id, item_id, v) values (2, 1, 'older')")
        merge.settle()

        assert hub.rows("item", "id, v") == [(1, "b")]
        assert hub.rows("archive.item", "id, v") == [(1, "old"), (2, "older")]
        compared = merge.merge.validate("shop", device.url, checksum=True)
        assert {row.article for row in compared} == {"item", "archive_item"}
        assert all(row.is_equal for row in compared)


def begin_thing(hub: FileMember, device: str) -> MergeReplication:
    """One table with three rows, and a device that the subscription makes."""
    hub.execute("create table thing (id integer primary key, v text)", "insert into thing values (1, 'a'), (2, 'b')")
    merge = MergeReplication(hub.url)
    merge.add_publication("shop")
    merge.add_article("shop", "thing")
    merge.add_subscription("shop", device)
    return merge


def test_an_open_query_does_not_end_a_synchronisation(tmp_path: Path) -> None:
    with open_file_member(tmp_path / "hub.db") as hub:
        merge = begin_thing(hub, f"sqlite:///{tmp_path}/device.db")
        with (
            closing(sqlite3.connect(tmp_path / "device.db")) as app,
            closing(sqlite3.connect(tmp_path / "hub.db")) as web,
        ):
            app.execute("update thing set v = 'app' where id = 1")
            app.commit()
            reading = [program.execute("select id, v from thing order by id") for program in (app, web)]
            assert [query.fetchone() for query in reading] == [(1, "app"), (1, "a")]
            hub.execute("update thing set v = 'hub' where id = 2")
            merge.sync("shop", f"sqlite:///{tmp_path}/device.db")

            assert [query.fetchall() for query in reading] == [[(2, "b")]] * 2
            assert app.execute("select v from thing order by id").fetchall() == [("app",), ("hub",)]
            assert hub.rows("thing", "v") == [("app",), ("hub",)]


@pytest.mark.exhaustive
def test_readers_of_a_file_without_wal_are_named(tmp_path: Path) -> None:
    """The default run does not wait for the lock's deadline."""
    with open_file_member(tmp_path / "hub.db") as hub:
        sqlite3.connect(tmp_path / "device.db").execute("create table mine (id integer primary key)").connection.close()
        merge = begin_thing(hub, f"sqlite:///{tmp_path}/device.db")
        with closing(sqlite3.connect(tmp_path / "device.db")) as app:
            reading = app.execute("select * from thing")
            assert reading.fetchone() is not None
            hub.execute("update thing set v = 'hub'")
            with pytest.raises(FileHasReaders, match="journal_mode = wal") as held:
                merge.sync("shop", f"sqlite:///{tmp_path}/device.db")
            reading.close()
            run_printed(held.value, f"sqlite:///{tmp_path}/device.db")
            reading = app.execute("select * from thing")
            assert reading.fetchone() is not None
            merge.sync("shop", f"sqlite:///{tmp_path}/device.db")
            reading.close()
            assert app.execute("select distinct v from thing").fetchall() == [("hub",)]


def test_two_publications_may_share_a_table_in_one_file(merged: Merge) -> None:
    merged.hub.execute(
        "create table customer (id integer primary key, v text)",
        "create table orders (id integer primary key, customer_id integer references customer (id))",
        "create table visit (id integer primary key, customer_id integer references customer (id))",
        "insert into customer values (1, 'a'), (2, 'b')",
        "insert into visit values (1, 1)",
    )
    device = merged.subscribers[0]
    merged.begin(customer={}, orders={})
    merged.merge.add_publication("visits")
    for table in ("customer", "visit"):
        merged.merge.add_article("visits", table)
    merged.hub.execute("insert into customer (id, v) values (3, 'c')", "update customer set v = 'x' where id = 1")
    device.execute("update customer set v = 'y' where id = 2", "insert into orders (id, customer_id) values (1, 2)")
    merged.merge.add_subscription("visits", device.url)
    assert device.rows("customer", "id, v") == [(1, "x"), (2, "y"), (3, "c")]
    device.execute("insert into visit (id, customer_id) values (2, 3)", "update customer set v = 'z' where id = 3")

    merged.merge.sync("visits", device.url)
    assert merged.hub.rows("customer", "id, v") == [(1, "x"), (2, "y"), (3, "z")]
    merged.settle()
    merged.merge.sync("visits", device.url)
    for table, columns in (("customer", "id, v"), ("orders", "id, customer_id")):
        merged.require_equal(table, columns=columns)
    assert device.rows("visit", "id, customer_id") == merged.hub.rows("visit", "id, customer_id") == [(1, 1), (2, 3)]
    assert all(summary.is_quiet for summary in [*merged.settle(), merged.merge.sync("visits", device.url)])

    merged.merge.drop_subscription("shop", device.url)
    device.execute("update customer set v = 'last' where id = 1")
    merged.merge.sync("visits", device.url)
    assert (1, "last") in merged.hub.rows("customer", "id, v")


def test_two_filtered_publications_in_one_file_stay_apart(tmp_path: Path) -> None:
    with open_file_member(tmp_path / "hub.db") as hub, open_file_member(tmp_path / "device.db") as device:
        merge = MergeReplication(hub.url)
        for table in ("item", "visit"):
            hub.execute(
                f"create table {table} (id integer primary key, region text)",
                f"insert into {table} values (1, 'n'), (2, 's')",
            )
            merge.add_publication(table)
            merge.add_article(table, table, where="region = host_name()")
            merge.add_subscription(table, device.url, partition=Partition(host_name="n"))
        hub.execute("update item set region = 's' where id = 1")
        merge.sync("item", device.url)
        assert (device.rows("item", "id"), device.rows("visit", "id")) == ([], [(1,)])
        merge.drop_subscription("visit", device.url)
        hub.execute("update item set region = 'n' where id = 1", "update item set region = 'n' where id = 2")
        merge.sync("item", device.url)
        assert device.rows("item", "id") == [(1,), (2,)]
