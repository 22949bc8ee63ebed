"""Commands as a person reads them."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.inspection.row_places import command_text

ODD = source_table(
    [('it\'s "the" id', "integer"), ("share", "double precision"), ("note", "text")],
    schema="sales",
    name="orders",
    key=('it\'s "the" id',),
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(b"1.5", "1.5"), (b"-2e-05", "-2e-05"), (b"NaN", "'NaN'"), (b"Infinity", "'Infinity'"), (None, "null")],
)
def test_numbers_stand_without_quotes_if_they_are_any(value: bytes | None, shown: str) -> None:
    arguments = [b"1", value, b"it's 5"]
    text = command_text(article(ODD, insert="CALL sales.apply"), Operation.INSERT, arguments)

    assert text == f"{{CALL sales.apply (1, {shown}, 'it''s 5')}}"


def test_numbers_in_texts_are_texts() -> None:
    text = command_text(article(ODD), Operation.INSERT, [b"1", b"2", b"3"])
    assert text == """{CALL "sp_MSins_salesorders" (1, 2, '3')}"""


def test_names_are_quoted_in_statements() -> None:
    stated = article(ODD, delete="SQL")
    assert command_text(stated, Operation.DELETE, [b"7"]) == (
        """delete from "sales"."orders" where "it's ""the"" id" = 7"""
    )


def test_a_bitmap_is_shown_in_hexadecimal() -> None:
    text = command_text(article(ODD), Operation.UPDATE, [None, None, b"x", b"7", rb"\x04"])
    assert text == """{SCALL "sp_MSupd_salesorders" (null, null, 'x', 7, 0x04)}"""
