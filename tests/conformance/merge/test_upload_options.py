"""What subscriptions of type client may do: changes that stay where they are, and tables that are only read."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest

from builders.merge.merged_databases import PUBLICATION, SERVER, Merge, ServerMember
from rowtide.merge.articles import UploadOptions
from rowtide.merge.errors.publishing import DirectionsChanged, MergeArticleExists, UploadOptionsRefused

PRICE = "create table price (id integer primary key, name varchar(20), qty integer)"
ROW = "insert into price values (1, 'first', 1)"
COLUMNS = "id, name, qty"
KEPT_LOCAL, PROHIBITED = UploadOptions.KEPT_LOCAL, UploadOptions.PROHIBITED
REFUSED = (sqlite3.IntegrityError, psycopg.errors.RaiseException)
TRACKED: dict[str, Any] = {"column_tracking": True}


def begin(merged: Merge, options: UploadOptions, *, subscriber: dict[str, Any] | None = None, **others: Any) -> None:
    merged.begin(PRICE, ROW, subscriber_options=[subscriber or {}, {}], price={"upload_options": options} | others)


def metadata_rows(merged: Merge, number: int = 0) -> int:
    member = merged.subscribers[number]
    prefix = "rowtide_merge." if isinstance(member, ServerMember) else ""
    tables = ("MSmerge_contents", "MSmerge_tombstone", "MSmerge_log")
    return sum(int(member.execute(f'select count(*) from {prefix}"{table}"')[0][0]) for table in tables)


@pytest.mark.parametrize("options", [KEPT_LOCAL, PROHIBITED])
@pytest.mark.parametrize("tracking", [{}, TRACKED], ids=["rows", "columns"])
def test_the_hubs_changes_arrive_without_metadata(
    merged: Merge, options: UploadOptions, tracking: dict[str, Any]
) -> None:
    begin(merged, options, **tracking)
    merged.hub.execute("update price set qty = 2", "update price set name = 'hub'")
    merged.settle()
    merged.hub.execute("delete from price where id = 1", "insert into price (id, qty) values (3, 3)")
    merged.settle()

    assert merged.hub.rows("price", COLUMNS) == [(3, None, 3)]
    merged.require_equal("price", columns=COLUMNS)
    assert all(summary.is_quiet for summary in merged.settle())
    assert [metadata_rows(merged, number) for number in range(2)] == [0, 0]


def test_changes_kept_at_a_client_stay_until_the_hub_has_others(merged: Merge) -> None:
    begin(merged, KEPT_LOCAL)
    device = merged.subscribers[0]
    device.execute("update price set name = 'sub'", "insert into price (id, qty) values (2, 2)")
    merged.settle()
    assert merged.hub.rows("price", COLUMNS) == [(1, "first", 1)]
    assert device.rows("price", COLUMNS) == [(1, "sub", 1), (2, None, 2)]

    merged.hub.execute("update price set qty = 5")
    merged.settle()
    assert device.rows("price", COLUMNS) == [(1, "first", 5), (2, None, 2)]
    assert merged.conflicts() == []
    assert merged.subscribers[1].rows("price", COLUMNS) == [(1, "first", 5)]


@pytest.mark.parametrize(
    "statement",
    ["update price set qty = 2", "delete from price", "insert into price (id) values (2)"],
)
def test_a_prohibited_change_is_refused_with_the_reason(merged: Merge, statement: str) -> None:
    begin(merged, PROHIBITED)

    for subscriber in merged.subscribers:
        with pytest.raises(REFUSED, match="RT-8093: price may only be changed at the publisher"):
            subscriber.execute(statement)
    merged.hub.execute("update price set qty = 7")
    merged.settle()
    merged.require_equal("price", columns=COLUMNS)


@pytest.mark.parametrize("options", [KEPT_LOCAL, PROHIBITED])
def test_a_server_uploads_whatever_the_options(merged: Merge, options: UploadOptions) -> None:
    begin(merged, options, subscriber=SERVER)
    merged.subscribers[0].execute("update price set qty = 9")
    merged.settle()

    assert merged.hub.rows("price", COLUMNS) == [(1, "first", 9)]
    merged.require_equal("price", columns=COLUMNS)


@pytest.mark.parametrize(
    ("earlier", "later"), [(UploadOptions.ALLOWED, PROHIBITED), (PROHIBITED, UploadOptions.ALLOWED)]
)
def test_other_upload_options_need_a_reinitialisation(
    merged: Merge, earlier: UploadOptions, later: UploadOptions
) -> None:
    begin(merged, earlier)
    merged.subscribers[0].execute("update price set qty = 2") if earlier is UploadOptions.ALLOWED else None
    merged.merge.change_article(PUBLICATION, "price", upload_options=later)

    for number, subscriber in enumerate(merged.subscribers):
        with pytest.raises(DirectionsChanged, match="price"):
            merged.merge.list_pending(PUBLICATION, subscriber.url)
        with pytest.raises(DirectionsChanged, match="price"):
            merged.sync(number)
        merged.merge.reinitialize(PUBLICATION, subscriber.url, upload_first=True)
    qty = 2 if earlier is UploadOptions.ALLOWED else 1
    if later is UploadOptions.ALLOWED:
        merged.subscribers[0].execute("update price set qty = 3")
        qty = 3
    merged.settle()
    assert merged.hub.rows("price", COLUMNS) == [(1, "first", qty)]
    merged.require_equal("price", columns=COLUMNS)
    assert merged.merge.validate(PUBLICATION, merged.subscribers[0].url, checksum=True)[0].is_equal


def test_options_that_do_not_fit_are_refused(merged: Merge) -> None:
    merged.hub.execute(PRICE)
    merged.merge.add_publication(PUBLICATION)
    with pytest.raises(UploadOptionsRefused, match="upload-only"):
        merged.merge.add_article(PUBLICATION, "price", resolver="upload-only", upload_options=KEPT_LOCAL)
    merged.merge.add_article(PUBLICATION, "price", upload_options=KEPT_LOCAL)
    merged.merge.add_publication("other")
    with pytest.raises(MergeArticleExists, match="upload options"):
        merged.merge.add_article("other", "price")
