"""Logical records: an order and its lines are one unit, whatever happens to their rows."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.articles import FilterType, Partition, PartitionOptions
from rowtide.merge.errors.publishing import RecordLinkRefused, RecordOptionsRefused

ORDERS = "create table orders (id integer primary key, note varchar(20), region varchar(10))"
LINES = (
    "create table line (order_id integer not null references orders (id), number integer, qty integer, "
    "primary key (order_id, number))"
)
ROWS = (
    "insert into orders values (1, 'first', 'n'), (2, 'second', 's')",
    "insert into line values (1, 1, 10), (1, 2, 20), (2, 1, 30)",
)
LINK = "line.order_id = orders.id"
WHOLE: dict[str, Any] = {"record_conflict_resolution": True}
ANY: dict[str, Any] = WHOLE | {"record_conflict_detection": True}
SUBSCRIBER_WINS: dict[str, Any] = {"resolver": "subscriber-wins"}


def begin(merged: Merge, **options: Any) -> None:
    """Two orders with lines; the options are those of the orders."""
    merged.hub.execute(ORDERS, LINES, *ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "orders", **options)
    merged.merge.add_article(PUBLICATION, "line", resolver=options.get("resolver", "priority"))
    merged.merge.add_filter(PUBLICATION, "line", "orders", LINK, filter_type=FilterType.RECORD)
    for subscriber in merged.subscribers:
        merged.merge.add_subscription(PUBLICATION, subscriber.url)


def lines(member: Member, order: int = 1) -> list[tuple[Any, ...]]:
    return sorted(member.execute(f"select number, qty from line where order_id = {order}"))


def note(member: Member, order: int = 1) -> Any:
    return member.execute(f"select note from orders where id = {order}")[0][0]


def types(merged: Merge) -> list[int]:
    return sorted(row[0] for row in merged.conflicts())


def require_rest(merged: Merge) -> None:
    """All have the same rows after two rounds, and two more move nothing."""
    merged.settle(2)
    for table, columns in (("orders", "id, note"), ("line", "order_id, number, qty")):
        merged.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
    assert all(summary.is_quiet for summary in merged.settle(2))


def test_a_record_is_refused_as_a_whole_and_retried(merged: Merge) -> None:
    begin(merged)
    sub = merged.subscribers[0]
    sub.execute("update orders set note = 'new' where id = 1", "update line set qty = 11 where order_id = 1")
    sub.execute("update orders set note = 'other' where id = 2")
    refuse_lines(merged.hub)

    first = merged.sync()
    assert (note(merged.hub), note(merged.hub, 2)) == ("first", "other")
    assert (lines(merged.hub), first.refused) == ([(1, 10), (2, 20)], 2)

    allow_lines(merged.hub)
    assert merged.sync().refused == 0
    assert (note(merged.hub), lines(merged.hub)) == ("new", [(1, 11), (2, 11)])
    require_rest(merged)


@pytest.mark.exhaustive
def test_changes_of_different_rows_merge_without_options(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update line set qty = 12 where order_id = 1 and number = 2")
    merged.subscribers[0].execute("update line set qty = 11 where order_id = 1 and number = 1")
    merged.settle()

    assert lines(merged.hub) == [(1, 11), (2, 12)]
    assert types(merged) == []
    require_rest(merged)


@pytest.mark.exhaustive
def test_any_change_of_a_record_conflicts_if_detected(merged: Merge) -> None:
    begin(merged, **ANY)
    merged.hub.execute("update line set qty = 12 where order_id = 1 and number = 2")
    merged.subscribers[0].execute(
        "update line set qty = 11 where order_id = 1 and number = 1", "update line set qty = 33 where order_id = 2"
    )
    merged.settle()

    assert (lines(merged.hub), lines(merged.hub, 2)) == ([(1, 10), (2, 12)], [(1, 33)])
    assert types(merged) == [13]
    require_rest(merged)


def test_the_winning_record_replaces_the_hubs_whole(merged: Merge) -> None:
    begin(merged, **ANY, **SUBSCRIBER_WINS)
    merged.hub.execute(
        "update orders set note = 'hub' where id = 1",
        "delete from line where order_id = 1 and number = 2",
        "insert into line (order_id, number, qty) values (1, 3, 50)",
    )
    merged.subscribers[0].execute("update line set qty = 11 where order_id = 1 and number = 1")
    merged.settle()

    assert (note(merged.hub), lines(merged.hub)) == ("first", [(1, 11), (2, 20)])
    assert types(merged) == [12, 13, 14]
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_row_conflict_decides_on_the_record(merged: Merge) -> None:
    begin(merged, **WHOLE)
    merged.hub.execute("update line set qty = 12 where order_id = 1 and number = 1")
    merged.subscribers[0].execute(
        "update line set qty = 11 where order_id = 1 and number = 1",
        "update orders set note = 'sub' where id = 1",
        "delete from line where order_id = 1 and number = 2",
        "insert into line (order_id, number, qty) values (1, 3, 50)",
    )
    merged.settle()

    assert (note(merged.hub), lines(merged.hub)) == ("first", [(1, 12), (2, 20)])
    assert types(merged) == [1, 12, 13, 14]
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_deleted_order_conflicts_with_its_changed_line(merged: Merge) -> None:
    begin(merged, **ANY)
    merged.hub.execute("update line set qty = 12 where order_id = 1 and number = 1")
    merged.subscribers[0].execute("delete from line where order_id = 1", "delete from orders where id = 1")
    merged.settle()

    assert lines(merged.hub) == [(1, 12), (2, 20)]
    assert types(merged) == [4, 14, 14]
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_deleted_order_wins_with_its_lines(merged: Merge) -> None:
    begin(merged, **ANY, **SUBSCRIBER_WINS)
    merged.hub.execute("insert into line (order_id, number, qty) values (1, 3, 50)")
    merged.subscribers[0].execute("delete from line where order_id = 1", "delete from orders where id = 1")
    merged.settle()

    assert merged.hub.rows("orders", "id") == [(2,)]
    assert types(merged) == [12]
    require_rest(merged)


def insert_two_orders(merged: Merge) -> None:
    """The hub and a subscriber insert an order with one key, each with a line."""
    merged.hub.execute(
        "insert into orders (id, note, region) values (7, 'hub', 'n')",
        "insert into line (order_id, number, qty) values (7, 1, 1)",
    )
    merged.subscribers[0].execute(
        "insert into orders (id, note, region) values (7, 'sub', 'n')",
        "insert into line (order_id, number, qty) values (7, 2, 2)",
    )
    merged.settle()


def test_orders_with_one_key_do_not_mix_their_lines(merged: Merge) -> None:
    begin(merged)
    insert_two_orders(merged)

    assert (note(merged.hub, 7), lines(merged.hub, 7)) == ("hub", [(1, 1)])
    assert types(merged) == [5, 12]
    require_rest(merged)


@pytest.mark.exhaustive
def test_an_order_that_wins_a_key_brings_its_own_lines(merged: Merge) -> None:
    begin(merged, **ANY, **SUBSCRIBER_WINS)
    insert_two_orders(merged)

    assert (note(merged.hub, 7), lines(merged.hub, 7)) == ("sub", [(2, 2)])
    assert types(merged) == [5, 12]
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_late_line_does_not_go_to_another_order(merged: Merge) -> None:
    begin(merged)
    sub = merged.subscribers[0]
    merged.hub.execute("insert into orders (id, note, region) values (7, 'hub', 'n')")
    sub.execute("insert into orders (id, note, region) values (7, 'sub', 'n')")
    insertion = "insert into line (order_id, number, qty) values (7, 5, 5)"

    def write_beside(phase: str, _done: int, _all: int) -> None:
        if phase == "upload" and not lines(sub, 7):
            sub.execute(insertion)

    merged.merge.sync(PUBLICATION, sub.url, on_progress=write_beside)
    merged.settle(3)

    assert (note(merged.hub, 7), lines(merged.hub, 7)) == ("hub", [])
    assert '"number": "5"' in str(merged.conflicts())
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_line_moves_from_one_record_to_another(merged: Merge) -> None:
    begin(merged, **ANY)
    merged.subscribers[0].execute("update line set order_id = 2, number = 9 where order_id = 1 and number = 2")
    merged.hub.execute("update line set qty = 31 where order_id = 2 and number = 1")
    merged.settle()

    assert (lines(merged.hub), lines(merged.hub, 2)) == ([(1, 10), (2, 20)], [(1, 31)])
    require_rest(merged)


@pytest.mark.exhaustive
def test_a_record_changed_since_the_upload_is_held_back(merged: Merge) -> None:
    begin(merged, **ANY)
    sub = merged.subscribers[0]
    merged.hub.execute("update line set qty = 12 where order_id = 1 and number = 2")
    sub.execute("update orders set note = 'sub' where id = 2")

    def write_beside(phase: str, _done: int, _all: int) -> None:
        if phase == "upload":
            sub.execute("update line set qty = 11 where order_id = 1 and number = 1")

    merged.merge.sync(PUBLICATION, sub.url, on_progress=write_beside)
    assert lines(sub) == [(1, 11), (2, 20)]

    merged.sync()
    assert lines(sub) == [(1, 10), (2, 12)]
    assert types(merged) == [13]
    require_rest(merged)


@pytest.mark.exhaustive
def test_records_enter_and_leave_partitions_whole(merged: Merge) -> None:
    merged.hub.execute(ORDERS, LINES, *ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "orders", where="region = host_name()", **ANY)
    merged.merge.add_article(PUBLICATION, "line")
    merged.merge.add_filter(PUBLICATION, "line", "orders", LINK, filter_type=FilterType.BOTH)
    for subscriber, region in zip(merged.subscribers, "ns", strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))
    north, south = merged.subscribers
    north.execute("update orders set region = 's' where id = 1", "update line set qty = 11 where order_id = 1")
    merged.settle()

    assert (north.rows("orders"), north.rows("line")) == ([], [])
    assert lines(south) == [(1, 11), (2, 11)]
    assert all(summary.is_quiet for summary in merged.settle(2))


def refuse_lines(member: Member) -> None:
    """Let a database take no change of a line."""
    if isinstance(member, FileMember):
        member.execute(
            "create trigger no_lines before update on line begin select raise(abort, 'no lines are taken'); end"
        )
        return
    member.execute(
        "create function no_lines() returns trigger language plpgsql as "
        "$$ begin raise exception 'no lines are taken'; end $$",
        "create trigger no_lines before update on line for each row execute function no_lines()",
    )


def allow_lines(member: Member) -> None:
    member.execute("drop trigger no_lines" + ("" if isinstance(member, FileMember) else " on line"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("definition", "condition", "options", "reason"),
    [
        pytest.param(LINES, "line.order_id = orders.id and line.qty > 0", {}, "nothing else", id="condition"),
        pytest.param(LINES, "line.number = orders.id", {}, "no foreign key", id="no foreign key"),
        pytest.param(LINES, LINK, {"resolver": "additive:qty"}, "decides on rows", id="resolver"),
        pytest.param(
            LINES, LINK, {"partition_options": PartitionOptions.ONE_SUBSCRIBER}, "0 or 1", id="partition options"
        ),
        pytest.param(LINES, LINK, {"where": "qty > 0"}, "another filter", id="filter"),
        pytest.param(LINES, LINK, WHOLE, "only the top article", id="options"),
        pytest.param(
            "create table line (order_id integer primary key references orders (id) on delete cascade, number integer)",
            LINK,
            {},
            "action cascade",
            id="action",
        ),
    ],
)
def test_what_makes_no_record_is_refused(
    merged: Merge, definition: str, condition: str, options: dict[str, Any], reason: str
) -> None:
    merged.hub.execute(ORDERS, definition)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "orders")
    merged.merge.add_article(PUBLICATION, "line", **options)

    with pytest.raises(RecordLinkRefused, match=reason):
        merged.merge.add_filter(PUBLICATION, "line", "orders", condition, filter_type=FilterType.RECORD)


def test_detection_by_record_needs_resolution_by_record(merged: Merge) -> None:
    merged.hub.execute(ORDERS)
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(RecordOptionsRefused, match="RT-8120"):
        merged.merge.add_article(PUBLICATION, "orders", record_conflict_detection=True)
