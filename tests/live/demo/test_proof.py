"""The comparison would find what it is there to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.demo.proof import TableProof, compare_tables

TABLES = {
    "pgbench_accounts": "aid int primary key, bid int, abalance int, filler char(4)",
    "pgbench_branches": "bid int primary key, bbalance int, filler char(4)",
    "pgbench_tellers": "tid int primary key, bid int, tbalance int, filler char(4)",
    "pgbench_history": "tid int, bid int, aid int, delta int, mtime timestamp, filler char(4)",
}
CHANGES = (
    "update pgbench_accounts set abalance = 7 where aid = 1",
    "delete from pgbench_accounts where aid = 2",
    "insert into pgbench_accounts values (4, 1, 9)",
    "insert into pgbench_history select 7, 1, 4711, 500, '2026-01-02 03:04:05.678901' from generate_series(1, 2)",
)
SOURCE = ('"1","1","7","a   "', '"3","1","0","    "', '"4","1","9",\\N')
BOOKING = '"7","1","4711","500","2026-01-02 03:04:05.678901",\\N'
CASES = {
    "equal": (SOURCE, 0),
    "other value": ((SOURCE[0].replace("7", "8"), *SOURCE[1:]), 2),
    "row missing": (SOURCE[1:], 1),
    "row too many": ((*SOURCE, '"2","1","0",\\N'), 1),
    "trailing blank": ((SOURCE[0].replace("a ", "a"), *SOURCE[1:]), 2),
    "null instead of blanks": ((SOURCE[0], '"3","1","0",\\N', SOURCE[2]), 2),
}


def write_copy(folder: Path, table: str, *lines: str) -> None:
    header = ",".join(column.split()[0] for column in TABLES[table].replace("primary key", "").split(", "))
    (folder / f"{table}.csv").write_text("\n".join([header, *lines, ""]))


@pytest.mark.exhaustive
def test_every_difference_is_found(captured: CapturedDatabase, tmp_path: Path) -> None:
    captured.execute(*(f"create table {table} ({columns})" for table, columns in TABLES.items()))
    captured.execute("insert into pgbench_accounts values (1, 1, 0, 'a'), (2, 1, 0, null), (3, 1, 0, '')")
    captured.enable(*TABLES, snapshot=True)
    captured.copy_tables()
    captured.execute(*CHANGES)
    captured.capture()
    for table in TABLES:
        write_copy(tmp_path, table)
    write_copy(tmp_path, "pgbench_history", BOOKING)

    for case, (lines, different) in CASES.items():
        write_copy(tmp_path, "pgbench_accounts", *lines)
        found = {one.table: one for one in compare_tables(str(captured.lake), tmp_path)}
        assert found["pgbench_accounts"] == TableProof("pgbench_accounts", len(lines), different), case
        # Without a key: one of two equal rows is missing.
        assert found["pgbench_history"] == TableProof("pgbench_history", 1, 1)
