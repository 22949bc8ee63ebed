"""A subscription makes a SQLite file's tables and brings their rows while they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.replication.replicated_databases import open_only_agent
from builders.replication.replicated_files import FileSubscriber, ReplicatedFile
from rowtide.replication.errors.delivery import CopyRefused
from rowtide.replication.errors.subscribing import SubscriberTableExists
from rowtide.replication.subscription_settings import IfExists, SyncType

ORDERS = "create table orders (id int primary key, qty int not null, note text unique)"
FILLED = "insert into orders select i, i % 7, repeat('note ' || i, 10) from generate_series(1, 2000) i"
ONE_PAGE = 8192


def test_file_gets_tables_rows_and_changes_made_during_the_copy(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(ORDERS, FILLED, orders={})
    replicated_file.subscribe(SyncType.AUTOMATIC, chunk_bytes=ONE_PAGE)
    with open_only_agent(replicated_file.publisher) as agent:
        number = 0
        while agent.position is None:
            number += 1
            replicated_file.publisher.execute(
                f"update orders set qty = -1 where id % 7 = {number % 7}",
                f"update orders set id = id + 10000 where id = {number * 50}",
                f"delete from orders where id = {number * 50 + 1}",
                f"insert into orders values ({5000 + number}, 0, 'new ' || {number})",
            )
            agent.step()
    replicated_file.deliver()

    replicated_file.require_equal("orders")
    (made,) = replicated_file.subscriber.execute("select sql from sqlite_schema where name = 'orders'")
    assert '"qty" integer not null' in made[0]
    assert replicated_file.subscriber.execute("select name from pragma_index_list('orders')") == [("orders_note_key",)]
    replicated_file.publisher.execute("update orders set qty = 8 where id = 1")
    replicated_file.deliver()
    replicated_file.require_equal("orders")


def test_texts_with_every_control_character_come_through_copy(replicated_file: ReplicatedFile) -> None:
    text = "".join(map(chr, range(1, 128))) + "\\N é\\\\n"
    replicated_file.publish("create table notes (id int primary key, body text, raw bytea)", notes={})
    with replicated_file.publisher.transaction() as session:
        session.execute("insert into notes values (1, %s, %s), (2, '\\N', null), (3, '', '')", [text, text.encode()])
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()

    assert replicated_file.subscriber.execute("select body, raw from notes order by id") == [
        (text, text.encode()),
        ("\\N", None),
        ("", b""),
    ]


def test_a_file_that_is_not_there_is_made(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.publish(ORDERS, FILLED, orders={})
    new = tmp_path / "new.db"
    replicated_file.replication.add_subscription("shop", f"sqlite:///{new}")
    replicated_file.deliver()

    assert new.stat().st_size > 100_000


@pytest.mark.parametrize(("if_exists", "rows"), [(IfExists.KEEP, 2001), (IfExists.DELETE, 2000), (IfExists.DROP, 2000)])
def test_what_becomes_of_a_table_that_is_there_is_said(
    replicated_file: ReplicatedFile, if_exists: IfExists, rows: int
) -> None:
    replicated_file.publish(ORDERS, FILLED, orders={})
    made = "create table orders (id integer primary key, qty integer, note text)"
    replicated_file.subscriber.execute(made, "insert into orders values (-1, 0, '')")
    with pytest.raises(SubscriberTableExists, match="already has a table public.orders"):
        replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.subscribe(SyncType.AUTOMATIC, if_exists=if_exists)
    replicated_file.deliver()

    assert replicated_file.subscriber.execute("select count(*) from orders") == [(rows,)]


def test_a_refused_row_is_reported_and_the_copy_continues(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(ORDERS, FILLED, orders={})
    replicated_file.subscribe(SyncType.AUTOMATIC, chunk_bytes=ONE_PAGE)
    replicated_file.subscriber.execute(
        "create trigger no before insert on orders when new.id > 1500 begin select raise(abort, 'too many'); end"
    )
    with pytest.raises(CopyRefused, match="the snapshot of public.orders .SQLITE_CONSTRAINT_TRIGGER.: too many"):
        replicated_file.deliver()
    replicated_file.subscriber.execute("drop trigger no")
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_dropped_subscription_leaves_no_snapshot_metadata(replicated_file: ReplicatedFile) -> None:
    file: FileSubscriber = replicated_file.subscriber
    replicated_file.publish(ORDERS, FILLED, orders={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.replication.drop_subscription("shop", file.url)

    assert file.execute("select name from sqlite_schema where type = 'table'") == [("orders",)]


def test_a_files_rows_are_validated_against_the_published_ones(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(
        "create table things (id int primary key, is_new bool, at float8, low real, raw bytea, price numeric(12, 4), "
        "note text, seen timestamptz, many text[])",
        "insert into things select i, i % 2 = 0, i / 7.0, -i / 3.0, decode(md5(i::text), 'hex'), i / 7.0, 'é ' || i, "
        "'2020-01-01'::timestamptz + i * interval '1 hour', array['a,' || i, null] from generate_series(1, 500) i",
        "insert into things (id, at, low) values (1000, 'nan', 'infinity'), (1001, '-0', 1e-40), (1002, 1e16, 1e16)",
        things={"where": "id <> 7"},
    )
    replicated_file.subscribe(SyncType.AUTOMATIC)
    for _ in range(2):
        # The copy ends behind what was read when it was made.
        replicated_file.deliver()
    (equal,) = replicated_file.replication.validate("shop", checksum=True)
    replicated_file.subscriber.execute("update things set price = '0.1429000' where id = 1")
    (altered,) = replicated_file.replication.validate("shop", checksum=True)
    (counted,) = replicated_file.replication.validate("shop")

    assert (equal.message, equal.subscriber_rows) == (20575, 502)
    assert equal.subscriber_checksum == equal.published_checksum
    assert (altered.message, altered.subscriber_rows) == (20574, 502)
    assert counted.message == 20575
