"""Rows of subscribers compared with those that are published."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.replication.errors.publishing import PublicationUnknown

ORDERS = "create table orders (id int primary key, qty int, note text, price numeric, seen timestamptz, ratio float8)"
ROWS = (
    "insert into orders values (1, 1, 'it''s', 2.50, '2024-02-29 12:00:00.000001+02', 0.1), "
    "(2, null, '', 'NaN', 'infinity', 'Infinity'), (3, 5, 'NULL', null, null, -0.0)"
)


def validate(replicated: ReplicatedDatabase) -> tuple[list[str], list[str]]:
    """Return the results by counts, and by checksums."""
    validated = replicated.replication.validate
    return (
        [found.result for found in validated("shop")],
        [found.result for found in validated("shop", checksum=True)],
    )


def test_equal_rows_pass_in_any_order_and_with_any_role_settings(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS, "update orders set qty = 7 where id = 1")
    replicated.deliver()
    replicated.subscriber.execute(
        "update orders set qty = qty where id = 2",
        "do $$ begin execute format('alter database %I set timezone = ''Asia/Tokyo''', current_database()); end $$",
        "do $$ begin execute format('alter database %I set extra_float_digits = -10', current_database()); end $$",
    )

    assert validate(replicated) == (["passed"], ["passed"])


@pytest.mark.parametrize(
    "change",
    [
        "update orders set note = null where id = 3",
        "update orders set note = null where id = 2",
        "update orders set price = 2.5 where id = 1",
        "update orders set qty = 5 where id = 2",
    ],
)
def test_another_value_passes_by_counts_and_fails_by_checksums(replicated: ReplicatedDatabase, change: str) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute(change)

    assert validate(replicated) == (["passed"], ["failed"])


def test_tables_wider_than_a_functions_arguments_are_repaired(replicated: ReplicatedDatabase) -> None:
    columns = ", ".join(f"c{number} int" for number in range(120))
    replicated.begin(f"create table wide (id int primary key, {columns})", wide={})
    replicated.publisher.execute("insert into wide (id, c119) values (1, 1), (2, 2)")
    replicated.deliver()
    replicated.subscriber.execute("update wide set c119 = 9 where id = 2")

    assert validate(replicated) == (["passed"], ["failed"])
    assert len(list(replicated.replication.repair("shop"))) == 1
    assert validate(replicated) == (["passed"], ["passed"])


def test_a_missing_row_fails_and_both_numbers_are_reported(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, "create table empty (id int primary key)", orders={}, empty={})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute("delete from orders where id = 2")
    words = ("replication", "validate", "shop", "--format", "jsonl", "--db", replicated.publisher.url)
    ended = rowtide(*words)
    listed = {row["article"]: row for row in map(json.loads, ended.output.splitlines())}

    assert ended.code == 1
    assert ended.errors.startswith("RT-20574: 1 of 2 articles")
    assert (listed["orders"]["message"], listed["empty"]["message"]) == (20574, 20575)
    assert (listed["orders"]["published_rows"], listed["orders"]["subscriber_rows"]) == (3, 2)
    assert listed["orders"]["published_checksum"] is None

    replicated.subscriber.execute("insert into orders select 2, null, '', 'NaN', 'infinity', 'Infinity'")
    assert rowtide(*words, "--checksum").code == 0


@pytest.mark.exhaustive
def test_columns_and_rows_that_are_not_published_do_not_count(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={"columns": ("id", "qty"), "where": "qty between 1 and 3 or id in (3)"})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute("update orders set note = 'of its own'")

    assert replicated.subscriber.execute("select id from orders order by id") == [(1,), (3,)]
    assert validate(replicated) == (["passed"], ["passed"])


def test_a_publication_that_is_unknown_is_not_validated(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    with pytest.raises(PublicationUnknown):
        replicated.replication.validate("nothing")
