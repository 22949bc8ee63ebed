"""Rows that differ between a subscriber and its publisher, by key and column."""

from __future__ import annotations

import json
from typing import Any

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from builders.servers.server_reads import wait_until_alone
from rowtide.core.operations import Operation
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.articles.requests import CompareOptions
from rowtide.replication.inspection.comparing import SubscriberComparison, find_wanted, open_comparison
from rowtide.replication.inspection.differences import RowDifference
from rowtide.replication.inspection.rows_at_position import add_to_buckets
from rowtide.replication.targets.compared_rows import WHOLE, Hashed

VALUES = (
    "create table things (place text, number numeric, ratio float8, small real, seen timestamptz, data jsonb, "
    "is_on boolean, bytes bytea, primary key (place, number))"
)
ROWS = (
    "insert into things select 'Größe ' || n, n / 10.0, n / 3.0, n / 7.0, timestamptz '2024-02-29 12:00+02' + n * "
    """interval '1 hour', jsonb_build_object('n', n), n % 2 = 0, decode(to_hex(n + 4096), 'hex') """
    "from generate_series(1, 300) n"
)


def found_in(replicated: ReplicatedDatabase | ReplicatedFile) -> dict[tuple[str, str], RowDifference]:
    """Return the differences, by their kind and key."""
    found = replicated.replication.find_differences("shop", wait_s=0)
    return {(one.difference, one.key or ""): one for one in found}


def test_differences_are_named_by_key_and_column(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(VALUES, things={})
    subscribed.publisher.execute(ROWS)
    subscribed.deliver()
    assert found_in(subscribed) == {}

    subscribed.subscriber.execute(
        "delete from things where place = 'Größe 7'",
        "update things set ratio = 0.5, data = '{}' where place = 'Größe 8'",
        "update things set place = 'größe 9' where place = 'Größe 9'",
    )
    # Not delivered: what is compared is of before.
    subscribed.publisher.execute(
        "update things set ratio = 99 where place in ('Größe 7', 'Größe 8', 'Größe 10')",
        "delete from things where place = 'Größe 11'",
        "insert into things values ('new', 1)",
    )
    found = found_in(subscribed)
    kinds = sorted((kind, json.loads(key)["place"]) for kind, key in found)
    different = next(one for (kind, _), one in found.items() if kind == "different")
    missing = next(one for (kind, key), one in found.items() if kind == "missing" and "7" in key)

    assert kinds == [
        ("different", "Größe 8"),
        ("extra", "größe 9"),
        ("missing", "Größe 7"),
        ("missing", "Größe 9"),
    ]
    assert different.columns == ("ratio", "data")
    assert json.loads(different.published or "") == {"ratio": "2.6666666666666665", "data": '{"n": 8}'}
    assert json.loads(different.subscribed or "") == {"ratio": "0.5", "data": "{}"}
    assert (missing.subscribed, json.loads(missing.published or "")["ratio"]) == (None, "2.3333333333333335")


def test_differences_are_printed_and_end_with_code_1(replicated: ReplicatedDatabase) -> None:
    replicated.begin(
        "create table orders (id int primary key, qty int)",
        "create table notes (text text)",
        orders={},
        notes={"commands": _inserts_only()},
    )
    replicated.publisher.execute("insert into orders values (1, 1), (2, null)", "insert into notes values ('a')")
    replicated.deliver()
    replicated.subscriber.execute("update orders set qty = 5 where id = 2")
    words = ("replication", "validate", "shop", "--differences", "--format", "jsonl", "--db", replicated.publisher.url)
    ended = rowtide(*words)
    (listed,) = map(json.loads, ended.output.splitlines())

    assert (ended.code, ended.errors.split(":")[0]) == (1, "RT-7237")
    assert (listed["difference"], listed["key"], listed["columns"]) == ("different", {"id": "2"}, ["qty"])
    assert (listed["published"], listed["subscribed"]) == ({"qty": None}, {"qty": "5"})

    replicated.subscriber.execute("update orders set qty = null where id = 2")
    ended = rowtide(*words)
    assert (ended.code, ended.output) == (1, "")
    assert "RT-7235: 1 articles" in ended.errors
    assert "notes" in ended.errors
    assert "without a primary key" in ended.errors


KEYS = {
    "smallint": "n - 200",
    "integer": "n * 100000 - 20000000",
    "bigint": "n * 100000000000 - 20000000000000",
    "uuid": "md5(n::text)::uuid",
    "text": "'Größe ' || n",
}


def test_rows_are_in_the_same_buckets_everywhere(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    types = dict(zip("abcde", KEYS, strict=True))
    made = [
        f"create table {name} (tenant int, id {key}, note text, primary key (tenant, id))"
        for name, key in types.items()
    ]
    published: dict[str, Any] = {name: {} for name in types}
    subscribed.begin(*made, **published)
    for name, key in types.items():
        rows = f"select n % 3, {KEYS[key]}, 'note ' || n from generate_series(1, 300) n"
        subscribed.publisher.execute(f"insert into {name} {rows}")
    subscribed.deliver()
    engine = open_engine(subscribed.publisher.url)
    ((subscription, articles),) = find_wanted(engine, subscribed.publisher.url, CompareOptions("shop"))
    with open_comparison(engine, subscribed.publisher.url, subscription, articles) as comparison:
        for article in comparison.articles:
            _require_same_buckets(comparison, article, is_by_hash=types[article.table] == "text")


def _require_same_buckets(comparison: SubscriberComparison, article: Article, *, is_by_hash: bool) -> None:
    rows = comparison.published.rows
    division = rows.divide(article)
    published, present = comparison.read_buckets(article, division, with_checksum=True)
    chosen = sorted(published)[::3]
    listed = [sorted(one.list_rows(article, division, chosen)) for one in (rows, comparison.subscribed.rows)]
    whole = rows.find_rows(article, [found.key for found in rows.list_rows(article, WHOLE, [0])])

    assert isinstance(division, Hashed) == is_by_hash
    assert published == present
    assert published == add_to_buckets(article, {}, ((row, 1) for row in whole), division, with_checksum=True)
    assert len(published) > 150
    assert listed[0] == listed[1]
    assert len(listed[0]) == sum(published[bucket].rows for bucket in chosen)


def test_equal_rows_are_read_once(replicated: ReplicatedDatabase) -> None:
    replicated.begin("create table orders (id bigint primary key, qty int)", orders={})
    replicated.publisher.execute("insert into orders select n, n from generate_series(1, 5000) n")
    replicated.deliver()
    replicated.subscriber.execute(
        "analyze orders",
        "update orders set qty = -1 where id in (7, 8, 4000)",
        "delete from orders where id = 2500",
        "select pg_stat_force_next_flush()",
    )
    before = _count_read(replicated)
    found = found_in(replicated)

    assert sorted(json.loads(key)["id"] for _, key in found) == ["2500", "4000", "7", "8"]
    assert _count_read(replicated) - before == 4999


def _count_read(replicated: ReplicatedDatabase) -> int:
    """Return the number of rows that closed sessions have read at the subscriber without an index."""
    wait_until_alone(replicated.subscriber.session)
    ((count,),) = replicated.subscriber.execute("select seq_tup_read from pg_stat_user_tables where relname = 'orders'")
    return int(count)


def _inserts_only() -> dict[Any, Any]:
    none = Command(CallFormat.NONE)
    return {Operation.UPDATE: none, Operation.DELETE: none}
