"""What a synchronisation of files does is in proportion to what was changed, not to the table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge, open_file_member
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.synchronisation import synchronise

STEPS = 100
"""Of SQLite's virtual machine, between two calls of what counts them."""
SIZES = (500, 10_000)
CHANGED = 20
OPERATIONS = {
    "update": f"update item set qty = qty + 1 where id <= {CHANGED}",
    "delete": f"delete from item where id <= {CHANGED}",
    "insert": (
        f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {CHANGED}) "
        "insert into item (id, qty) select -n, n from s"
    ),
}


def begin(folder: Path, opened: ExitStack, rows: int, where: str | None) -> Merge:
    """A hub and a subscriber, where something is known of each row; all that is asked is asked in one connection."""
    merged = open_both(folder, opened)
    merged.begin("create table item (id integer primary key, qty integer)", item={"where": where})
    merged.hub.execute(fill(rows))
    merged.settle(2)
    return merged


def open_both(folder: Path, opened: ExitStack) -> Merge:
    folder.mkdir()
    hub, subscriber = (
        opened.enter_context(open_file_member(folder / f"{name}.db", journal="delete")) for name in ("hub", "device")
    )
    return Merge(hub, [subscriber])


def fill(rows: int) -> str:
    numbers = f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"
    return f"{numbers} insert into item (id, qty) select n, 0 from s"


def count_steps(merged: Merge) -> int:
    """Synchronise; return how many steps of its machine SQLite took for it at both ends, in hundreds."""
    steps = 0

    def note() -> int:
        nonlocal steps
        steps += 1
        return 0

    url = merged.subscribers[0].url
    with open_node(merged.hub.url) as hub, open_node(url) as subscriber:
        for node in (hub, subscriber):
            session_of(node).set_progress_handler(note, STEPS)
        synchronise(hub, subscriber, pair(hub, subscriber, PUBLICATION, address(url)))
    return steps


def session_of(node: Node) -> sqlite3.Connection:
    session = node.connection.connection.driver_connection
    assert isinstance(session, sqlite3.Connection)
    return session


@pytest.mark.parametrize("where", [None, "qty >= 0"], ids=["whole", "filtered"])
@pytest.mark.parametrize("place", ["hub", "subscriber"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_few_changes_take_as_many_steps_in_a_large_table(
    tmp_path: Path, operation: str, place: str, where: str | None
) -> None:
    taken = []
    for rows in SIZES:
        with ExitStack() as opened:
            merged = begin(tmp_path / str(rows), opened, rows, where)
            member = merged.hub if place == "hub" else merged.subscribers[0]
            assert isinstance(member, FileMember)
            member.execute(OPERATIONS[operation])
            taken.append(count_steps(merged))
            merged.require_equal("item", columns="id, qty")
    small, large = taken

    assert small > 0
    assert large < small * 1.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("changed", ["item", "line"])
def test_under_a_join_filter_too(tmp_path: Path, changed: str) -> None:
    require_steps_of_changes(tmp_path, begin_joined, SIZES, changed)


def require_steps_of_changes(
    folder: Path, begun: Callable[[Path, ExitStack, int], Merge], sizes: Sequence[int], changed: str
) -> None:
    """As many changed rows take as many steps, however many rows a table has."""
    taken = []
    for rows in sizes:
        with ExitStack() as opened:
            merged = begun(folder / str(rows), opened, rows)
            merged.hub.execute(f"update {changed} set qty = qty + 1 where id <= {CHANGED}")
            taken.append(count_steps(merged))
            merged.require_equal("item", "line", columns="id, qty")
    small, large = taken

    assert small > 0
    assert large < small * 1.5


def begin_joined(folder: Path, opened: ExitStack, rows: int) -> Merge:
    """As `begin`, with a line for each item, which a subscriber has that has the item."""
    merged = open_both(folder, opened)
    merged.hub.execute(
        "create table item (id integer primary key, qty integer)",
        "create table line (id integer primary key, item_id integer references item (id), qty integer)",
        "create index line_item on line (item_id)",
    )
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="qty >= 0")
    merged.merge.add_article(PUBLICATION, "line")
    merged.merge.add_filter(PUBLICATION, "line", "item", "line.item_id = item.id")
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url)
    merged.hub.execute(fill(rows), "insert into line (id, item_id, qty) select id, id, 0 from item")
    merged.settle(2)
    return merged


@pytest.mark.parametrize("changed", ["grade", pytest.param("line", marks=pytest.mark.exhaustive)])
def test_over_joins_as_many_steps_as_rows_follow(tmp_path: Path, changed: str) -> None:
    require_steps_of_changes(tmp_path, begin_chain, (300, 3000), changed)


def begin_chain(folder: Path, opened: ExitStack, rows: int) -> Merge:
    """Items of grades, which follow each other in twos, and lines of items, which their details follow."""
    merged = open_both(folder, opened)
    merged.hub.execute(
        "create table grade (id integer primary key, above integer, qty integer)",
        "create table item (id integer primary key, grade_id integer, qty integer)",
        "create table line (id integer primary key, item_id integer, qty integer)",
        "create table detail (id integer primary key, line_id integer, qty integer)",
        *(
            f"create index {table}_{column} on {table} ({column})"
            for table, column in (("grade", "above"), ("item", "grade_id"), ("line", "item_id"), ("detail", "line_id"))
        ),
    )
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "grade", where="above is null")
    for table in ("item", "line", "detail"):
        merged.merge.add_article(PUBLICATION, table)
    for child, parent, condition in (
        ("grade", "grade", "grade.above = parent.id"),
        ("item", "grade", "item.grade_id = grade.id"),
        ("line", "item", "line.item_id = item.id"),
        ("detail", "line", "detail.line_id = line.id"),
    ):
        merged.merge.add_filter(PUBLICATION, child, parent, condition)
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url)
    numbers = f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"
    merged.hub.execute(
        f"{numbers} insert into grade (id, above, qty) select n, case when n % 2 = 0 then n - 1 end, 0 from s",
        "insert into item (id, grade_id, qty) select id, id, 0 from grade",
        "insert into line (id, item_id, qty) select id, id, 0 from item",
        "insert into detail (id, line_id, qty) select id, id, 0 from line",
    )
    merged.settle(2)
    return merged
