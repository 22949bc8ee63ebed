"""Changes are printed by the batch as rows are printed one by one."""

from __future__ import annotations

from io import StringIO
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from builders.capture.capture_instances import instance, source_table
from builders.values.odd_texts import ODD_TEXTS
from builders.values.type_catalogue import SAMPLES
from rowtide.cdc.lake_readers.presentation import ArrowChanges, present
from rowtide.cdc.rows.conversion import change_schema
from rowtide.cli.cdc.changes import show_change
from rowtide.cli.output.changes import print_changes
from rowtide.cli.output.rows import OutputFormat, print_rows

TEXTS = [text for samples in SAMPLES for text in samples.values] + [
    text for texts in ODD_TEXTS.values() for text in texts
]


def found(*, batch_rows: int = 7) -> ArrowChanges:
    """Return rows with odd texts, numbers, flags, and exact texts in their places."""
    columns = [
        ("id", "bigint"),
        ('a "b"\\c', "text"),
        ("flag", "boolean"),
        ("n", "double precision"),
        ("d", "numeric(9,4)"),
    ]
    made = instance(table=source_table(columns))
    rows: list[dict[str, Any]] = [
        {
            "__$start_lsn": (1 << 56) + place,
            "__$seqval": place,
            "__$operation": 2,
            "__$update_mask": b"\x1f",
            "id": (None, 1, 2**53, 2**53 + 1, -(2**63))[place % 5],
            'a "b"\\c': (text, None)[place % 11 == 10],
            "flag": (None, True, False)[place % 3],
            "n": (None, 0.1, -0.0, 1e16, 5e-324, float("nan"), float("-inf"), 1e15, 123456789.0)[place % 9],
            "d": None,
            "__$exact": [(5, "NaN"), (4, text)] if place % 4 == 0 else None,
        }
        for place, text in enumerate(TEXTS)
    ]
    table = pa.Table.from_pylist(rows, schema=change_schema(made)).drop_columns(["__$end_lsn"])
    return ArrowChanges(table.schema, made, lambda: iter(table.to_batches(max_chunksize=batch_rows)))


@pytest.mark.parametrize("form", list(OutputFormat))
def test_batches_are_printed_as_their_rows(form: OutputFormat) -> None:
    by_batch, by_row = StringIO(), StringIO()
    print_changes(present(found()), form, by_batch, show=show_change)
    presented = present(found(batch_rows=1000))
    print_rows(presented.names, presented.rows(), form, by_row, show=show_change)
    assert by_batch.getvalue() == by_row.getvalue()
    assert by_batch.getvalue().count("\n") >= len(TEXTS)


@pytest.mark.parametrize("form", list(OutputFormat))
def test_no_changes_are_printed_as_no_rows(form: OutputFormat) -> None:
    nothing = ArrowChanges(found().schema, found().instance, lambda: iter(()))
    by_batch, by_row = StringIO(), StringIO()
    print_changes(present(nothing), form, by_batch, show=show_change)
    print_rows(present(nothing).names, (), form, by_row, show=show_change)
    assert by_batch.getvalue() == by_row.getvalue()


def test_values_are_numbers_flags_and_texts() -> None:
    presented = present(found())
    rows = list(islice(presented.rows(), 9))
    identifiers, flags, numbers = ([row[presented.names.index(name)] for row in rows] for name in ("id", "flag", "n"))
    assert identifiers[:5] == [None, 1, 2**53, 2**53 + 1, -(2**63)]
    assert flags[:3] == [None, True, False]
    assert numbers[1:4] == [0.1, -0.0, 1e16]
    assert numbers[5:8] == ["NaN", "-Infinity", 1e15]
