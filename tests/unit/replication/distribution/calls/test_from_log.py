"""When transactions committed, by their LSNs, whatever segments they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from builders.capture.capture_instances import source_table
from builders.log.log_stores import NOW
from builders.replication.articles import article, change, shape_of
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import BeforeImages, ImageKind, TableShape
from rowtide.databases.source_table import SourceTable
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import KeyUpdates
from rowtide.replication.distribution.calls.arguments import (
    Arguments,
    InsertedRows,
    bitmap_length,
    bitmap_texts,
    pack_bitmaps,
)
from rowtide.replication.distribution.calls.encoding import encode, filtered
from rowtide.replication.distribution.calls.from_log import CommitTimes, are_local
from rowtide.replication.distribution.calls.ordered import Calls
from rowtide.replication.errors.publishing import ColumnNotLogged


def committed(lsn: int, seconds: int) -> pa.Table:
    row = change(Operation.INSERT, after=("1",), lsn=lsn)
    time = pa.array([NOW + timedelta(seconds=seconds)], row.schema.field("commit_time").type)
    return row.set_column(row.schema.get_field_index("commit_time"), row.schema.field("commit_time"), time)


def test_commit_times_are_found_also_when_clocks_go_back() -> None:
    times = CommitTimes()
    times.add(pa.concat_tables([committed(300, 1), committed(100, 5), committed(100, 5)]))
    times.add(committed(400, 0))

    start_us = int(NOW.timestamp() * 1_000_000)
    assert [times.find(lsn) for lsn in (100, 300, 400)] == [start_us + 5_000_000, start_us + 1_000_000, start_us]
    assert [times.find(lsn) for lsn in (99, 200, 500)] == [None, None, None]


MARKED = "rowtide.origin/8ea9"


@pytest.mark.parametrize(
    "origins", [[], [None, None], [None, MARKED, "native", None, MARKED], [MARKED], ["rowtide.origin"]]
)
def test_marked_records_are_not_local(origins: list[str | None]) -> None:
    parts = [pa.table({"origin": pa.array(part, pa.string())}) for part in (origins[:2], origins[2:])]
    records = pa.concat_tables(parts)

    assert are_local(records).tolist() == [name != MARKED for name in origins]


INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE
ORDERS = source_table([("id", "integer"), ("quantity", "integer"), ("note", "text")], name="orders")
LINES = source_table(
    [("line", "integer"), ("quantity", "integer"), ("of_order", "bigint")], name="lines", key=("of_order", "line")
)
OLD_ROW, NEW_ROW = ("1", "10", "a"), ("1", "11", "a")


def encoded(made: Article, records: pa.Table, shape: TableShape | None = None) -> list[Calls]:
    return list(encode(made, shape or shape_of(ORDERS), records))


def arguments_of(made: Article, *records: pa.Table, shape: TableShape | None = None) -> list[Arguments]:
    """Return the arguments of the calls, which are those of one operation."""
    (calls,) = encoded(made, pa.concat_tables(records), shape)
    return calls.arguments.rows


def values(*texts: str | None) -> Arguments:
    return [None if text is None else text.encode() for text in texts]


def reordered(shape: TableShape, *names: str) -> TableShape:
    found = {column.name: column for column in shape.columns}
    return replace(shape, columns=tuple(found[name] for name in names))


def renamed(shape: TableShape, **names: str) -> TableShape:
    columns = (replace(column, name=names.get(column.name, column.name)) for column in shape.columns)
    return replace(shape, columns=tuple(columns))


def without_numbers(shape: TableShape) -> TableShape:
    return replace(shape, columns=tuple(replace(column, number=None) for column in shape.columns))


@pytest.mark.parametrize("insert", ["CALL", "CALL my_insert", "SQL"])
def test_an_insert_gives_the_values_of_all_columns(insert: str) -> None:
    found = arguments_of(article(ORDERS, insert=insert), change(INSERT, after=("1", None, "")))
    assert found == [values("1", None, "")]


@pytest.mark.parametrize(
    ("update", "arguments"),
    [
        ("CALL", ["1", "11", "a", "1"]),
        ("SQL", ["1", "11", "a", "1"]),
        ("SCALL", [None, "11", None, "1", "\\x02"]),
        ("MCALL", ["1", "11", "a", "1", "\\x02"]),
        ("XCALL", ["1", "10", "a", "1", "11", "a"]),
    ],
)
def test_update_with_whole_old_row_follows_the_call_format(update: str, arguments: Sequence[str | None]) -> None:
    found = arguments_of(article(ORDERS, update=update), change(UPDATE, before=OLD_ROW, after=NEW_ROW))
    assert found == [values(*arguments)]


@pytest.mark.parametrize(
    ("update", "arguments"),
    [
        ("CALL", ["2", "10", "a", "1"]),
        ("SQL", ["2", "10", "a", "1"]),
        ("SCALL", ["2", None, None, "1", "\\x01"]),
        ("MCALL", ["2", "10", "a", "1", "\\x01"]),
        ("XCALL", ["1", "10", "a", "2", "10", "a"]),
    ],
)
def test_an_update_of_the_key_gives_the_key_before_and_after(update: str, arguments: Sequence[str | None]) -> None:
    found = arguments_of(article(ORDERS, update=update), change(UPDATE, before=OLD_ROW, after=("2", "10", "a")))
    assert found == [values(*arguments)]


def test_with_key_image_every_logged_value_counts_as_changed() -> None:
    records = change(UPDATE, image=ImageKind.KEY, before=("1", None, None), after=("2", "10", "a"))
    made, shape = article(ORDERS, before_images=BeforeImages.KEY), shape_of(ORDERS, ImageKind.KEY)
    assert arguments_of(made, records, shape=shape) == [values("2", "10", "a", "1", "\\x07")]


def test_without_an_image_the_key_did_not_change() -> None:
    records = change(UPDATE, after=("1", "11", None))
    made, shape = article(ORDERS, before_images=BeforeImages.KEY), shape_of(ORDERS, ImageKind.KEY)
    assert arguments_of(made, records, shape=shape) == [values("1", "11", None, "1", "\\x07")]


@pytest.mark.parametrize(
    ("before", "after", "given", "bitmap"),
    [
        (("1", "10", "a"), ("1", "10", None), (None, None, None), "\\x04"),
        (("1", "10", None), ("1", "10", None), (None, None, None), "\\x00"),
        (("1", None, None), ("1", "10", None), (None, "10", None), "\\x02"),
        (("1", "10", ""), ("1", "10", None), (None, None, None), "\\x04"),
        (("1", "10", None), ("1", "10", ""), (None, None, ""), "\\x04"),
    ],
)
def test_the_bitmap_tells_a_change_to_null_from_no_change(
    before: Sequence[str | None], after: Sequence[str | None], given: Sequence[str | None], bitmap: str
) -> None:
    found = arguments_of(article(ORDERS), change(UPDATE, before=before, after=after))
    assert found == [values(*given, "1", bitmap)]


def test_values_are_compared_as_the_log_writes_them() -> None:
    found = arguments_of(article(ORDERS), change(UPDATE, before=("1", "10", "a"), after=("1", "10.0", "A")))
    assert found == [values(None, "10.0", "A", "1", "\\x06")]


@pytest.mark.parametrize(
    ("update", "arguments"),
    [
        ("CALL", ["1", "11", "large", "1"]),
        ("SQL", ["1", "11", "large", "1"]),
        ("SCALL", [None, "11", None, "1", "\\x02"]),
        ("MCALL", ["1", "11", "large", "1", "\\x02"]),
        ("XCALL", ["1", "10", "large", "1", "11", "large"]),
    ],
)
def test_unlogged_toast_value_is_taken_from_the_old_row(update: str, arguments: Sequence[str | None]) -> None:
    records = change(UPDATE, before=("1", "10", "large"), after=("1", "11", None), absent=[2])
    assert arguments_of(article(ORDERS, update=update), records) == [values(*arguments)]


@pytest.mark.parametrize(("image", "before"), [(ImageKind.NONE, None), (ImageKind.KEY, ("1", None, None))])
def test_unlogged_value_without_old_row_is_null_with_bit_unset(
    image: ImageKind, before: Sequence[str | None] | None
) -> None:
    records = change(UPDATE, image=image, before=before, after=("1", "11", None), absent=[2])
    made, shape = article(ORDERS, before_images=BeforeImages.KEY), shape_of(ORDERS, ImageKind.KEY)
    assert arguments_of(made, records, shape=shape) == [values("1", "11", None, "1", "\\x03")]


def test_a_key_that_was_not_carried_is_the_key_images() -> None:
    records = change(UPDATE, image=ImageKind.KEY, before=("1", None, None), after=(None, "11", "a"), absent=[0])
    made, shape = article(ORDERS, before_images=BeforeImages.KEY), shape_of(ORDERS, ImageKind.KEY)
    assert arguments_of(made, records, shape=shape) == [values(None, "11", "a", "1", "\\x06")]


def test_each_row_has_its_own_absent_values() -> None:
    found = arguments_of(
        article(ORDERS, update="CALL"),
        change(UPDATE, before=("1", "10", "b1"), after=("1", None, None), absent=[1, 2]),
        change(UPDATE, before=("2", "20", "b2"), after=("2", None, "n2")),
        change(UPDATE, before=("3", "30", "b3"), after=("3", "31", None), absent=[2]),
    )
    assert found == [values("1", "10", "b1", "1"), values("2", None, "n2", "2"), values("3", "31", "b3", "3")]


def test_absent_values_beyond_the_eighth_column_are_found() -> None:
    table = source_table([(f"c{number}", "text") for number in range(1, 11)], key=("c1",))
    old = tuple(f"old {number}" for number in range(1, 11))
    new = tuple(None if number in (2, 10) else f"new {number}" for number in range(1, 11))
    records = change(UPDATE, before=old, after=new, absent=[1, 9])
    (found,) = arguments_of(article(table, update="MCALL"), records, shape=shape_of(table))
    assert (found[1], found[8], found[9], found[-1]) == (b"old 2", b"new 9", b"old 10", b"\\xfd01")


@pytest.mark.parametrize(
    ("delete", "image", "before", "arguments"),
    [
        ("CALL", ImageKind.FULL, OLD_ROW, ["1"]),
        ("CALL", ImageKind.KEY, ("1", None, None), ["1"]),
        ("SQL", ImageKind.FULL, OLD_ROW, ["1"]),
        ("SQL", ImageKind.KEY, ("1", None, None), ["1"]),
        ("XCALL", ImageKind.FULL, ("1", None, "a"), ["1", None, "a"]),
    ],
)
def test_a_delete_gives_the_old_key_or_the_old_row(
    delete: str, image: ImageKind, before: Sequence[str | None], arguments: Sequence[str | None]
) -> None:
    records = change(DELETE, image=image, before=before)
    assert arguments_of(article(ORDERS, delete=delete), records, shape=shape_of(ORDERS, image)) == [values(*arguments)]


@pytest.mark.parametrize(
    ("update", "arguments"),
    [
        ("CALL", ["8", "10", "9", "7", "8"]),
        ("SCALL", [None, None, "9", "7", "8", "\\x04"]),
        ("MCALL", ["8", "10", "9", "7", "8", "\\x04"]),
        ("XCALL", ["8", "10", "7", "8", "10", "9"]),
    ],
)
def test_the_columns_of_a_composite_key_come_in_the_keys_order(update: str, arguments: Sequence[str | None]) -> None:
    records = change(UPDATE, before=("8", "10", "7"), after=("8", "10", "9"))
    assert arguments_of(article(LINES, update=update), records, shape=shape_of(LINES)) == [values(*arguments)]


def test_a_deletes_composite_key_comes_in_the_keys_order() -> None:
    records = change(DELETE, before=("8", "10", "7"))
    assert arguments_of(article(LINES), records, shape=shape_of(LINES)) == [values("7", "8")]


def test_a_renamed_column_is_known_by_its_number() -> None:
    shape = renamed(shape_of(ORDERS), quantity="note", note="quantity")
    found = arguments_of(article(ORDERS), change(INSERT, after=("1", "10", "a")), shape=shape)
    assert found == [values("1", "10", "a")]


def test_row_images_in_another_order_come_in_the_articles() -> None:
    shape = reordered(shape_of(ORDERS), "note", "id", "quantity")
    records = change(UPDATE, before=("a", "1", "10"), after=(None, "1", "11"), absent=[0])
    found = arguments_of(article(ORDERS, update="MCALL"), records, shape=shape)
    assert found == [values("1", "11", "a", "1", "\\x02")]


def test_columns_without_numbers_are_known_by_their_names() -> None:
    shape = without_numbers(reordered(shape_of(ORDERS), "note", "id", "quantity"))
    assert arguments_of(article(ORDERS), change(INSERT, after=("a", "1", "10")), shape=shape) == [
        values("1", "10", "a")
    ]


@pytest.mark.parametrize(
    ("operation", "made", "arguments"),
    [
        (INSERT, article(ORDERS, columns=("id", "note")), ["1", "new"]),
        (UPDATE, article(ORDERS, columns=("id", "note"), update="CALL"), ["1", "new", "1"]),
        (UPDATE, article(ORDERS, columns=("id", "note"), update="SCALL"), [None, "new", "1", "\\x02"]),
        (UPDATE, article(ORDERS, columns=("id", "note"), update="MCALL"), ["1", "new", "1", "\\x02"]),
        (UPDATE, article(ORDERS, columns=("id", "note"), update="XCALL"), ["1", "old", "1", "new"]),
        (DELETE, article(ORDERS, columns=("id", "note"), delete="XCALL"), ["1", "old"]),
    ],
)
def test_columns_that_are_not_published_appear_nowhere(
    operation: Operation, made: Article, arguments: Sequence[str | None]
) -> None:
    before = None if operation is INSERT else ("1", "secret", "old")
    after = None if operation is DELETE else ("1", "another secret", "new")
    assert arguments_of(made, change(operation, before=before, after=after)) == [values(*arguments)]


def test_an_update_of_other_columns_alone_is_a_call_without_bits() -> None:
    made = article(ORDERS, columns=("id", "note"))
    assert arguments_of(made, change(UPDATE, before=OLD_ROW, after=NEW_ROW)) == [values(None, None, "1", "\\x00")]


@pytest.mark.parametrize(
    ("made", "delivered"),
    [
        (article(ORDERS, insert="NONE"), {UPDATE, DELETE, TRUNCATE}),
        (article(ORDERS, update="NONE"), {INSERT, DELETE, TRUNCATE}),
        (article(ORDERS, delete="NONE"), {INSERT, UPDATE}),
        (article(ORDERS, insert="NONE", update="NONE", delete="NONE"), set()),
    ],
)
def test_operations_not_propagated_are_not_encoded(made: Article, delivered: set[Operation]) -> None:
    records = [
        change(INSERT, after=OLD_ROW),
        change(UPDATE, before=OLD_ROW, after=NEW_ROW),
        change(DELETE, before=NEW_ROW),
        change(TRUNCATE),
    ]
    found = encoded(made, pa.concat_tables(records))
    assert {calls.operation for calls in found} == delivered


def test_a_truncate_has_no_arguments() -> None:
    assert arguments_of(article(ORDERS), change(TRUNCATE), change(TRUNCATE)) == [[], []]


@pytest.mark.parametrize("operation", [Operation.DDL, Operation.MESSAGE])
def test_records_that_change_no_rows_are_no_calls(operation: Operation) -> None:
    assert encoded(article(ORDERS), change(operation)) == []


def test_calls_are_grouped_by_operation_with_log_places() -> None:
    records = [
        change(INSERT, after=("1", "10", "a"), lsn=500, seqval=1),
        change(DELETE, before=("2", "10", "a"), lsn=500, seqval=2),
        change(INSERT, after=("3", "10", "a"), lsn=600, seqval=1),
    ]
    made = article(ORDERS)
    inserts, deletes = encoded(made, pa.concat_tables(records))
    assert (inserts.article, inserts.operation) == (made, INSERT)
    assert (deletes.article, deletes.operation) == (made, DELETE)
    assert list(zip(inserts.commit_lsn.tolist(), inserts.seqval.tolist(), strict=True)) == [(500, 1), (600, 1)]
    assert inserts.arguments.rows == [values("1", "10", "a"), values("3", "10", "a")]
    assert list(zip(deletes.commit_lsn.tolist(), deletes.seqval.tolist(), strict=True)) == [(500, 2)]
    assert deletes.arguments.rows == [values("2")]


def test_records_in_chunks_are_encoded_as_records_in_one() -> None:
    rows = [
        change(UPDATE, before=("1", "10", "b1"), after=("1", None, None), absent=[1]),
        change(INSERT, after=("9", None, "n9")),
        change(UPDATE, before=("2", "20", "b2"), after=("2", "21", "b2")),
        change(DELETE, before=("3", "30", "b3")),
        change(UPDATE, before=("4", "40", "b4"), after=("5", "40", None), absent=[2]),
    ]
    chunked = pa.concat_tables([*rows[:2], RECORD.empty_table(), *rows[2:]])
    whole = chunked.combine_chunks()
    sliced = pa.concat_tables([change(INSERT, after=("8", "8", "8")), *rows]).combine_chunks().slice(1)
    assert (chunked["after"].num_chunks, whole["after"].num_chunks) == (6, 1)
    for made in (article(ORDERS), article(ORDERS, update="XCALL", delete="XCALL")):
        expected = [(calls.operation, calls.arguments.rows) for calls in encoded(made, whole)]
        assert [(calls.operation, calls.arguments.rows) for calls in encoded(made, chunked)] == expected
        assert [(calls.operation, calls.arguments.rows) for calls in encoded(made, sliced)] == expected


@pytest.mark.parametrize("records", [RECORD.empty_table(), pa.Table.from_batches([], schema=RECORD)])
def test_no_records_are_no_calls(records: pa.Table) -> None:
    assert encoded(article(ORDERS), records) == []


def test_values_reach_the_call_to_the_byte() -> None:
    odd = "é😀 \\x00 'quoted' \n\t $$"
    assert arguments_of(article(ORDERS), change(INSERT, after=("1", "10", odd))) == [[b"1", b"10", odd.encode()]]


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        (source_table([("id", "integer"), ("quantity", "integer")], name="orders"), "note"),
        (source_table([("id", "integer")], name="orders"), "quantity, note"),
    ],
)
def test_published_column_missing_from_the_log_is_refused(table: SourceTable, missing: str) -> None:
    records = change(INSERT, after=["1"] * len(table.columns))
    with pytest.raises(ColumnNotLogged) as refused:
        encoded(article(ORDERS), records, shape_of(table))
    assert str(refused.value) == (
        f"RT-7107: the log of public.orders no longer contains the published columns {missing}. "
        "Drop the article and add it again, then reinitialize its subscriptions."
    )


def test_a_column_that_was_added_later_may_be_null() -> None:
    whole = shape_of(ORDERS)
    shape = replace(whole, columns=whole.columns[:2])
    records = pa.concat_tables(
        [change(INSERT, after=("1", "10")), change(UPDATE, before=OLD_ROW[:2], after=("1", "11"))]
    )
    found = encode(article(ORDERS), shape, records, may_lack_columns=True)

    assert {calls.operation: calls.arguments.rows for calls in found} == {
        INSERT: [values("1", "10", None)],
        UPDATE: [values(None, "11", None, "1", "\\x02")],
    }


def test_another_column_of_the_name_is_not_the_published_one() -> None:
    shape = shape_of(ORDERS)
    made_again = replace(shape, columns=(*shape.columns[:2], replace(shape.columns[2], number=7)))
    with pytest.raises(ColumnNotLogged) as refused:
        encoded(article(ORDERS), change(INSERT, after=OLD_ROW), made_again)
    assert refused.value.columns == "note"


def test_shape_without_columns_is_accepted_if_nothing_is_called() -> None:
    shape = shape_of(source_table([("id", "integer")], name="orders"))
    assert encoded(article(ORDERS, insert="NONE"), change(INSERT, after=("1",)), shape) == []


def test_key_update_becomes_delete_and_insert_if_requested() -> None:
    made = article(ORDERS, key_updates=KeyUpdates.DELETE_INSERT)
    kept = change(UPDATE, before=("1", "10", "a"), after=("1", "11", "a"))
    moved = change(UPDATE, before=("2", "10", "a"), after=("3", "11", None), seqval=2)
    found = [(calls.operation, calls.arguments.rows) for calls in encoded(made, pa.concat_tables([kept, moved]))]

    assert found == [
        (UPDATE, [values(None, "11", None, "1", "\\x02")]),
        (DELETE, [values("2")]),
        (INSERT, [values("3", "11", None)]),
    ]


MATRICES = arrays.arrays(np.bool_, st.tuples(st.integers(0, 20), st.integers(1, 70)))


def rows_of(columns: int, *changed: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a row for each list of changed columns, which count from 1."""
    return np.array([[column in row for column in range(1, columns + 1)] for row in changed], dtype=np.bool_)


def columns_in(bitmap: bytes) -> list[int]:
    """Return the changed columns, as a procedure of SQL Server reads them."""
    return [column for column in range(1, 8 * len(bitmap) + 1) if bitmap[(column - 1) // 8] & 2 ** ((column - 1) % 8)]


@pytest.mark.parametrize(("table", "columns"), [("Purchasing.Vendor", 8), ("authors", 9)])
def test_the_published_examples_have_two_bytes(table: str, columns: int) -> None:
    assert bitmap_length(columns) == 2
    assert pack_bitmaps(rows_of(columns, [1], [columns])).shape == (2, 2)


@pytest.mark.parametrize(("columns", "length"), [(1, 1), (7, 1), (8, 2), (9, 2), (15, 2), (16, 3), (1024, 129)])
def test_a_bitmap_has_a_byte_more_than_columns_by_eight(columns: int, length: int) -> None:
    assert bitmap_length(columns) == length
    assert pack_bitmaps(rows_of(columns, [])).shape == (1, length)


@pytest.mark.parametrize(
    ("columns", "changed", "bitmap"),
    [
        (1, [1], "01"),
        (8, [], "0000"),
        (8, [1], "0100"),
        (8, [2], "0200"),
        (8, [8], "8000"),
        (8, range(1, 9), "ff00"),
        (9, [9], "0001"),
        (9, [1, 3, 9], "0501"),
        (9, range(1, 10), "ff01"),
        (1024, [1024], "00" * 127 + "80" + "00"),
        (1600, [1, 1593, 1600], "01" + "00" * 198 + "81" + "00"),
    ],
)
def test_each_column_is_its_bit_the_least_significant_first(columns: int, changed: Sequence[int], bitmap: str) -> None:
    assert pack_bitmaps(rows_of(columns, changed)).tobytes().hex() == bitmap


@given(MATRICES)
def test_unpacking_gives_the_changed_columns_back(changed: npt.NDArray[np.bool_]) -> None:
    packed = pack_bitmaps(changed)
    assert packed.shape == (changed.shape[0], changed.shape[1] // 8 + 1)
    assert [columns_in(bitmap.tobytes()) for bitmap in packed] == [
        [column + 1 for column in np.flatnonzero(row)] for row in changed
    ]


@given(MATRICES.filter(lambda changed: len(changed) > 0))
def test_a_text_is_the_rows_bitmap_in_hexadecimal(changed: npt.NDArray[np.bool_]) -> None:
    assert bitmap_texts(changed) == [b"\\x" + bitmap.tobytes().hex().encode() for bitmap in pack_bitmaps(changed)]


def test_bitmap_texts_are_bytea_input_in_row_order() -> None:
    changed = rows_of(9, [9], [1], [9], [])
    assert bitmap_texts(changed) == [b"\\x0001", b"\\x0100", b"\\x0001", b"\\x0000"]


def test_no_rows_have_no_texts() -> None:
    assert bitmap_texts(np.empty((0, 9), dtype=np.bool_)) == []


Row = tuple[str | None, str | None, str | None]

TEXTS = st.none() | st.text(st.sampled_from("a\\\t\n\r\bN.\u00e4\U0001f600,"), max_size=5)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=20)
_READ = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def inserted(rows: Sequence[Row], places: Sequence[int] = (0, 1, 2)) -> InsertedRows:
    images = pa.chunked_array([pa.array([list(row) for row in rows], pa.list_(pa.string()))])
    return InsertedRows.of_images(images, places)


def read_copy(data: bytes) -> list[list[str | None]]:
    """Read COPY's text format as its documentation says."""
    lines = data.decode().split("\n")
    assert lines.pop() == ""
    return [[_read(value) for value in line.split("\t")] for line in lines]


def _read(value: str) -> str | None:
    if value == "\\N":
        return None
    pieces = value.split("\\")
    read, place = pieces[0], 1
    while place < len(pieces):
        piece = pieces[place]
        if piece:
            read += _READ[piece[0]] + piece[1:]
            place += 1
        else:
            read += "\\" + (pieces[place + 1] if place + 1 < len(pieces) else "")
            place += 2
    return read


@given(ROWS)
def test_copy_text_has_every_value(rows: list[Row]) -> None:
    assert read_copy(inserted(rows).as_copy_text()) == [list(row) for row in rows]


@given(ROWS, st.integers(0, 19), st.integers(1, 20))
def test_a_part_has_its_own_rows(rows: list[Row], start: int, count: int) -> None:
    part = inserted(rows).between(min(start, len(rows) - 1), min(start + count, len(rows)))
    wanted = [list(row) for row in rows][min(start, len(rows) - 1) : start + count]

    assert read_copy(part.as_copy_text()) == wanted
    assert part.rows == [[None if text is None else text.encode() for text in row] for row in wanted]


@given(ROWS)
def test_columns_are_taken_in_the_articles_order(rows: list[Row]) -> None:
    assert read_copy(inserted(rows, (2, 0)).as_copy_text()) == [[row[2], row[0]] for row in rows]


@pytest.mark.parametrize("chosen", [[False, True, True, False], [True, False, False, True], [False] * 4])
def test_rows_that_follow_each_other_are_taken_without_copying(chosen: list[bool]) -> None:
    rows = [["1", "a"], ["2", "b"], ["3", None], ["4", "d"]]
    images: Any = pa.chunked_array([pa.array(rows, pa.list_(pa.string()))])
    lines = ["1\ta\n", "2\tb\n", "3\t\\N\n", "4\td\n"]
    records = pa.table({"after": images})
    found: Any = filtered(records, np.array(chosen))["after"]

    assert found.to_pylist() == [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
    if any(chosen):
        expected = "".join(line for line, is_chosen in zip(lines, chosen, strict=True) if is_chosen)
        assert InsertedRows.of_images(found, [0, 1]).as_copy_text() == expected.encode()
    if chosen[1]:
        assert found.chunk(0).buffers()[1].address == images.chunk(0).buffers()[1].address
