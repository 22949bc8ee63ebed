"""Rows of subscribers compared with those that are published while both change."""

from __future__ import annotations

import threading

import psycopg
import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from builders.threads import in_thread
from rowtide.replication.inspection.comparing import ArticleValidation
from rowtide.replication.subscription_settings import SyncType

ORDERS = "create table orders (id int primary key, qty int, note text, ratio float8)"
CHANGES = (
    "insert into orders values (4, 4, 'four', -0.0)",
    "update orders set note = 'changed' where id = 1",
    "update orders set id = 30, ratio = 'NaN' where id = 3",
    "delete from orders where id = 2",
    "update orders set qty = 100 where id = 4",
)


def begin(replicated: ReplicatedDatabase | ReplicatedFile, **options: object) -> None:
    replicated.begin(ORDERS, orders=options)
    replicated.publisher.execute("insert into orders select n, n, 'row ' || n, n / 3.0 from generate_series(1, 3) n")
    replicated.deliver()


def validate(replicated: ReplicatedDatabase | ReplicatedFile, *, checksum: bool = True) -> list[ArticleValidation]:
    return list(replicated.replication.validate("shop", checksum=checksum, wait_s=0))


def results(replicated: ReplicatedDatabase | ReplicatedFile) -> list[str]:
    return [found.result for found in validate(replicated)]


def test_undelivered_changes_are_no_differences(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    begin(subscribed)
    subscribed.publisher.execute(*CHANGES)
    (found,) = validate(subscribed)

    assert (found.result, found.published_rows, found.subscriber_rows) == ("passed", 3, 3)

    subscribed.subscriber.execute("update orders set note = 'other' where id = 3")
    (found,) = validate(subscribed)
    assert (found.result, found.published_rows) == ("failed", 3)


def test_filters_and_columns_hold_for_undelivered_changes(replicated: ReplicatedDatabase) -> None:
    begin(replicated, columns=("id", "qty"), where="qty < 50")
    replicated.publisher.execute(*CHANGES, "update orders set qty = 1000 where id = 1")
    (found,) = validate(replicated)

    assert (found.result, found.published_rows) == ("passed", 3)


def test_a_truncate_that_is_not_delivered_is_waited_for(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.publisher.execute("truncate orders", "insert into orders values (1)")
    (found,) = validate(replicated)

    assert (found.result, found.message, found.published_rows) == ("not compared", None, None)
    assert found.reason is not None
    assert found.reason.startswith("it was truncated at LSN")

    replicated.deliver()
    assert results(replicated) == ["passed"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("alter table orders add column more int default 7", "passed"),
        ("alter table orders rename column note to remark", "passed"),
        ("alter table orders rename to sales", "passed"),
        ("alter table orders drop column note", "not compared"),
        ("alter table orders alter column qty type bigint", "not compared"),
    ],
)
def test_altered_tables_are_compared_by_what_is_the_same(
    replicated: ReplicatedDatabase, change: str, expected: str
) -> None:
    begin(replicated)
    replicated.publisher.execute("update orders set qty = 8", change)

    assert results(replicated) == [expected]

    replicated.deliver()
    assert results(replicated) == ["passed"]


def test_keys_alone_do_not_say_what_old_rows_were(replicated: ReplicatedDatabase) -> None:
    begin(replicated, commands={}, before_images=None)
    replicated.publisher.execute("alter table orders replica identity default", "update orders set qty = 9")
    counted, compared = validate(replicated, checksum=False), validate(replicated)

    assert (counted[0].result, compared[0].result) == ("passed", "not compared")
    assert compared[0].reason == "it changes, and the log has only the keys of its old rows"


def test_rows_being_copied_are_not_compared(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    (found,) = validate(replicated)

    assert (found.result, found.reason) == ("not compared", "its rows are being copied to the subscriber")


def test_rows_are_compared_beside_writers_and_delivery(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    begin(subscribed)
    found: list[ArticleValidation] = []

    def write(is_over: threading.Event) -> None:
        with psycopg.connect(subscribed.publisher.url, autocommit=True) as session:
            number = 100
            while not is_over.is_set():
                session.execute("insert into orders values (%s, 1, 'new', 0.5)", [number])
                session.execute("update orders set id = -id, qty = qty + 1 where id > %s", [number - 5])
                session.execute("delete from orders where id between %s and -1", [2 - number])
                number += 1

    with in_thread(write), in_thread(lambda is_over: subscribed.replication.run(stop=is_over)):
        for _ in range(3):
            found += subscribed.replication.validate("shop", checksum=True)

    assert [one.result for one in found] == ["passed"] * 3
    assert len({one.position for one in found}) > 1
