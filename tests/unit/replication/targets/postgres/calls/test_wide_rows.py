"""More columns than a procedure takes parameters: rows are arrays of texts, keys and bitmap stay as they are."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.databases.source_table import SourceTable
from rowtide.replication.targets.postgres.calls.array_procedures import is_array_generated
from rowtide.replication.targets.postgres.calls.procedures import call, creations, given_wide, is_wide, pack_wide
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
KEY, BITMAP, NEW, OLD = ("pkc1", "integer"), ("bitmap", "bytea"), ("new_row", "text[]"), ("old_row", "text[]")


def table(columns: int) -> SourceTable:
    return source_table([("id", "integer"), *((f"n{number}", "text") for number in range(2, columns + 1))])


@pytest.mark.parametrize(
    ("update", "parameters"),
    [("SCALL", [NEW, KEY, BITMAP]), ("MCALL", [NEW, KEY, BITMAP]), ("CALL", [NEW, KEY]), ("XCALL", [OLD, NEW])],
)
def test_an_update_is_given_rows_and_what_stands_beside_them(update: str, parameters: list[tuple[str, str]]) -> None:
    assert given_wide(article(table(101), update=update), UPDATE) == parameters


def test_what_fits_is_given_value_by_value() -> None:
    made = article(table(98))

    assert not is_wide(made, UPDATE)
    assert len(given_wide(made, UPDATE)) == 100
    assert is_wide(article(table(99)), UPDATE)
    assert not is_wide(article(table(99)), INSERT)
    assert not is_wide(article(table(200), update="SQL"), UPDATE)


def test_rows_of_a_call_become_arrays_with_nulls_and_escapes() -> None:
    made = article(table(101))
    values = [b"1", None, b'a"b\\', *(b"x" for _ in range(98))]
    row, key, bitmap = pack_wide(made, UPDATE, [*values, b"1", b"\\x07"])

    assert row is not None
    assert row.startswith(b'{"1",NULL,"a\\"b\\\\","x"')
    assert (key, bitmap) == (b"1", b"\\x07")
    assert pack_wide(made, DELETE, [b"1"]) == [b"1"]


def test_wide_row_procedure_casts_elements_one_row_per_call() -> None:
    made = article(table(101))
    (creation,) = (one for one in creations(made, INSERT, WrittenTable()) if one.startswith("create"))

    assert "(new_row text[]) language plpgsql" in creation
    assert "values (new_row[1]::integer, new_row[2]::text, " in creation
    assert call(made, INSERT) == 'call "rowtide_subscriber"."sp_MSins_publict1"($1::text[])'
    assert not is_array_generated(made, INSERT)
