"""Where a row is on its way."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.errors.conflicts import RowKeyInvalid
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.inspection.row_places import RowPlace
from rowtide.replication.subscription_settings import SyncType

ORDERS = "create table orders (id int, line text, qty int, primary key (id, line))"


def places(replicated: ReplicatedDatabase | ReplicatedFile, *key: str) -> list[RowPlace]:
    return list(replicated.replication.find_row("public.orders", *key))


def test_row_is_shown_at_the_publisher_and_each_subscriber(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(ORDERS, orders={})
    subscribed.publisher.execute("insert into orders values (1, 'a', 1), (2, 'a', 2)")
    subscribed.publisher.execute("update orders set qty = 10 where id = 1")
    subscribed.deliver()
    subscribed.publisher.execute("update orders set qty = 11 where id = 1", "update orders set line = 'b' where id = 1")
    here, there = places(subscribed, "01", "a")

    assert (here.place, here.state, here.operation, here.row) == ("publisher", "absent", "update", None)
    assert (there.state, there.queued, there.operation) == ("equal", 2, "update")
    assert json.loads(there.row or "") == {"id": "1", "line": "a", "qty": "10"}
    assert there.xact_seqno is not None
    assert here.xact_seqno is not None
    assert there.xact_seqno < here.xact_seqno

    subscribed.subscriber.execute("update orders set qty = 0 where id = 2")
    here, there = places(subscribed, "2", "a")
    assert (here.state, there.state, there.columns, there.queued) == ("present", "different", ("qty",), 0)
    assert (there.operation, there.command_id) == ("insert", here.command_id)

    subscribed.subscriber.execute("delete from orders where id = 2")
    states = [[one.state for one in places(subscribed, *key)] for key in (("2", "a"), ("3", "a"))]
    assert states == [["present", "missing"], ["absent", "absent"]]


@pytest.mark.exhaustive
def test_rows_left_out_and_subscribers_of_their_own(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    second_subscriber.execute(ORDERS)
    replicated.begin(ORDERS, orders={"where": "qty < 5"})
    replicated.replication.add_publication("all")
    replicated.replication.add_article("all", "orders")
    replicated.replication.add_subscription("all", second_subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY)
    replicated.publisher.execute("insert into orders values (1, 'a', 1)", "update orders set qty = 9")
    replicated.deliver()
    found = {(one.publication, one.place == "publisher"): one for one in places(replicated, "1", "a")}

    assert found["shop", True].state == "left out by the filter"
    assert (found["shop", False].state, found["shop", False].operation) == ("absent", "delete")
    assert (found["all", False].state, found["all", False].operation) == ("equal", "update")


def test_keys_that_no_row_can_have_are_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    for key, reason in ((("1",), "columns id, line"), (("x", "a"), "invalid input syntax for type integer")):
        with pytest.raises(RowKeyInvalid, match=reason):
            places(replicated, *key)
    with pytest.raises(ArticleUnknown):
        replicated.replication.find_row("public.nothing", "1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["Order Lines", "public.Order Lines", '"Order Lines"', 'public."Order Lines"'])
def test_tables_are_named_as_sql_or_literally(replicated: ReplicatedDatabase, name: str) -> None:
    replicated.publish('create table "Order Lines" (id int primary key)', **{"Order Lines": {}})
    replicated.publisher.execute('insert into "Order Lines" values (1)')
    replicated.publisher.read_log()

    assert [place.state for place in replicated.replication.find_row(name, "1")] == ["present"]
    assert [command.article for command in replicated.replication.browse_commands(article=name)] == ["Order Lines"]
    replicated.replication.drop_article(PUBLICATION, name)


def test_row_is_printed(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 'a', 1)")
    replicated.deliver()
    words = ("replication", "row", "orders", "1", "a", "--format", "jsonl", "--db", replicated.publisher.url)
    here, there = map(json.loads, rowtide(*words).output.splitlines())

    assert (here["state"], here["row"], there["state"]) == ("present", {"id": "1", "line": "a", "qty": "1"}, "equal")
    assert (there["operation"], there["key"]) == ("insert", {"id": "1", "line": "a"})
