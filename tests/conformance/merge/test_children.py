"""A child goes with its own parent, whose key another row has at the hub."""

from __future__ import annotations

import json

import pytest

from builders.merge.merged_databases import Member, Merge
from builders.merge_machines.merge_machine_base import require_foreign_keys
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.errors.publishing import KeyNotNumbered
from rowtide.merge.errors.rows import ParentInInbox

ORDERS = "create table orders (id integer primary key, customer text)"
LINE = "create table line (id text primary key, order_id integer references orders (id), item text)"
PART = "create table part (id text primary key, line_id text references line (id))"
TABLES = ("orders", "line", "part")
COLUMNS = {"orders": "id, customer", "line": "id, order_id, item", "part": "id, line_id"}


def begin(merged: Merge, action: str = "", **options: str) -> None:
    """Merge the tables; `action` is that of the foreign keys."""
    children = (table.replace("(id)", f"(id) {action}") for table in (LINE, PART))
    merged.begin(ORDERS, *children, orders=options, line={}, part={})


def insert(member: Member, name: str, key: int = 1) -> None:
    """Insert an order with a line and a part, all called alike."""
    member.execute(
        f"insert into orders (id, customer) values ({key}, '{name}')",
        f"insert into line (id, order_id, item) values ('{name}', {key}, '{name}')",
        f"insert into part (id, line_id) values ('{name}', '{name}')",
    )


def insert_apart(merged: Merge) -> None:
    for name, member in zip("ab", merged.subscribers, strict=True):
        insert(member, name)


def families(member: Member) -> list[tuple[str, ...]]:
    """Return the orders that have a line with a part."""
    joined = "orders o join line l on l.order_id = o.id join part p on p.line_id = l.id"
    return member.rows(joined, "customer, l.id, p.id")


def require_at_rest(merged: Merge) -> None:
    merged.settle()
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for table, columns in COLUMNS.items():
        merged.require_equal(table, columns=columns)


def test_children_go_to_the_inbox_with_their_parent(merged: Merge) -> None:
    begin(merged)
    insert_apart(merged)
    assert [merged.sync(number).refused for number in (0, 1)] == [0, 0]

    assert [families(member) for member in merged.members] == [[("a", "a", "a")]] * 3
    assert [len(member.rows(table)) for member in merged.members for table in TABLES] == [1] * 9
    kept = merged.merge.list_conflicts()
    assert sorted(each.article for each in kept) == ["line", "orders", "part"]
    assert all("b" in json.loads(each.losing_row or "").values() for each in kept)
    require_at_rest(merged)


@pytest.mark.parametrize(
    "action",
    [
        "on delete cascade",
        pytest.param("on delete set null", marks=pytest.mark.exhaustive),
        pytest.param("on delete restrict on update cascade", marks=pytest.mark.exhaustive),
    ],
)
def test_an_action_spares_the_children_of_the_keys_winner(merged: Merge, action: str) -> None:
    begin(merged, action)
    insert_apart(merged)
    assert [merged.sync(number).refused for number in (0, 1)] == [0, 0]
    require_at_rest(merged)

    assert [families(member) for member in merged.members] == [[("a", "a", "a")]] * 3


def test_an_action_spares_rows_of_the_table_itself(merged: Merge) -> None:
    merged.begin(
        "create table node (id integer primary key, above integer references node (id) on delete cascade, name text)",
        node={},
    )
    for first, name, member in ((1, "a", merged.subscribers[0]), (2, "b", merged.subscribers[1])):
        values = f"(1, null, '{name}1'), ({first * 10}, 1, '{name}2'), ({first * 10 + 1}, {first * 10}, '{name}3')"
        member.execute(f"insert into node (id, above, name) values {values}")
    merged.settle()
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for member in merged.members:
        assert member.rows("node", "id, above, name") == [(1, None, "a1"), (10, 1, "a2"), (11, 10, "a3")]


@pytest.mark.exhaustive
def test_rows_of_the_hub_go_with_their_parent_too(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    insert_apart(merged)
    require_at_rest(merged)

    assert families(merged.hub) == [("b", "b", "b")]
    kept = merged.merge.list_conflicts()
    assert sorted(each.article for each in kept) == ["line", "orders", "part"]
    assert all("a" in json.loads(each.losing_row or "").values() for each in kept)


@pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])
def test_resolving_restores_a_parent_with_its_children(merged: Merge, resolver: str) -> None:
    begin(merged, resolver=resolver)
    insert_apart(merged)
    merged.settle()
    kept = {each.article: each for each in merged.merge.list_conflicts()}
    with pytest.raises(ParentInInbox, match=r"is a row of \S*part whose parent in \S*line"):
        merged.merge.resolve(kept["part"].conflict_id, Winner.SUBSCRIBER)

    assert merged.merge.resolve(kept["orders"].conflict_id, Winner.SUBSCRIBER)
    assert all(each.resolved_time is not None for each in merged.merge.list_conflicts())
    require_at_rest(merged)
    assert families(merged.hub) == [("a", "a", "a"), ("b", "b", "b")]
    assert sorted(key for (key,) in merged.hub.rows("orders", "id")) == [1, 2]


@pytest.mark.exhaustive
def test_resolving_for_the_winner_settles_the_children(merged: Merge) -> None:
    begin(merged)
    insert_apart(merged)
    merged.settle()
    kept = {each.article: each for each in merged.merge.list_conflicts()}

    merged.merge.resolve(kept["orders"].conflict_id, Winner.PUBLISHER)
    assert all(each.resolved_time is not None for each in merged.merge.list_conflicts())
    require_at_rest(merged)
    assert families(merged.hub) == [("a", "a", "a")]


def test_late_children_follow_their_parent_to_the_inbox(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    insert(merged.subscribers[0], "a")
    merged.settle()
    insert(merged.hub, "z", key=9)
    merged.subscribers[1].execute("insert into line (id, order_id, item) values ('late', 1, 'a')")
    merged.subscribers[0].execute("delete from part", "delete from line", "delete from orders")
    merged.subscribers[0].execute("insert into orders (id, customer) values (1, 'new')")
    merged.settle()

    require_at_rest(merged)
    assert [row for row in merged.hub.rows("line", "id, item") if row[0] == "late"] == []
    assert "late" in {json.loads(each.losing_row or "{}").get("id") for each in merged.merge.list_conflicts()}


def test_a_line_moved_to_an_order_that_loses_moves_back(merged: Merge) -> None:
    begin(merged)
    insert(merged.hub, "old", key=7)
    merged.settle()
    merged.subscribers[0].execute("insert into orders (id, customer) values (1, 'a')")
    merged.subscribers[1].execute(
        "insert into orders (id, customer) values (1, 'b')", "update line set order_id = 1 where id = 'old'"
    )

    require_at_rest(merged)
    assert merged.hub.rows("line", "id, order_id") == [("old", 7)]
    assert sorted(each.article for each in merged.merge.list_conflicts()) == ["line", "orders"]


@pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])
def test_trees_of_one_table_stay_together(merged: Merge, resolver: str) -> None:
    merged.begin(
        "create table node (id integer primary key, above integer references node (id), name text)",
        node={"resolver": resolver},
    )
    for name, member in zip("ab", merged.subscribers, strict=True):
        key = ord(name)
        member.execute(
            f"insert into node (id, above, name) values (1, null, '{name}')",
            f"insert into node (id, above, name) values ({key}, 1, '{name}')",
            f"insert into node (id, above, name) values ({key + 10}, {key}, '{name}')",
        )
    merged.settle()

    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    merged.require_equal("node", columns="id, above, name")
    assert len({name for _, _, name in merged.hub.rows("node", "id, above, name")}) == 1
    assert len(merged.hub.rows("node")) == len(merged.merge.list_conflicts()) == 3


@pytest.mark.exhaustive
def test_composite_keys_find_their_own_parents(merged: Merge) -> None:
    merged.begin(
        "create table stop (route integer, place text, name text, primary key (route, place))",
        "create table visit (id text primary key, route integer, place text, "
        "foreign key (route, place) references stop (route, place))",
        stop={},
        visit={},
    )
    for name, member in zip("ab", merged.subscribers, strict=True):
        member.execute(
            f"insert into stop (route, place, name) values (1, 'p', '{name}')",
            f"insert into visit (id, route, place) values ('{name}', 1, 'p')",
        )
    merged.settle()

    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for member in merged.members:
        assert member.rows("stop s join visit v on v.route = s.route and v.place = s.place", "name, v.id") == [
            ("a", "a")
        ]


def test_keys_of_parents_changed_at_the_hub_reach_children(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into orders (id, customer) values (1, 'a')")
    merged.settle()
    merged.hub.execute("update orders set id = 5", "insert into orders (id, customer) values (1, 'other')")
    merged.subscribers[0].execute("insert into line (id, order_id, item) values ('a', 1, 'a')")
    merged.sync(0)

    require_at_rest(merged)
    assert merged.hub.rows("line", "id, order_id") == [("a", 5)]
    assert merged.merge.list_conflicts() == []


@pytest.mark.exhaustive
def test_a_key_is_free_once_its_row_went_with_its_parent(merged: Merge) -> None:
    begin(merged, resolver="subscriber-wins")
    merged.hub.execute("insert into orders (id, customer) values (1, 'both')")
    merged.settle()
    for member, name, order in ((merged.hub, "hub", 7), (merged.subscribers[0], "device", 1)):
        member.execute(
            f"insert into orders (id, customer) values (7, '{name}')",
            f"insert into line (id, order_id, item) values ('one key', {order}, '{name}')",
        )

    assert merged.sync().refused == 0
    assert merged.hub.rows("line", "id, item") == [("one key", "device")]
    require_at_rest(merged)


@pytest.mark.exhaustive
def test_a_parents_key_leaves_no_child_of_others_alone(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into orders (id, customer) values (1, 'hub')")
    merged.settle()
    first, second = merged.subscribers
    second.execute("insert into line (id, order_id) values ('second', 1)")
    merged.sync(1)
    first.execute("update orders set id = 4 where id = 1")

    merged.sync(0)
    require_foreign_keys(merged)
    merged.settle()
    require_foreign_keys(merged)
    assert merged.hub.rows("line", "id, order_id") == [("second", 1)]


@pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])
def test_losers_of_keys_get_new_ones_with_their_children(merged: Merge, resolver: str) -> None:
    merged.begin(
        NUMBERED[type(merged.hub).__name__],
        LINE,
        PART,
        orders={"renumber": True, "resolver": resolver},
        line={},
        part={},
    )
    insert_apart(merged)
    merged.sync(0)
    merged.sync(1)
    merged.subscribers[0].execute(
        "insert into line (id, order_id, item) select 'c', id, 'c' from orders where customer = 'a'"
    )

    require_at_rest(merged)
    assert families(merged.hub) == [("a", "a", "a"), ("b", "b", "b")]
    assert merged.hub.rows("orders o join line l on l.order_id = o.id", "customer, l.id")[1] == ("a", "c")
    (kept,) = merged.merge.list_conflicts()
    assert "this one has 2 now" in kept.reason_text
    merged.hub.execute("insert into orders (customer) values ('next')")
    require_at_rest(merged)


NUMBERED = {
    "FileMember": ORDERS,
    "ServerMember": "create table orders (id serial primary key, customer text)",
}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("code text primary key", "type text"),
        ("a integer, b integer, primary key (a, b)", "2 columns"),
    ],
    ids=["text", "composite"],
)
def test_keys_that_programs_choose_are_not_renumbered(merged: Merge, table: str, reason: str) -> None:
    merged.hub.execute(f"create table thing ({table})")
    merged.merge.add_publication("shop")
    with pytest.raises(KeyNotNumbered, match=reason):
        merged.merge.add_article("shop", "thing", renumber=True)
