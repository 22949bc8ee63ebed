"""Row filters: a subscriber has the rows that match, whatever becomes of them at the publisher."""

from __future__ import annotations

import random

import pytest

from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.publishing import (
    FilterColumnUnpublished,
    FilterMalformed,
    FilterTypeInexact,
    ImagesNeeded,
    PartitionImagesVary,
)

ORDERS = "create table orders (id int primary key, region character(4), qty numeric, at date, note text, weight real)"
WHERE = "(region in ('DE', 'AT') or qty between 10 and 20.5) and not (at < '2026-01-01' or note is null)"
FILTERED = f"select o::text from orders o where {WHERE} order by 1"
WITHOUT_NOTES = ("id", "region", "qty")


REGIONS = ("'DE'", "'AT  '", "'FR'", "null")
QUANTITIES = ("9.99", "10.00", "20.5", "20.51", "'nan'", "null")
DAYS = ("'2025-12-31'", "'2026-01-01'", "'infinity'", "null")
NOTES = ("'x'", "''", "null")


def write_randomly(replicated: ReplicatedDatabase, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(60):
        key = chosen.randint(1, 25)
        values = ", ".join(chosen.choice(those) for those in (REGIONS, QUANTITIES, DAYS, NOTES))
        free = f"not exists (select from orders where id = {key} + 100)"
        changes = (
            f"insert into orders values ({key}, {values}) on conflict do nothing",
            f"update orders set (region, qty, at, note) = ({values}) where id = {key}",
            f"update orders set id = id + 100 where id = {key} and {free}",
            f"delete from orders where id = {key}",
        )
        replicated.publisher.execute(chosen.choice(changes))


@pytest.mark.parametrize("update", ["SCALL", "CALL", "XCALL", "SQL"])
def test_subscriber_has_the_rows_the_server_itself_would_select(replicated: ReplicatedDatabase, update: str) -> None:
    commands = {Operation.UPDATE: Command(CallFormat(update))}
    replicated.begin(ORDERS, orders={"where": WHERE, "commands": commands})
    for seed in range(3):
        write_randomly(replicated, seed)
        replicated.deliver()

        chosen = replicated.publisher.execute(FILTERED)
        assert replicated.subscriber.execute("select o::text from orders o order by 1") == chosen
        assert chosen


def test_a_row_that_comes_in_or_leaves_is_inserted_or_deleted(replicated: ReplicatedDatabase) -> None:
    replicated.begin(
        "create table t (id int primary key, v int, large text)", t={"where": "v > 0", "columns": ("id", "v", "large")}
    )
    replicated.publisher.execute(
        "insert into t select i, i, (select string_agg(md5(n::text), '') from generate_series(1, 2000) n) "
        "from generate_series(-1, 1) i"
    )
    replicated.deliver()
    assert replicated.subscriber.execute("select id from t") == [(1,)]
    # The large value is not in the log of these updates.
    replicated.publisher.execute("update t set v = -v")
    replicated.deliver()

    assert replicated.subscriber.execute("table t") == replicated.publisher.execute("select * from t where v > 0")


def test_unsupported_filter_is_refused_when_the_article_is_added(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(
        ORDERS, "create table parts (id int primary key) partition by range (id)", "create table l (a int)"
    )
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)
    add = replicated.replication.add_article

    with pytest.raises(FilterMalformed):
        add(PUBLICATION, "orders", where="qty > abs(5)")
    with pytest.raises(FilterTypeInexact, match="weight"):
        add(PUBLICATION, "orders", where="weight = 1")
    with pytest.raises(FilterColumnUnpublished, match="note"):
        add(PUBLICATION, "orders", where="note = 'x'", columns=WITHOUT_NOTES)
    with pytest.raises(ImagesNeeded, match="a row filter needs all values of public.orders"):
        add(PUBLICATION, "orders", where="qty = 1", before_images=BeforeImages.KEY)
    with pytest.raises(PartitionImagesVary, match="a row filter needs all values of public.parts"):
        add(PUBLICATION, "parts", where="id = 1")
    none = Command(CallFormat.NONE)
    add(PUBLICATION, "l", where="a = 1", commands={Operation.UPDATE: none, Operation.DELETE: none})
