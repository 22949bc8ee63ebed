"""Compare, row by row, what the lake makes of a table with the source; as multisets of rows, in Arrow.

Consistent reads of the workload's changes: from the lake alone, without the database. The invariant of a TPC-B workload
at every maximum LSN: no transaction is partly visible.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from rowtide.cdc.change_columns import UPDATE_BEFORE
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.snapshot import open_snapshot
from rowtide.demo.errors import BalancesDisagree, MaximumWentBack, RowsDiffer
from rowtide.demo.processes import KEYS, NULL, TARGETED
from rowtide.lake.stores import locate

NEEDED_READS = 20
LONGEST_DELAY_S = 2.0
"""A read that starts later after taking its maximum LSN is checked, but not counted."""


@frozen
class Read:
    """One read of the four change tables up to a maximum LSN.

    Sums over all changes: the differences of balances by table, and the history's deltas. `delay_s` is the time from
    taking the maximum to the start of the read, with all four tables open; `read_s` is the duration of the read.
    """

    lsn: int
    accounts: int
    tellers: int
    branches: int
    history: int
    transactions: int
    delay_s: float
    read_s: float

    @property
    def is_counted(self) -> bool:
        """Whether it started in time, and there were changes to compare."""
        return self.delay_s <= LONGEST_DELAY_S and self.transactions > 0


def require_consistent(read: Read, before: Read | None) -> None:
    """Raise `BalancesDisagree` unless the four sums are equal, `MaximumWentBack` if the maximum is below the last."""
    if len({read.accounts, read.tellers, read.branches, read.history}) != 1:
        raise BalancesDisagree(str(CommitLsn(read.lsn)), read.accounts, read.tellers, read.branches, read.history)
    if before is not None and read.lsn < before.lsn:
        raise MaximumWentBack(str(CommitLsn(before.lsn)), str(CommitLsn(read.lsn)))


_AMOUNTS = {
    "pgbench_accounts": "abalance",
    "pgbench_branches": "bbalance",
    "pgbench_tellers": "tbalance",
    "pgbench_history": "delta",
}
"""What a change row adds to its table's sum: a balance after an update, less the one before; a booking's delta."""

_POLL_S = 0.05


def instance_of(table: str) -> str:
    """Return the name of a table's capture instance."""
    return f"public_{table}"


class ConsistentReader:
    """Takes a maximum LSN, and reads up to it."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake(lake)
        self._seen = 0

    def is_possible(self) -> bool:
        """Return whether capture has created all change tables."""
        try:
            return len(self._lake.list_recorded_instances()) == len(KEYS)
        except LakeUnknown:
            return False

    def read(self, *, patience_s: float) -> Read | None:
        """Take the maximum LSN and read the four tables up to it; None if nothing is published.

        Waits for a publication later than the last read's, for at most `patience_s`.
        """
        deadline = time.monotonic() + patience_s
        while (commits := self._commits()) == self._seen and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._seen = commits
        lsn = self._lake.get_max_lsn()
        return self._read(lsn) if lsn is not None else None

    def _commits(self) -> int:
        log = Path(system_table_path(self._lake.lake, "lsn_time_mapping"), "_delta_log")
        return sum(1 for _ in log.glob("*.json"))

    def _read(self, lsn: CommitLsn) -> Read:
        known_at = time.monotonic()
        opened = [self._lake.get_all_changes(instance_of(table), None, lsn, "all update old") for table in KEYS]
        begun_at = time.monotonic()
        sums = {table: _sum(changes, _AMOUNTS[table]) for table, changes in zip(KEYS, opened, strict=True)}
        ended_at = time.monotonic()
        return Read(
            lsn=lsn.value,
            accounts=sums["pgbench_accounts"][0],
            tellers=sums["pgbench_tellers"][0],
            branches=sums["pgbench_branches"][0],
            history=sums["pgbench_history"][0],
            transactions=sums["pgbench_history"][1],
            delay_s=begun_at - known_at,
            read_s=ended_at - begun_at,
        )


def _sum(changes: ArrowChanges, column: str) -> tuple[int, int]:
    """Return the sum of what the change rows add, and how many there are."""
    amount = rows = 0
    for batch in changes.batches():
        before = pa.Table.from_batches([batch]).filter(pc.field("__$operation") == UPDATE_BEFORE)
        amount += (pc.sum(batch[column]).as_py() or 0) - 2 * (pc.sum(before[column]).as_py() or 0)
        rows += batch.num_rows
    return amount, rows


CURRENT, OPEN_SLICES, PAST_SLICES = "current table", "history table, open slices", "history table, slices"


@frozen
class TargetVersion:
    """A Delta table of a target, and its version at the target's LSN."""

    path: str
    version: int


@frozen
class TableProof:
    """The result for one table: the rows that are expected, and the number of rows on one side only (0: equal).

    `subject` is what of a target was compared, with the source, or with the table as of `lsn`.
    """

    table: str
    rows: int
    different_rows: int
    subject: str = ""
    lsn: int = 0


def require_equal(comparisons: Sequence[TableProof]) -> None:
    """Raise `RowsDiffer` unless every table is equal."""
    different = [
        f"{found.different_rows} rows of {found.table}" + (f" ({found.subject})" if found.subject else "")
        for found in comparisons
        if found.different_rows
    ]
    if different:
        raise RowsDiffer(", ".join(different))


def compare_tables(lake: str, final: Path) -> list[TableProof]:
    """Compare each table of the workload as of the maximum LSN with the copy that `Workload.copy_tables` wrote.

    The table as of an LSN is the snapshot that was copied into the lake, and the changes up to there.
    """
    reader = Lake(lake)
    lsn = reader.get_max_lsn()
    assert lsn is not None, "changes were read"
    return [_compare(table, as_of(reader, table, lsn), read_copy(reader, table, final)) for table in KEYS]


def compare_targets(
    lake: str, final: Path, current: TargetVersion, history: TargetVersion, lsns: Sequence[int]
) -> list[TableProof]:
    """Compare the targets' tables of `TARGETED` with the source.

    The current table and the history's open slices with the source's copy; the slices that are valid at the first of
    `lsns` that the history has, else at the last published one, with the table as of that LSN.
    """
    reader = Lake(lake)
    source = read_copy(reader, TARGETED, final)
    past = _read_version(history, [*source.column_names, "valid_from_lsn", "valid_to_lsn", "is_current"])
    first = pc.min(past["valid_from_lsn"]).as_py()
    last = reader.get_max_lsn()
    assert last is not None, "changes were read"
    at = next((lsn for lsn in lsns if lsn >= first), last.value)
    begin, end = pc.field("valid_from_lsn"), pc.field("valid_to_lsn")
    is_valid = (begin <= at) & (end.is_null() | (end > at))
    then = as_of(reader, TARGETED, CommitLsn(at))
    return [
        _compare(TARGETED, _read_version(current, source.column_names), source, CURRENT),
        _compare(TARGETED, past.filter(pc.field("is_current")).select(source.column_names), source, OPEN_SLICES),
        _compare(TARGETED, past.filter(is_valid).select(source.column_names), then, PAST_SLICES, at),
    ]


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


def _read_version(target: TargetVersion, columns: Sequence[str]) -> pa.Table:
    snapshot = open_snapshot(locate(target.path), target.version)
    assert snapshot is not None, "the target has the version"
    return snapshot.read(columns)


def _compare(table: str, found: pa.Table, expected: pa.Table, subject: str = "", lsn: int = 0) -> TableProof:
    """Compare multisets: each row with the number of times it is found, less that it is expected."""
    names = expected.column_names
    sides = [
        side.select(names).cast(expected.schema).append_column("times", pa.repeat(times, side.num_rows))
        for side, times in ((found, 1), (expected, -1))
    ]
    totals = pa.concat_tables(sides).group_by(names).aggregate([("times", "sum")])
    different = pc.sum(pc.abs(totals["times_sum"])).as_py() or 0
    return TableProof(table, expected.num_rows, different, subject, lsn)
