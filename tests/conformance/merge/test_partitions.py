"""Subscribers with some of the rows: row filters, join filters, and rows that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.commands.hints import run_printed
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.articles import Partition, PartitionOptions
from rowtide.merge.catalogue import get_publication, list_articles, set_definition
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.publishing import FilterRefused, StoredFilterRefused
from rowtide.merge.errors.subscribing import PartitionValueMissing, PartitionValueUnfit
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.session.hub_half import HubHalf
from rowtide.merge.session.messages import Acknowledgement, RefusedDownload
from rowtide.merge.session.pairing import pair

CUSTOMER = "create table customer (id integer primary key, region varchar(10), name varchar(20))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))"
ROWS = ("insert into customer values (1, 'north', 'a'), (2, 'south', 'b'), (3, 'east', 'c')",)
ORDER_ROWS = ("insert into orders values (10, 1, 'n'), (20, 2, 's'), (30, 3, 'e')",)
BY_REGION: dict[str, Any] = {"where": "region = host_name()"}
FOLLOWS = "orders.customer_id = customer.id"
NORTH: dict[str, Any] = {"partition": Partition("north")}
SOUTH: dict[str, Any] = {"partition": Partition("south")}


def begin(merged: Merge, **options: Any) -> None:
    """Customers by region: the first subscriber has the north, the second the south."""
    merged.begin(CUSTOMER, *ROWS, subscriber_options=[NORTH, SOUTH], customer=BY_REGION | options)


def begin_joined(merged: Merge) -> None:
    """Orders follow their customers."""
    merged.hub.execute(CUSTOMER, ORDERS, *ROWS, *ORDER_ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer", **BY_REGION)
    merged.merge.add_article(PUBLICATION, "orders")
    merged.merge.add_filter(PUBLICATION, "orders", "customer", FOLLOWS)
    for subscriber, options in zip(merged.subscribers, (NORTH, SOUTH), strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, **options)


def ids(member: Member, table: str = "customer") -> list[int]:
    return [row[0] for row in member.rows(table, "id")]


def held(merged: Merge) -> list[tuple[Any, ...]]:
    """Return which rows the hub says that its subscribers have, by the order of the subscribers."""
    prefix = "" if isinstance(merged.hub, FileMember) else "rowtide_merge."
    return merged.hub.execute(
        f'select tablenick, count(*) from {prefix}"MSmerge_stored_partition_mappings" group by tablenick'
    )


def require_valid(merged: Merge) -> None:
    """Each subscriber has exactly its partition's rows, and the hub knows how many these are."""
    for subscriber in merged.subscribers:
        assert all(row.is_equal for row in merged.merge.validate(PUBLICATION, subscriber.url, checksum=True))
    tables = ["customer"] + ["orders"] * (len(merged.merge.status()[0].articles) > 1)
    there = [sum(len(subscriber.rows(table)) for subscriber in merged.subscribers) for table in tables]
    assert sorted(count for _, count in held(merged)) == sorted(count for count in there if count)
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_subscriber_begins_with_its_partition(merged: Merge) -> None:
    begin(merged)

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [1], [2]]
    require_valid(merged)


def test_changes_go_to_the_partition_that_they_are_of(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "insert into customer (id, region) values (4, 'north')",
        "insert into customer (id, region) values (5, 'west')",
        "update customer set name = 'x'",
    )
    merged.subscribers[1].execute("insert into customer (id, region) values (6, 'south')")
    summaries = merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3, 4, 5, 6], [1, 4], [2, 6]]
    assert summaries[0].download.total.moved == 2
    require_valid(merged)


def test_moved_row_leaves_one_subscriber_and_reaches_the_other(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set region = 'south' where id = 1")
    summary = merged.sync(0)
    merged.sync(1)

    assert summary.download.total.deletes == 1
    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1, 2]]
    require_valid(merged)

    merged.hub.execute("update customer set region = 'north' where id = 1")
    merged.settle()
    assert [ids(member) for member in merged.members] == [[1, 2, 3], [1], [2]]
    require_valid(merged)


def test_a_subscriber_may_move_a_row_out_of_its_partition(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute(
        "update customer set region = 'south' where id = 1", "insert into customer (id, region) values (7, 'south')"
    )
    merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3, 7], [], [1, 2, 7]]
    require_valid(merged)


def test_where_a_partition_has_one_subscriber_a_row_stays_in_it(merged: Merge) -> None:
    begin(merged, partition_options=PartitionOptions.ONE_SUBSCRIBER, compensate_for_errors=True)
    merged.subscribers[0].execute(
        "update customer set region = 'south' where id = 1", "insert into customer (id, region) values (7, 'south')"
    )
    merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [1], [2]]
    assert {reason for _, reason, *_ in merged.conflicts()} == {"RT-8027"}
    require_valid(merged)


def test_second_subscriber_of_a_partition_replaces_the_first(merged: Merge) -> None:
    options = BY_REGION | {"partition_options": PartitionOptions.ONE_SUBSCRIBER}
    merged.begin(CUSTOMER, *ROWS, subscriber_options=[NORTH, NORTH], customer=options)

    assert [status.subscriber_type for status in merged.merge.status()] == ["client"]
    merged.sync(1)
    assert ids(merged.subscribers[1]) == [1]


@pytest.mark.exhaustive
def test_a_delete_goes_to_who_has_the_row_and_to_nobody_else(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("delete from customer")
    summaries = merged.settle(1)

    assert [summary.download.total.deletes for summary in summaries] == [1, 1]
    assert [ids(member) for member in merged.members] == [[], [], []]
    require_valid(merged)


@pytest.mark.exhaustive
def test_row_moved_and_deleted_at_once_leaves_its_old_partition(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set region = 'south' where id = 1", "delete from customer where id = 1")
    merged.settle()

    assert [ids(member) for member in merged.members] == [[2, 3], [], [2]]
    require_valid(merged)


def test_children_begin_and_go_on_where_their_parents_are(merged: Merge) -> None:
    begin_joined(merged)
    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [10], [20]]

    merged.hub.execute("insert into orders (id, customer_id) values (11, 1)")
    merged.subscribers[1].execute("insert into orders (id, customer_id) values (21, 2)")
    merged.settle()
    assert [ids(member, "orders") for member in merged.members] == [[10, 11, 20, 21, 30], [10, 11], [20, 21]]
    require_valid(merged)


def test_unchanged_children_go_with_a_parent_that_moves(merged: Merge) -> None:
    begin_joined(merged)
    merged.hub.execute("update customer set region = 'south' where id in (1, 3)")
    merged.settle()

    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [], [10, 20, 30]]
    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1, 2, 3]]
    require_valid(merged)

    merged.hub.execute("update customer set region = 'north'")
    merged.settle()
    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [10, 20, 30], []]
    require_valid(merged)


@pytest.mark.exhaustive
def test_a_child_that_goes_to_another_parent_moves_alone(merged: Merge) -> None:
    begin_joined(merged)
    merged.subscribers[0].execute("update orders set customer_id = null where id = 10")
    merged.settle()
    assert ids(merged.subscribers[0], "orders") == []

    merged.hub.execute("update orders set customer_id = 2")
    merged.settle()
    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [], [10, 20, 30]]
    require_valid(merged)


def test_parent_and_children_that_are_deleted_go_together(merged: Merge) -> None:
    begin_joined(merged)
    merged.hub.execute("delete from orders where customer_id = 1", "delete from customer where id = 1")
    merged.settle()

    assert [ids(member) for member in merged.members] == [[2, 3], [], [2]]
    assert [ids(member, "orders") for member in merged.members] == [[20, 30], [], [20]]
    require_valid(merged)


def test_row_changed_as_it_leaves_its_partition_still_leaves(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set region = 'south' where id = 1")
    # Changed between the upload and the download of one synchronisation.
    subscriber = merged.subscribers[0]
    merged.cut_sync(0, 4, is_before=True)
    subscriber.execute("update customer set name = 'mine' where id = 1")
    merged.settle(3)

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1, 2]]
    require_valid(merged)


@pytest.mark.exhaustive
def test_change_to_a_leaving_row_is_uploaded_before_it_leaves(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    subscriber, changed = merged.subscribers[0], []
    for commits in range(1, 12, 2):
        key = 100 + commits
        merged.hub.execute(f"insert into customer (id, region, name) values ({key}, 'north', 'a')")
        merged.settle(1)
        merged.hub.execute(f"update customer set region = 'south' where id = {key}")

        def change(key: int = key) -> None:
            if key in ids(subscriber):
                subscriber.execute(f"update customer set name = 'mine' where id = {key}")
                changed.append(key)

        merged.sync_beside(0, commits, change)
    merged.settle(3)

    assert len(changed) >= 2
    assert ids(subscriber) == [1]
    for member in (merged.hub, merged.subscribers[1]):
        rows = member.rows("customer", "id, region, name")
        assert [row for row in rows if row[2] == "mine"] == [(key, "south", "mine") for key in changed]
    require_valid(merged)


@pytest.mark.parametrize("mover", [0, 1])
def test_row_changed_as_it_moves_arrives_whole(merged: Merge, mover: int) -> None:
    begin(merged)
    # By the hub, and by the subscriber that it leaves.
    merged.members[mover].execute("update customer set region = 'south', name = 'moved' where id = 1")
    merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1, 2]]
    assert merged.subscribers[1].rows("customer", "id, region, name")[0] == (1, "south", "moved")
    require_valid(merged)


@pytest.mark.exhaustive
def test_interrupted_syncs_lose_no_row_that_changes_partition(merged: Merge) -> None:
    begin_joined(merged)
    cut = 0
    for commits in range(1, 20):
        for is_before in (True, False):
            region = "south" if (commits + is_before) % 2 else "north"
            merged.hub.execute(f"update customer set region = '{region}' where id = 1")
            merged.subscribers[0].execute(
                f"insert into orders (id, note) values ({100 + 2 * commits + is_before}, 'x')"
            )
            cut += merged.cut_sync(0, commits, is_before=is_before)
            cut += merged.cut_sync(1, commits, is_before=not is_before)
    merged.settle(3)

    assert cut >= 8
    require_valid(merged)


@pytest.mark.exhaustive
def test_purging_does_not_touch_what_is_held(merged: Merge) -> None:
    begin_joined(merged)
    merged.hub.execute("update customer set name = 'z'")
    merged.settle(4)
    assert merged.merge.cleanup() > 0
    merged.hub.execute("update customer set region = 'south' where id = 1")
    merged.settle()

    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [], [10, 20]]
    require_valid(merged)


@pytest.mark.exhaustive
def test_reinitialized_subscriber_has_its_partition_again(merged: Merge) -> None:
    begin_joined(merged)
    merged.hub.execute("update customer set region = 'south' where id = 1")
    for subscriber in merged.subscribers:
        merged.merge.reinitialize(PUBLICATION, subscriber.url)

    assert [ids(member, "orders") for member in merged.members] == [[10, 20, 30], [], [10, 20]]
    require_valid(merged)


def test_conflict_over_a_moved_row_leaves_it_in_its_partition(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set region = 'south' where id = 1")
    merged.subscribers[0].execute("update customer set name = 'mine' where id = 1")
    merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1, 2]]
    assert len(merged.conflicts()) == 1
    require_valid(merged)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("region =", "at character 9, a column or a value is expected, not the end"),
        ("no_such_column = 1", "(no such column: |column )customer.no_such_column"),
        ("id in (select id from customer)", "at character 8, rows of other tables are followed by a join filter"),
        ("random() > 0.5", "at character 1, random is none of the functions that filters may call"),
        ("id = 1) or pg_sleep(0) is null or (true", "at character 7, an operator or the end has to follow"),
        ("region = 'x' -- host_name()", "at character 14, comments are not part of row filters"),
        ("region = $$north$$", "at character 10, parameters are not part of row filters"),
        ("region = U&'\\006e'", "at character 11, & is no comparison of row filters"),
        ("region = e'\\x6e'", "at character 10, e is not one of date, .* which may precede a text"),
        ('name = "north"', "(no such column: |column )customer.north"),
    ],
)
def test_filter_not_decidable_from_the_row_is_refused(merged: Merge, condition: str, reason: str) -> None:
    merged.hub.execute(CUSTOMER)
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(FilterRefused, match=f"is refused: {reason}"):
        merged.merge.add_article(PUBLICATION, "customer", where=condition)
    assert merged.merge.status()[0].articles == ()
    merged.hub.execute("insert into customer (id) values (1)")


def test_filter_may_contain_text_that_looks_like_a_function(merged: Merge) -> None:
    where = "Customer.Region = HOST_NAME ( ) or \"name\" = 'host_name()'"
    merged.begin(
        CUSTOMER, *ROWS, subscriber_options=[{"partition": Partition("o'ne")}, NORTH], customer={"where": where}
    )

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [], [1]]


@pytest.mark.parametrize(
    "condition",
    [
        "host_name() = 'north'",
        "host_name() <> 'south'",
        "upper(host_name()) like 'NO%'",
        "coalesce(host_name(), 'none') in ('north', 'all')",
        "substr(host_name(), 1, 2) || suser_name() between 'no' and 'noz'",
        "not host_name() > 'o' and length(replace(trim(host_name()), 'n', '')) > 0",
        "nullif(host_name(), 'south') is not null",
    ],
)
def test_a_filter_may_ask_for_the_subscriber_alone(merged: Merge, condition: str) -> None:
    options: list[dict[str, Any]] = [
        {"partition": Partition("north", "me")},
        {"partition": Partition("south", "me")},
    ]
    where = f"region = host_name() or ({condition})"
    merged.begin(CUSTOMER, *ROWS, subscriber_options=options, customer={"where": where})
    merged.hub.execute("update customer set name = 'new' where id = 3")
    merged.settle()

    assert [ids(member) for member in merged.members] == [[1, 2, 3], [1, 2, 3], [2]]
    require_valid(merged)


def test_names_with_quotes_and_parentheses_are_names(merged: Merge) -> None:
    merged.hub.execute(
        'create table "o""dd) or (1=1" (id integer primary key, "re""gion) or (true" varchar(10), "user" varchar(10))',
        """insert into "o""dd) or (1=1" values (1, 'north', 'a'), (2, 'south', 'b')""",
    )
    merged.merge.add_publication(PUBLICATION)
    where = '"re""gion) or (true" = host_name() and user <> \'\''
    merged.merge.add_article(PUBLICATION, 'o"dd) or (1=1', where=where)
    for subscriber, options in zip(merged.subscribers, (NORTH, SOUTH), strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, **options)

    assert [ids(member, '"o""dd) or (1=1"') for member in merged.members] == [[1, 2], [1], [2]]


def test_a_filter_of_an_earlier_build_is_named_with_a_way_out(merged: Merge) -> None:
    begin(merged)
    with open_node(merged.hub.url) as hub, hub.transaction():
        publication = get_publication(hub.connection, PUBLICATION)
        (article,) = list_articles(hub.connection, publication.pubid)
        outdated = replace(article, subset_filter="region = host_name() -- as it was")
        set_definition(hub.connection, publication.pubid, outdated)
    merged.subscribers[0].execute("insert into customer (id, region) values (7, 'north')")

    with pytest.raises(StoredFilterRefused, match="change-article") as outdated_filter:
        merged.sync(0)
    with pytest.raises(FilterRefused, match="character 9"):
        merged.merge.change_article(PUBLICATION, "customer", where="region <")
    run_printed(outdated_filter.value, merged.hub.url, PUBLICATION=PUBLICATION, CONDITION="region <> host_name()")
    merged.settle(2)

    assert [ids(member) for member in merged.members] == [[1, 2, 3, 7], [2, 3], [1, 3, 7]]
    require_valid(merged)


def test_a_subscription_gives_what_the_filters_ask_for(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer", where="name = suser_sname()")

    with pytest.raises(PartitionValueMissing, match="--login"):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, **NORTH)


def test_a_converted_value_is_of_the_type_that_filters_need(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER, *ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer", where="id = cast(host_name() as int) or cast(id as text) = '3'")

    with pytest.raises(PartitionValueUnfit, match="bigint, which north is not"):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, **NORTH)
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, partition=Partition("2"))
    assert ids(merged.subscribers[0]) == [2, 3]


def test_subquery_is_refused_with_the_join_filter_to_write(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER, ORDERS)
    merged.merge.add_publication(PUBLICATION)
    written = 'add-filter orders customer "orders.customer_id = customer.id"'

    with pytest.raises(FilterRefused, match=written):
        merged.merge.add_article(PUBLICATION, "orders", where="customer_id in (select id from customer)")


def test_a_generation_without_rows_for_a_device_is_received(merged: Merge) -> None:
    begin(merged)
    merged.settle(2)
    merged.hub.execute("insert into customer (id, region) values (4, 'west')")
    with open_node(merged.hub.url) as hub, open_node(merged.subscribers[0].url) as device:
        name = address(merged.subscribers[0].url)
        before = pair(hub, device, PUBLICATION, name)
        assert merged.sync(0).is_quiet
        after = pair(hub, device, PUBLICATION, name)
    assert after.at_subscriber.received == after.at_hub.sent > before.at_hub.sent


def test_a_device_refuses_only_rows_that_it_was_sent(merged: Merge) -> None:
    begin(merged)
    kinds = (ConflictType.DOWNLOAD_UPDATE_FAILED, ConflictType.UPDATE_CONFLICT, ConflictType.UPLOAD_INSERT_FAILED)
    with open_node(merged.hub.url) as hub, open_node(merged.subscribers[0].url) as device:
        half = HubHalf(hub, pair(hub, device, PUBLICATION, address(merged.subscribers[0].url)))
        (article,) = half.pairing.articles
        sent, unsent = (merged.hub.rowguid("customer", key) for key in (1, 2))
        refused = [
            RefusedDownload(article.nickname, rowguid, "", kind, f"{kind}", "no", None, None, b"")
            for rowguid in (sent, unsent)
            for kind in kinds
        ]
        said = Acknowledgement(half.pairing.at_hub.session, "mark", half.pairing.at_hub.sent, refused=refused)
        unknown = replace(refused[0], article=article.nickname + 1, reason_code="unknown")
        half.acknowledge(replace(said, refused=[*refused, unknown]))
        kept = merged.merge.list_conflicts(PUBLICATION)
        assert [(one.rowguid, one.conflict_type) for one in kept] == [(sent, ConflictType.DOWNLOAD_UPDATE_FAILED)]
        assert [one.resolved_time for one in kept] == [None]

        other = {article.nickname + 1: [sent], article.nickname: [unsent]}
        half.acknowledge(replace(said, refused=[], accepted=other))
        assert [one.resolved_time for one in merged.merge.list_conflicts(PUBLICATION)] == [None]
        half.acknowledge(replace(said, refused=[], accepted={article.nickname: [sent]}))
        assert [one.resolved_time is None for one in merged.merge.list_conflicts(PUBLICATION)] == [False]
