"""Dotmim.Sync's lists of errors and of general scenarios (DMS-E, DMS-G), what of them other tests do not have.

Its matrix of conflicts is among the scenarios of constraints; G07, G09, G10 and G14 are of the lifecycle, G11 are the
many devices, G12 the partitions, G04 the log.
"""

from __future__ import annotations

import pytest

from builders.merge.merged_databases import FileMember, Merge, ServerMember
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.merge.api import MergeReplication
from rowtide.merge.errors.publishing import ArticleTableNotFound

PARENT = "create table parent (id integer primary key, name varchar(9) unique)"
CHILD = "create table child (id integer primary key, parent_id integer references parent (id), note varchar(9))"
NODE = "create table node (id integer primary key, above integer references node (id), name varchar(9))"
LINE = "create table line (a integer, b varchar(5), v integer, primary key (b, a))"


def require_at_rest(merged: Merge, *tables: str, columns: str = "*") -> None:
    merged.settle()
    merged.require_equal(*tables, columns=columns)
    assert all(summary.is_quiet for summary in merged.settle(1))


def with_refused_parent(merged: Merge) -> None:
    """A subscriber has a parent, with a child, whose name another row has at the hub."""
    merged.begin(PARENT, CHILD, "insert into parent values (1, 'a')", parent={}, child={})
    merged.hub.execute("insert into parent (id, name) values (2, 'same')")
    merged.subscribers[0].execute(
        "insert into parent (id, name) values (3, 'same')", "insert into child (id, parent_id) values (1, 3)"
    )
    assert merged.sync().upload.total.refused == 2


def test_e01_a_unique_key_taken_at_both_ends_leaves_one_row(merged: Merge) -> None:
    merged.begin(PARENT, parent={"compensate_for_errors": True})
    merged.hub.execute("insert into parent (id, name) values (1, 'same')")
    merged.subscribers[0].execute(
        "insert into parent (id, name) values (2, 'same')", "insert into parent (id, name) values (3, 'else')"
    )

    require_at_rest(merged, "parent", columns="id, name")
    assert len(merged.conflicts()) == 1
    assert {row[1] for row in merged.hub.rows("parent", "id, name")} == {"same", "else"}


def test_e03_a_refused_row_is_mended_by_deleting_it(merged: Merge) -> None:
    with_refused_parent(merged)
    merged.subscribers[0].execute("delete from child where id = 1", "delete from parent where id = 3")

    require_at_rest(merged, "parent", "child", columns="id")
    assert merged.hub.rows("child") == []


@pytest.mark.exhaustive
def test_e04_a_refused_row_is_mended_by_updating_it(merged: Merge) -> None:
    with_refused_parent(merged)
    merged.subscribers[0].execute("update child set parent_id = 1 where id = 1", "delete from parent where id = 3")

    require_at_rest(merged, "child", columns="id, parent_id")
    assert merged.hub.rows("child", "id, parent_id") == [(1, 1)]


def test_e05_a_refused_row_is_mended_by_bringing_its_parent(merged: Merge) -> None:
    with_refused_parent(merged)
    merged.hub.execute("update parent set name = 'other' where id = 2")

    require_at_rest(merged, "child", columns="id, parent_id")
    assert merged.hub.rows("child", "id, parent_id") == [(1, 3)]


@pytest.mark.parametrize("commits", [1, 2, 4, 6])
def test_e06_to_e08_connections_ended_by_the_server_lose_nothing(merged: Merge, commits: int) -> None:
    servers = [member for member in merged.members[:2] if isinstance(member, ServerMember)]
    if not servers:
        pytest.skip("a file has no connections that somebody else could end")
    merged.begin(PARENT, "insert into parent values (1, 'a'), (2, 'b')", parent={})
    merged.hub.execute("update parent set name = 'hub' where id = 1")
    merged.subscribers[0].execute(
        "update parent set name = 'sub' where id = 2", "insert into parent (id, name) values (3, 'c')"
    )

    def end() -> None:
        for server in servers:
            server.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                "where datname = current_database() and application_name = 'rowtide merge'"
            )

    with pytest.raises(ConnectionFailed, match="no connection to the database"):
        merged.sync_beside(0, commits, end)

    require_at_rest(merged, "parent", columns="id, name")
    assert merged.hub.rows("parent", "id, name") == [(1, "hub"), (2, "sub"), (3, "c")]
    assert merged.conflicts() == []


def test_g02_a_database_that_is_not_there_is_named(merged: Merge) -> None:
    merged.hub.execute(PARENT)
    merged.merge.add_publication("shop")
    with pytest.raises(ArticleTableNotFound):
        merged.merge.add_article("shop", "nothing")
    for url in ("sqlite:////nowhere/field.db", "postgresql://nobody@localhost:1/none"):
        with pytest.raises(RowtideError, match=r"^RT-\d+"):
            merged.merge.add_subscription("shop", url)
        with pytest.raises(RowtideError, match=r"^RT-\d+"):
            MergeReplication(url).add_publication("shop")


@pytest.mark.exhaustive
def test_g03_many_rows_go_up_and_down_in_their_last_state(merged: Merge) -> None:
    merged.begin(PARENT, parent={})
    rows = "select value, 'n' || value from json_each('[{0}]')"
    if isinstance(merged.subscribers[0], ServerMember):
        rows = "select v, 'n' || v from unnest(array[{0}]) v"
    numbers = ",".join(map(str, range(10_000)))
    merged.subscribers[0].execute(
        f"insert into parent (id, name) {rows.format(numbers)}",
        "update parent set name = 'm' || id where id % 2 = 0",
        "delete from parent where id % 5 = 0",
    )
    summary = merged.sync()

    assert summary.upload.total.inserts == 8_000
    require_at_rest(merged, "parent", columns="id, name")
    assert merged.hub.execute("select count(*) from parent where name = 'm' || id") == [(4_000,)]


def test_g06_composite_keys_and_rows_that_reference_each_other(merged: Merge) -> None:
    merged.begin(NODE, LINE, node={}, line={})
    # Children come with lower keys, and lower rowguids, than their parents.
    merged.subscribers[0].execute(
        "insert into node (id, above, name) values (9, null, 'root')",
        "insert into node (id, above, name) values (5, 9, 'middle')",
        "insert into node (id, above, name) values (1, 5, 'leaf')",
        "update node set above = 1 where id = 9",
        "insert into line (a, b, v) values (1, 'x', 1), (1, 'y', 2), (2, 'x', 3)",
    )
    merged.settle()
    merged.hub.execute("update line set b = 'z', a = 7 where v = 2", "delete from line where a = 2 and b = 'x'")

    require_at_rest(merged, "node", columns="id, above, name")
    require_at_rest(merged, "line", columns="a, b, v")
    assert merged.hub.rows("line", "a, b, v") == [(1, "x", 1), (7, "z", 2)]
    assert merged.conflicts() == []


def test_g15_node_is_the_same_under_another_spelling_of_its_url(merged: Merge) -> None:
    merged.begin(PARENT, "insert into parent values (1, 'a')", parent={})
    subscriber = merged.subscribers[0]
    if isinstance(subscriber, FileMember):
        folder, _, name = subscriber.url.rpartition("/")
        spelled = f"{folder}/./{name}"
    else:
        spelled = subscriber.url.replace("postgresql://", "postgresql+psycopg://")
    subscriber.execute("update parent set name = 'b'")
    summary = merged.merge.sync("shop", spelled)

    assert summary.upload.total.updates == 1
