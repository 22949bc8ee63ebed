"""Conflicts that a function of a PostgreSQL hub's database decides."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from fixtures.merged import KINDS
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.nodes import HandlerFailed
from rowtide.merge.errors.publishing import ResolverRefused

STOCK = 'create table stock (id integer primary key, name varchar(20), qty integer, "odd 1" text, secret text)'
ROWS = "insert into stock values (1, 'first', 1, 'a', 'x'), (2, 'second', 2, 'b', 'y'), (3, 'third', 3, 'c', 'z')"
COLUMNS = 'id, name, qty, "odd 1"'
LISTED = ["name", "qty", "odd 1"]
FUNCTION = """
create function public.decide(
    tableowner text, tablename text, row_id uuid, subscriber text, publisher_row stock, subscriber_row stock
) returns stock language plpgsql as $$
begin
    if subscriber_row.qty < 0 then
        raise exception 'no idea about %', subscriber_row.id;
    elsif subscriber_row.qty = 0 then
        return null;
    elsif subscriber_row.qty > 50 then
        return subscriber_row;
    end if;
    publisher_row.qty := publisher_row.qty + subscriber_row.qty;
    publisher_row.name := tablename || ' ' || publisher_row.secret;
    return publisher_row;
end $$
"""
RESOLVER: dict[str, Any] = {"resolver": "procedure:public.decide"}


AT_A_SERVER = pytest.mark.parametrize(
    "merged", [pytest.param(KINDS["server hub"], marks=pytest.mark.live)], indirect=True
)
AT_A_FILE = pytest.mark.parametrize("merged", [KINDS["files"]], indirect=True)


@pytest.fixture
def stock(merged: Merge) -> Merge:
    """A hub that has the function, with a table of three rows."""
    merged.hub.execute(STOCK, ROWS, FUNCTION)
    return merged


def begin(merged: Merge, **options: Any) -> None:
    merged.begin(stock=RESOLVER | options)


@AT_A_SERVER
@pytest.mark.parametrize(
    "options", [{}, {"column_tracking": True}, {"columns": LISTED}], ids=["rows", "columns", "list"]
)
def test_a_function_decides_about_each_row(stock: Merge, options: dict[str, Any]) -> None:
    begin(stock, **options)
    stock.hub.execute("update stock set qty = 10, name = 'hub'")
    stock.subscribers[0].execute(
        "update stock set qty = 5 where id = 1",
        "update stock set qty = 0 where id = 2",
        """update stock set qty = 60, "odd 1" = '{"a", \\, null}' where id = 3""",
    )
    stock.settle()

    assert stock.hub.rows("stock", COLUMNS) == [
        (1, "stock x", 15, "a"),
        (2, "hub", 10, "b"),
        (3, "third", 60, '{"a", \\, null}'),
    ]
    stock.require_equal("stock", columns=COLUMNS)
    assert len(stock.conflicts()) == 3
    assert all(summary.is_quiet for summary in stock.settle())


@AT_A_SERVER
def test_a_functions_row_is_new_only_where_it_differs(stock: Merge) -> None:
    begin(stock, column_tracking=True)
    stock.hub.execute("update stock set qty = 10 where id = 1")
    stock.subscribers[0].execute("update stock set qty = 5 where id = 1")
    stock.subscribers[1].execute("""update stock set "odd 1" = 'kept' where id = 1""")
    stock.settle()

    assert stock.hub.rows("stock", COLUMNS)[0] == (1, "stock x", 15, "kept")
    stock.require_equal("stock", columns=COLUMNS)
    assert len(stock.conflicts()) == 1


@AT_A_SERVER
def test_a_delete_is_not_for_the_function(stock: Merge) -> None:
    begin(stock)
    stock.hub.execute("update stock set qty = 10")
    stock.subscribers[0].execute("delete from stock where id = 1")
    stock.settle()

    assert stock.hub.rows("stock", "id, qty") == [(1, 10), (2, 10), (3, 10)]
    assert [kind for kind, *_ in stock.conflicts()] == [ConflictType.UPDATE_WINS_DELETE_CONFLICT]


@AT_A_SERVER
def test_a_failing_function_ends_the_sync_and_changes_nothing(stock: Merge) -> None:
    begin(stock)
    stock.hub.execute("update stock set qty = 10")
    stock.subscribers[0].execute("update stock set qty = -1")

    with pytest.raises(HandlerFailed, match="no idea about"):
        stock.sync()
    stock.hub.execute("drop function public.decide")
    with pytest.raises(HandlerFailed, match="is not there"):
        stock.sync()
    stock.hub.execute(FUNCTION.replace("< 0", "< -9"))
    stock.settle()
    assert stock.hub.rows("stock", "qty") == [(9,), (9,), (9,)]
    stock.require_equal("stock", columns=COLUMNS)


@AT_A_SERVER
@pytest.mark.parametrize(
    ("name", "reason"),
    [("public.nothing", "there is no function"), ("public.other", "does not return"), ("a b", "a b")],
)
def test_a_function_that_does_not_fit_is_refused(stock: Merge, name: str, reason: str) -> None:
    stock.hub.execute(
        "create function public.other(text, text, uuid, text, stock, stock) returns text language sql return 'a'"
    )
    stock.merge.add_publication(PUBLICATION)

    with pytest.raises(ResolverRefused, match=reason):
        stock.merge.add_article(PUBLICATION, "stock", resolver=f"procedure:{name}")


@AT_A_FILE
def test_a_function_at_a_file_is_refused_with_the_reason(merged: Merge) -> None:
    merged.hub.execute("create table stock (id integer primary key)")
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(ResolverRefused, match="a SQLite file has no functions"):
        merged.merge.add_article(PUBLICATION, "stock", **RESOLVER)
