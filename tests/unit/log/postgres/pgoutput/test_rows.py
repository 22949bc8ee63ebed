"""Row changes: operations, images, values that are null, absent or no text."""

from __future__ import annotations

from typing import Any

import pytest

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_messages import UNSENT, ColumnSpec
from builders.log.pgoutput_streams import decoder, member, rows
from rowtide.core.errors import DecodeError
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ImageKind
from rowtide.databases.postgres.typed_values import MARKED_HEX
from rowtide.log.postgres.pgoutput import images

OID = 16384
COLUMNS = [ColumnSpec("a", 23, is_key=True), ColumnSpec("b", 25)]


def _decode(*changes: bytes, needed: tuple[str, ...] = ("a", "b"), columns: Any = COLUMNS) -> list[dict[str, Any]]:
    stream = [wire.begin(100), wire.relation(OID, columns), *changes, wire.commit(100)]
    return rows(decoder(members=[member(OID, needed)]).decode(stream).records)


def _decode_one(change: bytes, **options: Any) -> dict[str, Any]:
    (row,) = _decode(change, **options)
    return row


def test_an_insert_has_only_an_after_image() -> None:
    row = _decode_one(wire.insert(OID, "1", "x"))
    assert (row["operation"], row["image"]) == (Operation.INSERT, ImageKind.NONE)
    assert (row["before"], row["after"], row["absent"]) == (None, ["1", "x"], None)


def test_an_update_with_a_full_old_row_has_both_images() -> None:
    row = _decode_one(wire.update(OID, "1", "y", old=("1", "x")))
    assert (row["operation"], row["image"]) == (Operation.UPDATE, ImageKind.FULL)
    assert (row["before"], row["after"]) == (["1", "x"], ["1", "y"])


def test_an_update_of_the_key_has_the_old_key_and_nulls_before() -> None:
    row = _decode_one(wire.update(OID, "2", "x", key=("1", None)))
    assert (row["image"], row["before"], row["after"]) == (ImageKind.KEY, ["1", None], ["2", "x"])


def test_an_update_without_an_old_tuple_has_no_before_image() -> None:
    row = _decode_one(wire.update(OID, "1", "y"))
    assert (row["image"], row["before"], row["after"]) == (ImageKind.NONE, None, ["1", "y"])


def test_a_delete_has_only_a_before_image_of_key_or_row() -> None:
    by_key, by_row = _decode(wire.delete(OID, key=("1", None)), wire.delete(OID, old=("1", "x")))
    assert by_key["operation"] == by_row["operation"] == Operation.DELETE
    assert (by_key["image"], by_key["before"], by_key["after"]) == (ImageKind.KEY, ["1", None], None)
    assert (by_row["image"], by_row["before"], by_row["after"]) == (ImageKind.FULL, ["1", "x"], None)


def test_mixed_changes_of_a_table_stay_in_the_order_of_the_log() -> None:
    decoded = _decode(
        wire.insert(OID, "1", "x"),
        wire.delete(OID, key=("1", None)),
        wire.update(OID, "3", "y", old=("2", "x")),
        wire.truncate(OID),
        wire.update(OID, "3", "z"),
        wire.insert(OID, None, None),
    )
    assert [row["seqval"] for row in decoded] == [1, 2, 3, 4, 5, 6]
    assert [row["operation"] for row in decoded] == [1, 3, 2, 4, 2, 1]
    assert [row["before"] for row in decoded] == [None, ["1", None], ["2", "x"], None, None, None]
    assert [row["after"] for row in decoded] == [["1", "x"], None, ["3", "y"], None, ["3", "z"], [None, None]]


def test_null_is_not_the_empty_text() -> None:
    assert _decode_one(wire.insert(OID, None, ""))["after"] == [None, ""]


def test_a_value_that_was_not_sent_is_null_and_marked_absent() -> None:
    row = _decode_one(wire.update(OID, "1", UNSENT))
    assert (row["after"], row["absent"]) == (["1", None], b"\x02")


def test_the_absent_bitmap_counts_columns_of_the_shape_only() -> None:
    columns = ["unneeded", *"cdefghij", "k"]
    row = _decode_one(wire.update(OID, UNSENT, UNSENT, *"2345678", UNSENT), needed=tuple("cdefghijk"), columns=columns)
    assert row["absent"] == b"\x01\x01"


def test_an_unneeded_value_that_was_not_sent_is_not_absent() -> None:
    assert _decode_one(wire.update(OID, "1", UNSENT), needed=("a",))["absent"] is None


def test_columns_that_no_member_needs_never_reach_a_record() -> None:
    columns = ["secret", "a", "hidden", "b"]
    row = _decode_one(wire.insert(OID, "s" * 50, "1", None, "2"), columns=columns)
    assert row["after"] == ["1", "2"]


def test_a_table_without_columns_still_has_rows() -> None:
    assert _decode_one(wire.insert(OID), needed=(), columns=[])["after"] == []


def test_text_of_any_length_and_script_is_carried_as_it_is() -> None:
    values = ["", "x", "twelve bytes", "thirteen byte", "é€😀", "w" * 70_000]
    assert [row["after"][1] for row in _decode(*(wire.insert(OID, "1", value) for value in values))] == values


def test_non_utf8_bytes_become_marked_hex_beside_plain_text() -> None:
    good, bad = _decode(wire.insert(OID, "1", "é"), wire.insert(OID, "2", b"caf\xe9"))
    assert good["after"] == ["1", "é"]
    assert bad["after"] == ["2", MARKED_HEX + "636166e9"]


def test_split_character_across_two_values_is_not_taken_for_text() -> None:
    assert _decode_one(wire.insert(OID, b"\xc3", b"\xa9"))["after"] == ["\0xc3", "\0xa9"]


def test_a_before_image_that_is_not_utf8_is_marked_too() -> None:
    assert _decode_one(wire.delete(OID, old=(b"\xff", None)))["before"] == ["\0xff", None]


@pytest.mark.parametrize("value", ["12345678", b"1234\xff"])
def test_text_beyond_what_arrow_offsets_hold_is_refused(monkeypatch: pytest.MonkeyPatch, value: str | bytes) -> None:
    monkeypatch.setattr(images, "MAX_TEXT_BYTES", 7)
    with pytest.raises(DecodeError, match="GiB"):
        _decode(wire.insert(OID, value, None))


def test_an_empty_batch_gives_no_records_of_the_same_schema() -> None:
    decoded = decoder().decode([])
    assert decoded.records.schema.equals(RECORD)
    assert (decoded.records.num_rows, decoded.new_tables, decoded.events, decoded.transactions) == (0, (), (), 0)
