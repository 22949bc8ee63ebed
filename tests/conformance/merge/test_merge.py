"""What merging promises, for each pair of kinds of databases."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest

from builders.merge.merged_databases import SERVER, Merge, open_file_member
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.nodes import SessionReplaced

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note text)"
COLUMNS = "id, name, qty"


def begin(merged: Merge, **options: object) -> None:
    """One table with one row."""
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", customer=options)


def test_a_subscription_begins_with_all_rows_of_the_hub(merged: Merge) -> None:
    begin(merged)

    for subscriber in merged.subscribers:
        assert subscriber.rows("customer", COLUMNS) == [(1, "first", 1)]
    merged.require_equal("customer", columns="id, cast(rowguid as varchar(36))")


def test_each_row_has_a_uuid_of_its_own_that_rises_with_time(merged: Merge) -> None:
    begin(merged)
    insertion = "insert into customer (id) values ({first}), ({first} + 1), ({first} + 2)"
    for member, first in zip(merged.members, (10, 20, 30), strict=True):
        member.execute(insertion.format(first=first))
        time.sleep(0.002)
        member.execute(insertion.format(first=first + 3))
    merged.settle()

    for first in (10, 20, 30):
        made = [UUID(merged.hub.rowguid("customer", key)) for key in range(first, first + 6)]
        assert [(each.version, each.variant) for each in made] == [(7, RFC_4122)] * 6
        assert len(set(made)) == 6
        assert max(made[:3]) < min(made[3:])


def test_changes_of_both_ends_come_to_all(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into customer (id, name) values (2, 'hub')", "update customer set qty = 5 where id = 1")
    merged.subscribers[0].execute("insert into customer (id, name) values (3, 'sub')")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 5), (2, "hub", None), (3, "sub", None)]
    merged.require_equal("customer", columns=COLUMNS)
    assert all(summary.is_quiet for summary in merged.settle())
    assert merged.conflicts() == []


def test_a_summary_counts_what_was_done(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set qty = 5", "insert into customer (id) values (2)")
    merged.subscribers[0].execute("insert into customer (id) values (3)", "insert into customer (id) values (4)")
    summary = merged.sync()

    assert (summary.upload.total.inserts, summary.download.total.inserts, summary.download.total.updates) == (2, 1, 1)


def test_a_delete_takes_the_row_away_everywhere(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[1].execute("delete from customer where id = 1")
    merged.settle()

    assert [member.rows("customer") for member in merged.members] == [[], [], []]


def test_row_inserted_and_deleted_between_syncs_is_not_exchanged(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute("insert into customer (id) values (7)", "delete from customer where id = 7")

    assert merged.sync().is_quiet


def test_of_two_clients_the_first_to_synchronise_wins(merged: Merge) -> None:
    begin(merged)
    for number, subscriber in enumerate(merged.subscribers):
        subscriber.execute(f"update customer set name = 'by {number}' where id = 1")
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "by 0", 1)]
    [(kind, _, loser, winner, _)] = merged.conflicts()
    assert kind == ConflictType.UPDATE_CONFLICT
    assert '"by 1"' in loser
    assert '"by 0"' in winner


def test_merged_client_change_beats_a_later_server_subscription(merged: Merge) -> None:
    options = [{}, SERVER | {"priority": 75.0}]
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", subscriber_options=options, customer={})
    merged.subscribers[0].execute("update customer set name = 'client'")
    merged.subscribers[1].execute("update customer set name = 'server'")
    merged.settle()

    # The client's change is the publisher's once it is merged, and the publisher stands above all.
    assert merged.hub.rows("customer", "name") == [("client",)]
    merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    ("lower", "higher", "left"),
    [
        ("update customer set name = 'lower'", "update customer set name = 'higher'", [(1, "higher", 1)]),
        ("update customer set name = 'lower'", "delete from customer", []),
        ("delete from customer", "update customer set name = 'higher'", [(1, "higher", 1)]),
    ],
)
def test_higher_server_priority_wins_whichever_comes_first(
    merged: Merge, lower: str, higher: str, left: list[tuple[int, str, int]], order: tuple[int, int]
) -> None:
    options = [SERVER | {"priority": 99.98}, SERVER | {"priority": 99.99}]
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", subscriber_options=options, customer={})
    merged.subscribers[0].execute(lower)
    merged.subscribers[1].execute(higher)
    for number in order * 2:
        merged.sync(number)

    assert merged.hub.rows("customer", COLUMNS) == left
    merged.require_equal("customer", columns=COLUMNS)
    assert len(merged.conflicts()) == 1


def test_server_priority_stays_with_a_row_that_was_passed_on(merged: Merge, tmp_path: Path) -> None:
    with open_file_member(tmp_path / "third.db") as third:
        merged.subscribers = [*merged.subscribers, third]
        options = [SERVER | {"priority": priority} for priority in (25.0, 50.0, 75.0)]
        merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", subscriber_options=options, customer={})
        for number, subscriber in enumerate(merged.subscribers):
            subscriber.execute(f"update customer set name = 'by {number}'")
        merged.sync(0)
        merged.sync(1)
        merged.sync(0)
        assert merged.subscribers[0].rows("customer", "name") == [("by 1",)]
        merged.sync(2)
        merged.settle()

        assert merged.hub.rows("customer", "name") == [("by 2",)]
        merged.require_equal("customer", columns=COLUMNS)
        # SQLite notes a conflict's time to the second: those of one second are listed in no order.
        losers = sorted((loser for _, _, loser, _, _ in merged.conflicts()), key=lambda loser: '"by 1"' in loser)
        assert ['"by 0"' in losers[0], '"by 1"' in losers[1], len(losers)] == [True, True, 2]


@pytest.mark.parametrize("passes_on", [False, True])
def test_publisher_change_beats_the_highest_server_priority(merged: Merge, *, passes_on: bool) -> None:
    options = [SERVER | {"priority": 25.0}, SERVER | {"priority": 99.99}]
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", subscriber_options=options, customer={})
    if passes_on:
        # The priority that came with the row ends with the publisher's own change.
        merged.subscribers[0].execute("update customer set name = 'lower'")
        merged.sync(0)
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[1].execute("update customer set name = 'higher'")
    merged.settle()

    assert merged.hub.rows("customer", "name") == [("hub",)]
    merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.parametrize(("resolver", "left"), [("publisher-wins", "lower"), ("priority", "higher")])
def test_publisher_wins_over_any_priority_if_chosen(merged: Merge, resolver: str, left: str) -> None:
    options = [SERVER | {"priority": 25.0}, SERVER | {"priority": 75.0}]
    definitions = (CUSTOMER, "insert into customer values (1, 'first', 1)")
    merged.begin(*definitions, subscriber_options=options, customer={"resolver": resolver})
    merged.subscribers[0].execute("update customer set name = 'lower'")
    merged.subscribers[1].execute("update customer set name = 'higher'")
    merged.settle()

    # What the publisher has is that of the first to synchronise.
    assert merged.hub.rows("customer", "name") == [(left,)]
    merged.require_equal("customer", columns=COLUMNS)


def test_subscriber_wins_if_that_resolver_is_chosen(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.settle()

    assert merged.hub.rows("customer", "name") == [("sub",)]
    merged.require_equal("customer", columns=COLUMNS)


def test_the_later_value_wins_where_that_is_chosen(merged: Merge) -> None:
    begin(merged, resolver="later-wins:qty")
    merged.hub.execute("update customer set name = 'hub', qty = 9")
    merged.subscribers[0].execute("update customer set name = 'sub', qty = 10")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "sub", 10)]
    merged.require_equal("customer", columns=COLUMNS)


def test_different_columns_merge_without_conflict_if_tracked(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[0].execute("update customer set qty = 10")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "hub", 10)]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []


def test_column_changed_at_both_ends_gives_the_winner_whole_row(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[0].execute("update customer set name = 'sub', qty = 10")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "hub", 1)]
    merged.require_equal("customer", columns=COLUMNS)
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.COLUMN_UPDATE_CONFLICT]


def test_an_update_that_loses_to_a_delete_is_kept_as_a_conflict(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("delete from customer")
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.settle()

    assert [member.rows("customer") for member in merged.members] == [[], [], []]
    [(kind, _, loser, winner, _)] = merged.conflicts()
    assert (kind, winner) == (ConflictType.UPDATE_DELETE_WINS_CONFLICT, None)
    assert '"sub"' in loser


def test_update_that_beats_a_delete_restores_the_row_for_good(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    merged.hub.execute("delete from customer")
    merged.sync(1)
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "sub", 1)]
    merged.require_equal("customer", columns=COLUMNS)
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.UPDATE_WINS_DELETE_CONFLICT]
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_row_deleted_at_both_ends_is_no_conflict(merged: Merge) -> None:
    begin(merged)
    for member in merged.members:
        member.execute("delete from customer")
    merged.settle()

    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_two_rows_of_one_key_leave_one_and_the_exchange_settles(merged: Merge) -> None:
    begin(merged)
    for number, subscriber in enumerate(merged.subscribers):
        subscriber.execute(f"insert into customer (id, name) values (9, 'by {number}')")
    summaries = merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS)[1] == (9, "by 0", None)
    # A row whose conflict is settled is not asked for again.
    assert [summary.upload.refused for summary in summaries] == [[]] * len(summaries)
    [(kind, _, loser, _, _)] = merged.conflicts()
    assert kind == ConflictType.UPLOAD_INSERT_FAILED
    assert '"by 1"' in loser
    assert all(summary.is_quiet for summary in merged.settle())


def test_subscriber_row_takes_the_key_if_the_subscriber_wins(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    for number, subscriber in enumerate(merged.subscribers):
        subscriber.execute(f"insert into customer (id, name) values (9, 'by {number}')")
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS)[1] == (9, "by 1", None)


def test_children_come_behind_their_parents_and_go_before_them(merged: Merge) -> None:
    merged.begin(CUSTOMER, ORDERS, orders={}, customer={})
    merged.subscribers[0].execute(
        "insert into customer (id) values (1)", "insert into orders (id, customer_id) values (1, 1)"
    )
    merged.settle()
    merged.require_equal("orders", columns="id, customer_id")
    merged.hub.execute("delete from orders", "delete from customer")
    merged.settle()

    assert [member.rows("customer") for member in merged.members] == [[], [], []]


def test_child_of_a_deleted_parent_goes_to_the_inbox(merged: Merge) -> None:
    merged.begin(CUSTOMER, ORDERS, "insert into customer (id) values (1)", orders={}, customer={})
    merged.hub.execute("delete from customer")
    merged.subscribers[0].execute("insert into orders (id, customer_id) values (1, 1)")
    summary = merged.sync()

    assert summary.upload.total.refused == 0
    assert [(kind, code) for kind, code, *_ in merged.conflicts()] == [(ConflictType.UPLOAD_INSERT_FAILED, "RT-8050")]
    assert [member.rows("orders") for member in merged.members] == [[]] * 3
    merged.settle(1)
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
def test_change_refused_by_the_hub_is_undone_if_compensating(merged: Merge) -> None:
    options = {"compensate_for_errors": True}
    merged.begin(CUSTOMER, ORDERS, "insert into customer (id) values (1)", orders=options, customer=options)
    merged.hub.execute("delete from customer")
    merged.subscribers[0].execute("insert into orders (id, customer_id) values (1, 1)")
    merged.settle(3)

    assert [member.rows("orders") for member in merged.members] == [[], [], []]
    assert [member.rows("customer") for member in merged.members] == [[], [], []]
    assert ConflictType.UPLOAD_INSERT_FAILED in [kind for kind, *_ in merged.conflicts()]


def test_keys_that_two_rows_exchange_come_over(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1), (2, 'b', 2)", customer={})
    merged.subscribers[0].execute(
        "update customer set id = 3 where id = 1",
        "update customer set id = 1 where id = 2",
        "update customer set id = 2 where id = 3",
    )
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "b", 2), (2, "a", 1)]


def test_interrupted_synchronisation_resumes_wherever_it_was_cut(merged: Merge) -> None:
    begin(merged)
    cut = 0
    for commits in range(1, 30):
        for is_before in (True, False):
            merged.hub.execute(f"insert into customer (id, name) values ({1000 + commits * 2 + is_before}, 'h')")
            merged.subscribers[0].execute(f"insert into customer (id) values ({2000 + commits * 2 + is_before})")
            cut += merged.cut_sync(0, commits, is_before=is_before)
    merged.settle()

    assert cut >= 8
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def replace(merged: Merge) -> None:
    """Synchronise the first subscriber as another process would; both ends are equal then."""
    merged.sync(0)
    assert merged.subscribers[0].rows("customer", COLUMNS) == merged.hub.rows("customer", COLUMNS)


def test_synchronisation_that_another_replaces_stops_unharmed(merged: Merge) -> None:
    begin(merged)
    replaced = 0
    for commits in range(2, 10):
        merged.hub.execute(f"insert into customer (id, name) values ({1000 + commits}, 'hub')")
        merged.subscribers[0].execute(f"insert into customer (id, name) values ({2000 + commits}, 'sub')")
        try:
            merged.sync_beside(0, commits, lambda: replace(merged))
        except SessionReplaced:
            replaced += 1
    merged.settle()

    assert replaced >= 3
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_what_merging_made_goes_with_the_publication(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute("update customer set qty = 2")
    for subscriber in merged.subscribers:
        merged.merge.drop_subscription("shop", subscriber.url)
    merged.merge.drop_publication("shop")

    assert merged.hub.rows("customer") == [(1, "first", 1)]
    for subscriber in merged.subscribers:
        assert len(subscriber.rows("customer")) == 1
        subscriber.execute("insert into customer (id) values (5)")
    merged.hub.execute("insert into customer (id) values (5)")


def test_a_row_that_is_put_back_is_new_in_all_its_columns(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    rowguid = merged.hub.rowguid("customer", 1)
    merged.subscribers[0].execute(
        "delete from customer",
        f"insert into customer (id, name, qty, rowguid) values (1, 'back', 8, '{rowguid}')",
    )
    merged.subscribers[1].execute("update customer set name = 'sub'")
    merged.settle()

    # Put together, the row would be nobody's.
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.COLUMN_UPDATE_CONFLICT]
    assert merged.hub.rows("customer", COLUMNS) == [(1, "back", 8)]
    merged.require_equal("customer", columns=COLUMNS)
