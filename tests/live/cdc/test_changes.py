"""What change rows come of what statements: operations, masks, seqvals, values.

All tables of the module are written first and captured together, in one scan cycle; each test reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg import sql

from builders.capture.captured_databases import CapturedDatabase, pick
from builders.lakes.base_tables import read_rows
from rowtide.cdc.lake_readers.presentation import present
from rowtide.cdc.published import change_table_path
from rowtide.core.tables import BeforeImages

TABLES = {
    "item": "id int primary key, name text, price numeric(8,2)",
    "keyless": "name text, amount int",
    "pair": "a int, b int, c text, primary key (b, a)",
    "silent": "id int primary key, kept text, left_out text",
    "large": "id int primary key, counter int, document text",
    "keyed": "id int primary key, counter int, document text, note text",
    "computed": "id int primary key, price int, twice int generated always as (price * 2) stored",
    "texts": "id int primary key, value text",
    "undone": "id int primary key",
    '"Straße nach Rom"': '"größe in m²" int primary key, "a,b;c" text, "Sel.ect""`x" text, "ID" int, "id" int',
    "emptied": "id int primary key, name text",
    "emptied_too": "id int primary key references emptied",
    "left_side": "id int primary key",
    "right_side": "id int primary key",
    "wide": "id int primary key, " + ", ".join(f"c{n} int" for n in range(2, 10)),
}


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """The module's tables, after everything that the tests look at."""
    for name, columns in TABLES.items():
        shared.execute(f"create table {name} ({columns})")
    shared.enable(*(name for name in TABLES if name not in ("silent", "keyed", '"Straße nach Rom"')))
    shared.cdc.enable_table("keyed", before_images=BeforeImages.KEY)
    shared.cdc.enable_table("silent", columns=("id", "kept"))
    shared.cdc.enable_table("silent", capture_instance="silent_2", columns=("id", "left_out"))
    shared.cdc.enable_table('"Straße nach Rom"', capture_instance="rome")
    for write in (write_items, write_keyless, write_others, write_large, write_names, write_undone, write_both_sides):
        write(shared)
    write_truncate(shared)
    shared.capture()
    return shared


def write_items(database: CapturedDatabase) -> None:
    database.execute(
        "insert into item values (1, 'tea', 1.50)",
        "update item set price = 1.75, name = 'tea'",
        "update item set id = 2, name = 'chai'",
        "delete from item",
        "insert into pair values (1, 1, 'x')",
        "update pair set a = 2",
        "update pair set c = null",
    )


def write_truncate(database: CapturedDatabase) -> None:
    database.execute("insert into emptied values (1, 'a')", "insert into emptied_too values (1)")
    with database.transaction() as connection:
        connection.execute("insert into emptied values (2, 'b')")
        connection.execute("truncate emptied cascade")
        connection.execute("insert into emptied values (3, 'c')")
    database.execute("truncate emptied_too")


def write_keyless(database: CapturedDatabase) -> None:
    database.execute(
        "insert into keyless values ('a', 1), ('a', 1)",
        "update keyless set name = 'b', amount = 2",
        "delete from keyless where name = 'b'",
    )


def write_others(database: CapturedDatabase) -> None:
    database.execute(
        "insert into silent values (1, 'k', 'l')",
        "update silent set left_out = 'm'",
        "update silent set kept = kept",
        "insert into computed values (1, 21)",
        "update computed set price = 4",
        "insert into texts values (1, null), (2, ''), (3, 'NULL'), (4, E'\\\\N'), (5, E'line\\nbreak\\t\"')",
        "insert into wide values (1, 1, 1, 1, 1, 1, 1, 1, 1)",
        "update wide set c9 = 2, c2 = null",
    )


def write_large(database: CapturedDatabase) -> None:
    # Random, so that it is not compressed into the row; it goes out of line, and an update does not log it again.
    random = "(select string_agg(md5(random()::text), '') from generate_series(1, 2048))"
    database.execute(
        f"insert into large values (1, 1, {random})",
        "update large set counter = 2",
        "update large set id = 2",
        "update large set document = 'short'",
        f"insert into keyed values (1, 1, {random}, null)",
        "update keyed set counter = 2",
        "update keyed set id = 2, note = 'b'",
        "delete from keyed",
    )


def write_names(database: CapturedDatabase) -> None:
    database.execute(
        """insert into "Straße nach Rom" values (1, 'a', 'b', 3, 4)""",
        """update "Straße nach Rom" set "Sel.ect""`x" = 'ü'""",
    )


def write_undone(database: CapturedDatabase) -> None:
    with database.transaction() as connection:
        connection.execute("insert into undone values (1)")
        connection.rollback()
        connection.execute("insert into undone values (2)")
        with connection.transaction(force_rollback=True):
            connection.execute("insert into undone values (3)")
        with connection.transaction():
            connection.execute("insert into undone values (4)")


def write_both_sides(database: CapturedDatabase) -> None:
    with database.transaction() as connection:
        for number in (1, 2):
            for table in ("left_side", "right_side"):
                connection.execute(sql.SQL("insert into {} values ({})").format(sql.Identifier(table), number))


def test_rows_are_in_order_with_changed_columns_in_their_masks(written: CapturedDatabase) -> None:
    rows = [pick(row, "__$operation", "id", "name", "__$update_mask") for row in written.changes("public_item")]
    assert rows == [
        (2, 1, "tea", b"\x07"),
        (3, 1, "tea", b"\x04"),
        (4, 1, "tea", b"\x04"),
        (1, 1, "tea", b"\x07"),
        (2, 2, "chai", b"\x07"),
        (1, 2, "chai", b"\x07"),
    ]


def test_mask_of_nine_columns_has_two_bytes_first_column_in_last(written: CapturedDatabase) -> None:
    assert written.values("public_wide", "__$update_mask") == [(2, b"\x01\xff"), (3, b"\x01\x02"), (4, b"\x01\x02")]


def test_key_update_is_delete_and_insert_with_one_seqval(written: CapturedDatabase) -> None:
    rows = written.changes("public_pair")
    assert [pick(row, "__$operation", "a", "b", "__$seqval") for row in rows] == [
        (2, 1, 1, 1),
        (1, 1, 1, 1),
        (2, 2, 1, 1),
        (3, 2, 1, 1),
        (4, 2, 1, 1),
    ]


def test_without_a_key_every_update_is_a_before_and_an_after(written: CapturedDatabase) -> None:
    rows = written.changes("public_keyless")
    assert [pick(row, "__$operation", "name", "amount", "__$seqval") for row in rows] == [
        (2, "a", 1, 1),
        (2, "a", 1, 2),
        (3, "a", 1, 1),
        (4, "b", 2, 1),
        (3, "a", 1, 2),
        (4, "b", 2, 2),
        (1, "b", 2, 1),
        (1, "b", 2, 2),
    ]


def test_the_default_option_leaves_out_the_before_images(written: CapturedDatabase) -> None:
    assert [operation for operation, *_ in written.values("public_pair", row_filter="all")] == [2, 1, 2, 4]


def test_two_instances_of_a_table_have_their_own_columns(written: CapturedDatabase) -> None:
    kept, left_out = written.changes("public_silent"), written.changes("silent_2")
    assert [pick(row, "id", "kept") for row in kept] == [(1, "k")] * 5
    assert [pick(row, "id", "left_out") for row in left_out] == [(1, value) for value in "llmmm"]
    assert "left_out" not in kept[0]
    assert "kept" not in left_out[0]


def test_update_of_uncaptured_columns_has_an_empty_mask(written: CapturedDatabase) -> None:
    """SQL Server's documents leave it open; rows 3 and 4 with an empty mask keep seqvals the same in all instances."""
    assert written.values("public_silent", "__$update_mask")[1:] == [(3, b"\0"), (4, b"\0")] * 2
    assert written.values("silent_2", "__$update_mask")[1:] == [(3, b"\x02"), (4, b"\x02"), (3, b"\0"), (4, b"\0")]


def test_an_unchanged_large_value_is_taken_from_the_before_image(written: CapturedDatabase) -> None:
    rows = written.changes("public_large")
    documents = [row["document"] for row in rows]
    assert len(documents[0]) == 65536
    assert documents == [documents[0]] * 6 + ["short"]
    assert [pick(row, "__$operation", "id", "counter", "__$update_mask") for row in rows] == [
        (2, 1, 1, b"\x07"),
        (3, 1, 1, b"\x02"),
        (4, 1, 2, b"\x02"),
        (1, 1, 2, b"\x07"),
        (2, 2, 2, b"\x07"),
        (3, 2, 2, b"\x04"),
        (4, 2, 2, b"\x04"),
    ]


def test_key_images_leave_unlogged_values_null_and_marked(written: CapturedDatabase) -> None:
    found = written.changes("public_keyed")
    assert [described(row.asDict()) for row in found] == [
        (2, 1, 1, None, True, b"\x0f", None),
        (3, 1, None, None, False, b"\x0a", b"\x0e"),
        (4, 1, 2, None, False, b"\x0a", b"\x04"),
        (1, 1, None, None, False, b"\x0f", b"\x0e"),
        (2, 2, 2, "b", True, b"\x0f", None),
        (1, 2, None, None, False, b"\x0f", b"\x0e"),
    ]
    assert found[4]["document"] == found[0]["document"]


def test_programs_outside_spark_see_what_is_absent(written: CapturedDatabase) -> None:
    presented = present(written.cdc.stream_changes("public_keyed"))
    assert presented.names[:5] == ["__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "__$absent_mask"]
    assert [row[2:5] for row in presented.rows()] == [
        (2, "0f", None),
        (4, "0a", "04"),
        (1, "0f", "0e"),
        (2, "0f", None),
        (1, "0f", "0e"),
    ]


def test_change_tables_have_a_moved_row_as_it_was_logged(written: CapturedDatabase) -> None:
    rows = read_rows(change_table_path(str(written.lake), "public_keyed"))
    (moved,) = (row for row in rows if row["id"] == 2 and row["__$operation"] == 2)
    assert described(moved) == (2, 2, 2, "b", False, b"\x0f", b"\x04")


def described(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a row of `keyed` with whether it has its document, and its masks."""
    values = [row[name] for name in ("__$operation", "id", "counter", "note")]
    masks = [None if row[name] is None else bytes(row[name]) for name in ("__$update_mask", "__$absent_mask")]
    return (*values, row["document"] is not None, *masks)


def test_a_generated_column_is_null(written: CapturedDatabase) -> None:
    assert written.values("public_computed", "price", "twice", "__$update_mask") == [
        (2, 21, None, b"\x07"),
        (3, 21, None, b"\x02"),
        (4, 4, None, b"\x02"),
    ]


def test_null_is_no_empty_text(written: CapturedDatabase) -> None:
    values = [value for _, value in written.values("public_texts", "value")]
    assert values == [None, "", "NULL", "\\N", 'line\nbreak\t"']


def test_names_with_spaces_quotes_and_unicode_are_kept(written: CapturedDatabase) -> None:
    columns = ("größe in m²", "a,b;c", 'Sel.ect"`x', "ID", "id_2")
    assert written.values("rome", *columns) == [
        (2, 1, "a", "b", 3, 4),
        (3, 1, "a", "b", 3, 4),
        (4, 1, "a", "ü", 3, 4),
    ]


def test_what_was_rolled_back_is_not_captured(written: CapturedDatabase) -> None:
    assert written.values("public_undone", "id") == [(2, 2), (2, 4)]


def test_transaction_over_two_tables_has_one_lsn_and_sequence(written: CapturedDatabase) -> None:
    rows = [(row["__$seqval"], row["__$start_lsn"]) for row in written.changes("public_left_side")]
    others = [(row["__$seqval"], row["__$start_lsn"]) for row in written.changes("public_right_side")]
    assert [seqval for seqval, _ in rows] == [1, 3]
    assert [seqval for seqval, _ in others] == [2, 4]
    assert len({lsn for _, lsn in rows + others}) == 1


@pytest.mark.exhaustive
def test_a_truncate_is_a_change_of_every_table_that_it_empties(written: CapturedDatabase) -> None:
    rows = [pick(row, "__$seqval", "__$operation", "id", "name") for row in written.changes("public_emptied")]
    assert rows == [(1, 2, 1, "a"), (1, 2, 2, "b"), (2, 6, None, None), (4, 2, 3, "c")]
    assert [row["__$update_mask"] for row in written.changes("public_emptied")][2] is None
    assert written.values("public_emptied_too", "id") == [(2, 1), (6, None), (6, None)]
