"""Articles with some of their table's columns."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from rowtide.merge.errors.publishing import ColumnsRefused, MergeArticleExists, ResolverUnknown
from rowtide.merge.nodes.table_definitions import Omission

STAFF = (
    "create table staff (id integer primary key, name varchar(20), salary integer not null default 7, "
    "manager integer references staff (id), note text, unique (name, salary), check (salary > 0))"
)
ROW = "insert into staff (id, name, salary, note) values (1, 'first', 100, 'none')"
COLUMNS = "id, name, note"
LISTED: dict[str, Any] = {"columns": ["note", "name"]}


def begin(merged: Merge, **options: Any) -> None:
    merged.begin(STAFF, ROW, staff=LISTED | options)


def test_subscribers_have_the_listed_columns_and_the_key(merged: Merge) -> None:
    begin(merged)

    for subscriber in merged.subscribers:
        if isinstance(subscriber, FileMember):
            found = subscriber.execute("select name from pragma_table_info('staff') where name <> 'rowguid'")
        else:
            listed = "select column_name::text from information_schema.columns where table_name = 'staff'"
            found = subscriber.execute(f"{listed} and column_name <> 'rowguid' order by ordinal_position")
        assert found == [("id",), ("name",), ("note",)]
    merged.require_equal("staff", columns=COLUMNS)


@pytest.mark.parametrize("tracking", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_changes_of_listed_columns_travel_and_others_stay(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, **tracking)
    merged.subscribers[0].execute("insert into staff (id, name) values (2, 'sub')", "update staff set note = 'sub'")
    merged.hub.execute("update staff set salary = 200")
    merged.settle()

    assert merged.hub.rows("staff", "id, name, salary, note") == [(1, "first", 200, "sub"), (2, "sub", 7, "sub")]
    merged.require_equal("staff", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_an_update_of_an_unlisted_column_alone_sends_nothing(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update staff set salary = 200")

    assert all(summary.is_quiet for summary in merged.settle())


def test_what_a_table_has_over_unlisted_columns_is_reported(merged: Merge) -> None:
    merged.hub.execute(STAFF)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "staff", **LISTED)
    omissions: list[Omission] = []
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, on_omission=omissions.append)

    said = [f"{each.part.kind.value}: {each.reason}" for each in omissions]
    assert sorted(said) == [
        "check: column salary is not published",
        "foreign key: column manager is not published",
        "unique key: column salary is not published",
    ]


@pytest.mark.parametrize(
    ("columns", "reason"), [(["name", "nothing"], "no column nothing"), (["id"], "column name is not null")]
)
def test_columns_that_the_hub_could_not_do_without_are_refused(merged: Merge, columns: list[str], reason: str) -> None:
    merged.hub.execute("create table part (id integer primary key, name varchar(20) not null, note text)")
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(ColumnsRefused, match=reason):
        merged.merge.add_article(PUBLICATION, "part", columns=columns)


def test_a_second_publication_has_the_same_columns(merged: Merge) -> None:
    begin(merged)
    merged.merge.add_publication("other")

    with pytest.raises(MergeArticleExists, match="other columns"):
        merged.merge.add_article("other", "staff")
    with pytest.raises(ResolverUnknown):
        merged.merge.add_article("other", "staff", resolver="maximum:salary", **LISTED)
    merged.merge.add_article("other", "staff", **LISTED)
