"""Lines of CSV as the server writes them become rows of a base table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.instances import Instance
from rowtide.cdc.snapshots.base_rows import BaseRows
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres import values as postgres_values

ITEM = instance(table=source_table([("id", "integer"), ("name", "text"), ("price", "numeric(8,2)"), ("seen", "date")]))


def rows_of(lines: bytes, item: Instance = ITEM, **options: Any) -> list[dict[str, Any]]:
    return BaseRows(item, item.columns, CommitLsn(70), **options).convert(lines).to_pylist()


def test_a_row_has_the_snapshots_lsn_and_no_masks() -> None:
    (row,) = rows_of(b"1,tea,1.50,2026-11-26\n")

    assert {name: value for name, value in row.items() if name.startswith("__$")} == {
        "__$start_lsn": 70,
        "__$end_lsn": None,
        "__$seqval": 0,
        "__$operation": 2,
        "__$update_mask": None,
        "__$absent_mask": None,
        "__$exact": None,
    }
    assert (row["id"], row["name"], row["price"]) == (1, "tea", Decimal("1.50"))


def test_null_is_empty_and_an_empty_text_is_quoted() -> None:
    rows = rows_of(b'1,,,\n2,"",1.00,2026-11-26\n3,"a ""b"",\r\nc",,\n')

    assert [row["name"] for row in rows] == [None, "", 'a "b",\r\nc']


def test_a_value_that_its_type_cannot_hold_is_an_exact_text() -> None:
    first, second = rows_of(b"1,tea,1.50,infinity\n5000000000,tea,1.50,2026-11-26\n")

    assert (first["seen"], first["__$exact"]) == (None, [(4, "infinity")])
    assert (second["id"], second["__$exact"]) == (None, [(1, "5000000000")])


def test_retyped_values_of_another_text_are_exact_texts() -> None:
    first, second = rows_of(b"1,tea,1.2345,2026-11-26\n2,tea,1.25,2026-11-26\n", retyped=frozenset({"price"}))

    assert (first["id"], first["price"], first["__$exact"]) == (1, None, [(3, "1.2345")])
    assert (second["price"], second["__$exact"]) == (Decimal("1.25"), None)


def test_values_have_the_types_of_the_base() -> None:
    types = {"id": postgres_values.lake_type("bigint"), "price": postgres_values.lake_type("numeric(14,2)")}

    (row,) = rows_of(b"5000000000,tea,5000000000.25,2026-11-26\n", types=types)

    assert (row["id"], row["price"], row["__$exact"]) == (5_000_000_000, Decimal("5000000000.25"), None)


def test_bytes_that_are_not_utf8_are_marked_digits() -> None:
    first, second = rows_of(b"1,a\xffb,,\n2,tea,,\n", is_utf8=False)

    assert (first["name"], second["name"]) == ("\0x61ff62", "tea")


def test_columns_that_are_not_copied_are_null() -> None:
    row = BaseRows(ITEM, ITEM.columns[:2], CommitLsn(70)).convert(b"1,tea\n").to_pylist()[0]

    assert (row["id"], row["name"], row["price"], row["seen"]) == (1, "tea", None, None)
