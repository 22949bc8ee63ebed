"""Articles that are changed while they are delivered: filter, columns and commands."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.publishing import (
    PublishedColumnListedTwice,
    PublishedColumnUnknown,
    PublishedKeyColumnMissing,
)
from rowtide.replication.subscription_settings import SyncType

ITEMS = "create table items (id int primary key, qty int not null, note text)"
OTHERS = "create table others (id int primary key)"
FILLED = "insert into items select i, i % 10, 'note ' || i from generate_series(1, 100) i"


@pytest.fixture
def shop(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscriber of items with an even quantity, and of another table."""
    replicated.publish(ITEMS, OTHERS, FILLED, items={"where": "qty <> 3"}, others={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    return replicated


def require_items(shop: ReplicatedDatabase, where: str = "true", columns: str = "*") -> None:
    """The subscriber has these items, in these columns."""
    items = shop.subscriber.execute(f"select {columns} from items order by id")
    assert items == shop.publisher.execute(f"select {columns} from items where {where} order by id")


def test_filter_is_changed_and_rows_are_copied_again(shop: ReplicatedDatabase) -> None:
    assert shop.replication.find_copying("shop", "items", where="qty < 5") == (shop.subscriber.url,)
    shop.replication.change_article("shop", "items", where="qty < 5")
    shop.publisher.execute("update items set qty = 9 - qty where id < 50", "insert into others values (1)")
    shop.deliver()

    require_items(shop, "qty < 5")
    shop.require_equal("others")
    shop.publisher.execute("update items set qty = 9 - qty")
    shop.deliver()
    require_items(shop, "qty < 5")


@pytest.mark.exhaustive
def test_all_rows_come_without_the_filter(shop: ReplicatedDatabase) -> None:
    shop.replication.change_article("shop", "items", without_filter=True)
    shop.deliver()

    require_items(shop)


@pytest.mark.exhaustive
def test_commands_are_changed_without_a_copy(shop: ReplicatedDatabase) -> None:
    commands = {Operation.UPDATE: Command(CallFormat.XCALL), Operation.DELETE: Command(CallFormat.XCALL)}
    assert shop.replication.find_copying("shop", "items", commands=commands) == ()
    shop.publisher.execute("update items set note = 'before' where id < 10")
    shop.replication.change_article("shop", "items", commands=commands)
    shop.publisher.execute("update items set note = 'after' where id < 5", "delete from items where id > 90")
    before = shop.subscriber.execute("select 'items'::regclass::oid")
    shop.deliver()

    require_items(shop, "qty <> 3")
    assert shop.subscriber.execute("select 'items'::regclass::oid") == before
    (listed,) = [article for article in shop.replication.list_articles() if article.article == "items"]
    assert listed.upd_cmd.startswith("XCALL")


@pytest.mark.exhaustive
def test_dropped_column_stays_as_it_was(shop: ReplicatedDatabase) -> None:
    shop.replication.change_article("shop", "items", drop_columns=("note",))
    shop.publisher.execute("update items set note = 'x', qty = 1 where id = 10", "insert into items values (200, 1)")
    shop.deliver()

    require_items(shop, "qty <> 3", "id, qty")
    assert shop.subscriber.execute("select note from items where id in (10, 200) order by id") == [
        ("note 10",),
        (None,),
    ]


@pytest.mark.exhaustive
def test_dropped_column_may_be_not_null(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ITEMS, FILLED, items={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.replication.change_article("shop", "items", drop_columns=("qty",))
    replicated.publisher.execute("insert into items values (200, 1)", "update items set note = 'later' where id = 1")
    replicated.deliver()

    require_items(replicated, columns="id, note")
    assert replicated.subscriber.execute("select qty from items where id = 200") == [(None,)]


@pytest.mark.exhaustive
def test_column_is_added_with_its_values(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ITEMS, FILLED, items={"columns": ("id", "qty")})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.replication.change_article("shop", "items", add_columns=("note",))
    replicated.publisher.execute("update items set note = 'x' where id = 1", "insert into items values (200, 1, 'new')")
    replicated.deliver()

    require_items(replicated)
    assert len(list_subscriptions(replicated.publisher)) == 1


@pytest.mark.exhaustive
def test_whole_old_rows_are_logged_once_a_command_needs_them(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ITEMS, FILLED, items={"before_images": BeforeImages.KEY})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    commands = {Operation.UPDATE: Command(CallFormat.XCALL), Operation.DELETE: Command(CallFormat.XCALL)}
    replicated.publisher.execute("update items set qty = 7 where id < 5", "delete from items where id = 10")
    replicated.replication.change_article("shop", "items", commands=commands)
    replicated.publisher.execute("update items set qty = 8 where id < 3", "delete from items where id = 11")
    replicated.deliver()

    require_items(replicated)


@pytest.mark.exhaustive
def test_operation_that_was_not_delivered_brings_a_copy(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ITEMS, FILLED, items={"commands": {Operation.UPDATE: Command(CallFormat.NONE)}})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.publisher.execute("update items set qty = 7 where id < 5")
    replicated.replication.change_article("shop", "items", commands={Operation.UPDATE: Command(CallFormat.SCALL)})
    replicated.publisher.execute("update items set qty = 8 where id < 3")
    replicated.deliver()

    require_items(replicated)


@pytest.mark.exhaustive
def test_file_follows_changes_of_articles(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(ITEMS, FILLED, items={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.replication.change_article("shop", "items", drop_columns=("qty",))
    replicated_file.publisher.execute("insert into items values (200, 1, 'x')")
    replicated_file.deliver()
    assert replicated_file.subscriber.execute("select id, qty, note from items where id = 200") == [(200, None, "x")]
    replicated_file.replication.change_article("shop", "items", add_columns=("qty",), where="qty < 5")
    replicated_file.publisher.execute("update items set qty = 0 where id = 9")
    replicated_file.deliver()

    expected = replicated_file.publisher.execute("select id, qty, note from items where qty < 5 order by id")
    assert replicated_file.subscriber.execute("select id, qty, note from items order by id") == expected


def test_impossible_changes_are_refused(shop: ReplicatedDatabase) -> None:
    change = shop.replication.change_article
    with pytest.raises(PublishedColumnUnknown):
        change("shop", "items", add_columns=("absent",))
    with pytest.raises(PublishedColumnListedTwice):
        change("shop", "items", add_columns=("note",))
    with pytest.raises(PublishedKeyColumnMissing):
        change("shop", "items", drop_columns=("id",))
    shop.deliver()
    require_items(shop, "qty <> 3")
