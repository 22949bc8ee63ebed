"""Rows whose keys go round keep the rows that reference them, also those that their program does not know."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders.merge.merged_databases import Member, Merge, ServerMember

PARENT = "create table parent (id integer primary key, name varchar(20))"
CHILD = (
    "create table child (id integer primary key, note varchar(20), "
    "parent_id integer references parent (id) {action} deferrable)"
)
NAMES = "ABC"
MOVES = {
    "one": [("A", 7)],
    "two swap": [("A", 9), ("B", 1), ("A", 2)],
    "three go round": [("A", 9), ("C", 1), ("B", 3), ("A", 2)],
}


def begin(merged: Merge, action: str) -> None:
    merged.begin(
        PARENT,
        CHILD.format(action=action),
        *(f"insert into parent values ({key}, '{name}')" for key, name in enumerate(NAMES, 1)),
        *(f"insert into child values ({key}, 'known of {name}', {key})" for key, name in enumerate(NAMES, 1)),
        parent={},
        child={},
    )
    merged.settle(1)


def move(member: Member, moves: list[tuple[str, int]]) -> None:
    """Give parents new keys in one transaction, with all their children that the member knows."""
    deferring = "set constraints all deferred" if isinstance(member, ServerMember) else "pragma defer_foreign_keys = on"
    statements = ["begin", deferring]
    for name, key in moves:
        of_parent = f"parent_id = (select id from parent where name = '{name}')"
        statements += [
            f"update child set parent_id = {key} where {of_parent}",
            f"update parent set id = {key} where name = '{name}'",
        ]
    member.execute(*statements, "commit")


def insert_children(member: Member) -> None:
    member.execute(
        *(
            f"insert into child (id, note, parent_id) values ({10 + key}, 'offline of {name}', {key})"
            for key, name in enumerate(NAMES, 1)
        )
    )


def families(member: Member) -> list[tuple[str, str]]:
    found = member.execute("select c.note, p.name from child c join parent p on p.id = c.parent_id order by 1")
    return [(str(note), str(name)) for note, name in found]


def require_whole_families(merged: Merge) -> None:
    merged.settle(3)
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle(1))
    merged.require_equal("parent", "child", columns="id")
    expected = [(f"{what} of {name}", name) for what in ("known", "offline") for name in NAMES]
    assert [families(member) for member in merged.members] == [expected] * 3
    assert merged.conflicts() == []


@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES.keys())
@pytest.mark.parametrize("action", ["", "on update cascade"])
def test_rows_moved_at_a_device_keep_children_of_the_hub(
    merged: Merge, action: str, moves: list[tuple[str, int]]
) -> None:
    """The other subscriber has these children already."""
    begin(merged, action)
    insert_children(merged.hub)
    merged.sync(1)
    move(merged.subscribers[0], moves)
    require_whole_families(merged)


@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES.keys())
@pytest.mark.parametrize("action", ["", "on update cascade"])
def test_rows_moved_at_the_hub_keep_children_of_a_device(
    merged: Merge, action: str, moves: list[tuple[str, int]]
) -> None:
    begin(merged, action)
    insert_children(merged.subscribers[0])
    move(merged.hub, moves)
    require_whole_families(merged)


def test_swapped_keys_beside_refused_rows_keep_children(merged: Merge) -> None:
    """Where all together are refused, the two that swap are tried by themselves."""
    begin(merged, "")
    merged.hub.execute(
        "create unique index named on parent (name)", "insert into parent (id, name) values (20, 'taken')"
    )
    insert_children(merged.hub)
    device = merged.subscribers[0]
    device.execute("insert into parent (id, name) values (21, 'taken')")
    move(device, MOVES["two swap"])
    merged.settle(2)

    expected = [(f"{what} of {name}", name) for what in ("known", "offline") for name in NAMES]
    assert [families(member) for member in merged.members] == [expected] * 3


def test_the_last_rows_swap_keys_beside_refused_ones(merged: Merge) -> None:
    """Without children to come: all that waits is tried together, and then what swaps by itself."""
    merged.begin(
        PARENT,
        CHILD.format(action=""),
        "insert into parent values (1, 'A'), (2, 'B')",
        "insert into child values (1, 'known of A', 1)",
        parent={},
    )
    merged.settle(1)
    merged.hub.execute(
        "create unique index named on parent (name)", "insert into parent (id, name) values (20, 'taken')"
    )
    device = merged.subscribers[0]
    device.execute(
        "insert into parent (id, name) values (21, 'taken')",
        *(f"update parent set id = {key} where name = '{name}'" for name, key in MOVES["two swap"]),
    )
    merged.settle(2)

    moved = [(1, "B"), (2, "A"), (20, "taken")]
    assert merged.hub.rows("parent", "id, name") == moved
    assert families(merged.hub) == [("known of A", "A")]
    assert merged.subscribers[1].rows("parent", "id, name") == moved


def test_a_row_and_its_parent_swap_unique_values(merged: Merge) -> None:
    merged.begin(
        "create table part (id integer primary key, whole integer references part (id), place integer unique)",
        "insert into part values (1, null, 1), (2, 1, 2), (3, 2, 3)",
        part={},
    )
    merged.subscribers[0].execute(
        *("update part set place = null where id = 1", "update part set place = 1 where id = 2"),
        *("update part set place = 2 where id = 1",),
    )
    merged.settle()
    assert merged.conflicts() == []
    assert merged.hub.rows("part", "id, place") == [(1, 2), (2, 1), (3, 3)]
    merged.require_equal("part", columns="id, whole, place")


def test_children_stay_with_parents_that_swap_codes(merged: Merge) -> None:
    merged.begin(
        "create table customer (id integer primary key, code text unique, name text)",
        "create table orders (id integer primary key, name text, "
        "code text references customer (code) on update cascade)",
        "insert into customer values (1, 'a', 'one'), (2, 'b', 'two')",
        "insert into orders values (10, 'one', 'a'), (20, 'two', 'b')",
        customer={},
        orders={},
    )
    device, other = merged.subscribers
    other.execute("insert into orders (id, code, name) values (11, 'a', 'one')")
    merged.sync(1)
    codes = ((1, "x"), (2, "a"), (1, "b"))
    device.execute(*(f"update customer set code = '{code}' where id = {key}" for key, code in codes))
    merged.settle(3)

    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for member in merged.members:
        pairs = member.rows("orders o join customer c on c.code = o.code", "o.id, o.name, c.name")
        assert pairs == [(10, "one", "one"), (11, "one", "one"), (20, "two", "two")]


TREES = {
    "one references itself": ([("P", None), ("Z", None), ("C", "P")], [("P", "P"), ("Z", "P")]),
    "all follow another": ([("R", None), ("P", "R"), ("Z", "R"), ("C", "P")], [("R", "R"), ("Z", "R")]),
    "two are in a circle": ([("P", None), ("Z", None), ("C", "P")], [("P", "C"), ("Z", "P")]),
}
"""Rows of a table that references itself, each with the one above it, and what is above some of them later."""


@pytest.mark.parametrize(("rows", "changes"), TREES.values(), ids=TREES.keys())
def test_rows_stay_below_one_that_got_anothers_key(
    merged: Merge, rows: list[tuple[str, str | None]], changes: list[tuple[str, str]]
) -> None:
    """The row Z has another key then, and P has its."""
    keys = {name: key for key, (name, _) in enumerate(rows, 1)}
    merged.begin(
        "create table node (id integer primary key, name varchar(20), "
        "above integer references node (id) on update cascade)",
        *(
            f"insert into node values ({keys[name]}, '{name}', {keys[above] if above else 'null'})"
            for name, above in rows
        ),
        node={},
    )
    merged.settle(1)
    merged.hub.execute(
        *(f"update node set above = {keys[above]} where name = '{name}'" for name, above in changes),
        "update node set id = 10 where name = 'Z'",
        f"update node set id = {keys['Z']} where name = 'P'",
    )
    merged.settle(3)

    assert all(summary.is_quiet and not summary.refused for summary in merged.settle(1))
    expected = sorted((dict(rows) | dict(changes)).items())
    for member in merged.members:
        found = member.execute("select n.name, a.name from node n left join node a on a.id = n.above")
        assert sorted(found) == expected
    assert merged.conflicts() == []


@pytest.mark.parametrize("action", ["on update cascade", "on update cascade on delete cascade"])
def test_rows_that_follow_a_received_key_are_no_change(merged: Merge, action: str) -> None:
    """They come as the hub has them: nobody at the device has changed them."""
    merged.begin(
        PARENT,
        CHILD.format(action=action),
        "create table item (id integer primary key, above integer references item (id) on update cascade, note text)",
        "insert into parent values (1, 'A')",
        "insert into child values (1, 'before', 1)",
        "insert into item values (1, null, 'first'), (2, 1, 'before')",
        parent={"resolver": "subscriber-wins"},
        child={"resolver": "subscriber-wins"},
        item={"resolver": "subscriber-wins"},
    )
    merged.settle(1)
    merged.hub.execute(
        *("update parent set id = 7", "update child set note = 'later'"),
        *("update item set id = 7 where id = 1", "update item set note = 'later' where id = 2"),
    )
    merged.settle(1)

    assert all(summary.is_quiet for summary in merged.settle(1))
    for member in merged.members:
        assert member.rows("child", "id, note, parent_id") == [(1, "later", 7)]
        assert member.rows("item", "id, above, note") == [(2, 7, "later"), (7, None, "first")]
    assert merged.conflicts() == []


def test_rows_that_follow_over_levels_are_no_change(merged: Merge) -> None:
    merged.begin(
        "create table country (code varchar(9) primary key)",
        "create table state (country varchar(9) references country (code) on update cascade, code varchar(9), "
        "note text, primary key (country, code))",
        "create table city (id integer primary key, country varchar(9), state varchar(9), note text, "
        "foreign key (country, state) references state (country, code) on update cascade)",
        "insert into country values ('a'), ('b')",
        "insert into state values ('a', 'x', 'before'), ('b', 'x', 'before')",
        "insert into city values (1, 'a', 'x', 'before'), (2, 'b', 'x', 'before')",
        country={"resolver": "subscriber-wins"},
        state={"resolver": "subscriber-wins"},
        city={"resolver": "subscriber-wins"},
    )
    merged.settle(1)
    merged.hub.execute(
        "update country set code = 'c' where code = 'a'",
        "update state set note = 'later'",
        "update city set note = 'later'",
    )
    merged.settle(1)

    assert all(summary.is_quiet for summary in merged.settle(1))
    for member in merged.members:
        assert member.rows("city", "id, country, state, note") == [(1, "c", "x", "later"), (2, "b", "x", "later")]
    assert merged.conflicts() == []


@pytest.mark.parametrize("names", [("C", "Z", "P"), ("C", "P", "Z"), ("Z", "C", "P")], ids="".join)
def test_a_row_goes_with_its_parent_of_another_batch(merged: Merge, names: Sequence[str]) -> None:
    """The row Z has another key then, P has its, and C follows P; what is between them fills batches."""
    fillers, keys = 2100, {"P": 1, "Z": 2, "C": 3}
    numbers = f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {fillers})"
    merged.begin(
        "create table node (id integer primary key, name varchar(20), "
        "above integer references node (id) on update cascade)",
        *(
            f"insert into node (id, name) values ({keys[name]}, '{name}')"
            if name
            else f"{numbers} insert into node (id, name) select {10 + place} * 10000 + n, 'filler' from s"
            for place, name in enumerate([names[0], "", names[1], "", names[2]])
        ),
        "update node set above = 1 where name = 'C'",
        node={},
    )
    merged.settle(1)
    merged.hub.execute(
        "update node set id = 10 where name = 'Z'",
        "update node set id = 2 where name = 'P'",
        "update node set name = 'other' where name = 'filler'",
    )
    merged.settle(2)

    assert all(summary.is_quiet and not summary.refused for summary in merged.settle(1))
    for member in merged.members:
        found = member.rows("node n left join node a on a.id = n.above", "n.name, n.id, a.name")
        assert [row for row in found if row[0] != "other"] == [("C", 3, "P"), ("P", 2, None), ("Z", 10, None)]
    assert merged.conflicts() == []


WRITES = {
    "another key": "update item set id = 7 where id = 1",
    "a referenced key": "update item set id = 7 where id = 2",
    "a delete": "delete from item where id = 1",
}


@pytest.mark.parametrize("action", ["cascade", "set null"])
@pytest.mark.parametrize("statement", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("place", [0, 1], ids=["at the hub", "at a device"])
def test_rows_beside_one_that_moves_are_no_change(merged: Merge, place: int, statement: str, action: str) -> None:
    """In a table that refers to itself; they are written together, and nobody else has changed them."""
    merged.begin(
        "create table item (id integer primary key, note text, "
        f"above integer references item (id) on update {action} on delete {action})",
        "insert into item (id, note, above) values (1, 'a', null), (2, 'b', null), (3, 'c', 2), (4, 'd', null)",
        item={},
    )
    merged.settle(1)
    merged.members[place].execute(statement, "update item set note = 'later'")
    merged.settle(1)

    assert all(summary.is_quiet for summary in merged.settle(1))
    merged.require_equal("item", columns="id, note, above")
    assert merged.conflicts() == []


def test_a_row_goes_with_its_parent_in_a_circle(merged: Merge) -> None:
    """The team Z has another key then, P has its, and C's team is P; one of the tables comes first."""
    reference = "references team (id) on update cascade"
    team = "create table team (id integer primary key, name text, head integer references person (id))"
    person = f"create table person (id integer primary key, name text, team integer {reference})"
    tables = [team, person]
    if isinstance(merged.hub, ServerMember):
        later = f"alter table person add foreign key (team) {reference}"
        tables = [person.replace(reference, ""), team, later]
    merged.begin(
        *tables,
        "insert into team (id, name) values (1, 'P'), (2, 'Z')",
        "insert into person values (3, 'C', 1)",
        "update team set head = 3 where id = 1",
        person={},
        team={},
    )
    merged.settle(1)
    merged.hub.execute("update team set id = 10 where name = 'Z'", "update team set id = 2 where name = 'P'")
    merged.settle(1)

    assert all(summary.is_quiet for summary in merged.settle(1))
    for member in merged.members:
        assert member.rows("team t left join person h on h.id = t.head", "t.id, t.name, h.name") == [
            (10, "Z", None),
            (2, "P", "C"),
        ]
        assert member.rows("person", "id, name, team") == [(3, "C", 2)]
    assert merged.conflicts() == []


def test_a_chain_of_rows_takes_few_transactions(merged: Merge) -> None:
    """Each row references the one before; they come to a device in as many steps, which share a transaction."""
    rows = 30
    merged.begin("create table item (id integer primary key, above integer references item (id))", item={})
    merged.settle(1)
    merged.hub.execute(*(f"insert into item (id, above) values ({rows - n}, null)" for n in range(rows)))
    merged.hub.execute("update item set above = id - 1 where id > 1")
    assert not merged.cut_sync(0, rows // 2, is_before=False)
    merged.settle(1)

    assert all(summary.is_quiet for summary in merged.settle(1))
    merged.require_equal("item", columns="id, above")
