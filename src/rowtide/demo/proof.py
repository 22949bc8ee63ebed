"""Compare, row by row, what the lake makes of a table with the source; as multisets of rows, in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.core.lsn import CommitLsn
from rowtide.demo.errors import RowsDiffer
from rowtide.demo.reading import instance_of
from rowtide.demo.workload import KEYS, NULL


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for one table: the source's rows, and the number of rows on one side only (0: equal)."""

    table: str
    rows: int
    different_rows: int


def require_equal(comparisons: Sequence[Comparison]) -> None:
    """Raise `RowsDiffer` unless every table is equal."""
    different = [f"{found.different_rows} rows of {found.table}" for found in comparisons if found.different_rows]
    if different:
        raise RowsDiffer(", ".join(different))


def compare_tables(lake: str, final: Path) -> list[Comparison]:
    """Compare each table of the workload as of the maximum LSN with the copy that `Workload.copy_tables` wrote.

    The table as of an LSN is the snapshot that was copied into the lake, and the changes up to there.
    """
    reader = Lake(lake)
    lsn = reader.get_max_lsn()
    assert lsn is not None, "changes were read"
    return [_compare(table, as_of(reader, table, lsn), read_copy(reader, table, final)) for table in KEYS]


def as_of(reader: Lake, table: str, lsn: CommitLsn) -> pa.Table:
    """Return a table as of an LSN, with the source's columns only."""
    found = reader.get_table_as_of(instance_of(table), lsn)
    columns = [name for name in found.schema.names if not name.startswith("__$")]
    return found.to_arrow().read_all().select(columns)


def read_copy(reader: Lake, table: str, folder: Path) -> pa.Table:
    """Return a copy that `Workload.copy_tables` wrote, in the types that the lake has."""
    wanted = reader.get_table_as_of(instance_of(table)).schema
    types = {field.name: field.type for field in wanted if not field.name.startswith("__$")}
    options = csv.ConvertOptions(
        column_types=types, null_values=[NULL], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return csv.read_csv(folder / f"{table}.csv", convert_options=options)


def _compare(table: str, found: pa.Table, expected: pa.Table) -> Comparison:
    """Compare multisets: each row with the number of times it is found, less that it is expected."""
    names = expected.column_names
    sides = [
        side.select(names).cast(expected.schema).append_column("times", pa.repeat(times, side.num_rows))
        for side, times in ((found, 1), (expected, -1))
    ]
    totals = pa.concat_tables(sides).group_by(names).aggregate([("times", "sum")])
    different = pc.sum(pc.abs(totals["times_sum"])).as_py() or 0
    return Comparison(table, expected.num_rows, different)
