"""Transactions and rows of a size that would not fit if they were held whole: read and captured in bounded memory."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.log.measured_processes import GIB, MIB, read_in_process


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [200_000, pytest.param(5_000_000, marks=pytest.mark.soak)])
def test_large_transaction_is_captured_whole_in_bounded_memory(captured: CapturedDatabase, rows: int) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    captured.execute(f"insert into item select i, 'name ' || i from generate_series(1, {rows}) i")
    assert read_in_process(captured) < GIB
    captured.capture_log()
    found = captured.cdc.get_all_changes("public_item", spark=captured.spark).selectExpr(
        "count(*)", "count(distinct `__$start_lsn`)", "min(`__$seqval`)", "max(`__$seqval`)", "sum(id)"
    )
    assert tuple(found.collect()[0]) == (rows, 1, 1, rows, rows * (rows + 1) // 2)


@pytest.mark.exhaustive
def test_large_rows_that_spark_can_hold_are_captured(
    captured: CapturedDatabase,
) -> None:
    size = 64 * MIB
    captured.execute("create table item (id int primary key, value text)", "create table picture (id int, value bytea)")
    captured.enable("item", "picture")
    with captured.transaction() as transaction:
        for number in range(2):
            transaction.execute(f"insert into item values ({number}, repeat('{number}', {size}))")
            transaction.execute(f"insert into picture values ({number}, convert_to(repeat('x', {size // 2}), 'UTF8'))")
    assert read_in_process(captured) < GIB
    captured.capture_log()
    lengths = {
        name: [
            row[0]
            for row in captured.cdc.get_all_changes(name, spark=captured.spark).selectExpr("length(value)").collect()
        ]
        for name in ("public_item", "public_picture")
    }
    assert lengths == {"public_item": [size, size], "public_picture": [size // 2, size // 2]}
