"""A difference turns the rows before a gap into those after it, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.gaps.comparison import ComparedTable, GapComparison
from rowtide.cdc.gaps.reconciling import logged_shape
from rowtide.cdc.lake_readers.grouping import open_engine
from rowtide.cdc.rows.conversion import EXACT
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, LoggedTable
from rowtide.databases.lake_values.casting import Column
from rowtide.log.postgres.log_restart import ReconciliationPoint

TABLE = source_table((("id", "integer"), ("name", "text"), ("qty", "bigint")))
INSTANCE = instance(table=TABLE)
COMPARED = ComparedTable(INSTANCE, LoggedTable(7, logged_shape(TABLE, INSTANCE)))
HEAD = ReconciliationPoint(CommitLsn.of(1, 99), datetime(2026, 3, 1, tzinfo=UTC), "", 1)

Row = tuple[str | None, int | None]
Rows = Mapping[int, Row]

VALUES = st.tuples(
    st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3),
    st.none() | st.integers(-3, 3),
)
TABLES = st.dictionaries(st.integers(-5, 5), VALUES, max_size=8)


def as_batches(rows: Rows, partial: frozenset[int] = frozenset()) -> Iterator[pa.RecordBatch]:
    """Yield rows as a table as of an LSN has them; those of `partial` are known in part."""
    for key, (name, qty) in rows.items():
        columns: dict[str, Column] = {
            "id": pa.array([key], pa.int32()),
            "name": pa.array([name], pa.string()),
            "qty": pa.array([qty], pa.int64()),
            "__$absent_mask": pa.array([b"\1" if key in partial else None], pa.binary()),
            "__$exact": pa.nulls(1, EXACT),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def as_texts(key: int, row: Row) -> list[str | None]:
    name, qty = row
    return [str(key), name, str(qty) if qty is not None else None]


@settings(max_examples=10, deadline=None)
@given(TABLES, TABLES, st.frozensets(st.integers(-5, 5)))
def test_difference_of_two_tables_is_what_their_rows_differ_in(
    before: Rows, after: Rows, partial: frozenset[int]
) -> None:
    with open_engine() as engine:
        comparison = GapComparison(engine, COMPARED)
        comparison.load(as_batches(before, partial), as_batches(after))
        found = {
            operation: [row for part in comparison.read(operation, HEAD, 1) for row in part.to_pylist()]
            for operation in (Operation.DELETE, Operation.UPDATE, Operation.INSERT)
        }
    deleted = {key for key in before if key not in after}
    updated = {key for key in before if key in after and (key in partial or before[key] != after[key])}
    inserted = {key for key in after if key not in before}
    assert {int(row["before"][0]) for row in found[Operation.DELETE]} == deleted
    assert {int(row["after"][0]) for row in found[Operation.UPDATE]} == updated
    assert {int(row["after"][0]) for row in found[Operation.INSERT]} == inserted
    for operation, rows in found.items():
        assert [row["seqval"] for row in rows] == list(range(1, len(rows) + 1))
        for row in rows:
            key = int((row["after"] or row["before"])[0])
            is_partial = key in partial
            assert row["after"] == (as_texts(key, after[key]) if operation is not Operation.DELETE else None)
            if operation is Operation.INSERT:
                assert (row["before"], row["image"]) == (None, ImageKind.NONE)
            elif not is_partial:
                assert (row["before"], row["image"]) == (as_texts(key, before[key]), ImageKind.FULL)
            elif operation is Operation.UPDATE:
                assert (row["before"], row["image"]) == (None, ImageKind.NONE)
            else:
                assert (row["before"], row["image"]) == ([str(key), None, None], ImageKind.KEY)
