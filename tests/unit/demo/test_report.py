"""The report says what was proved, and what to try next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rowtide.demo.checker import Figures, Span
from rowtide.demo.errors import RowsDiffer
from rowtide.demo.processes import Directory
from rowtide.demo.proof import Read, TableProof, require_equal
from rowtide.demo.report import write_report
from rowtide.demo.story import DemoOutcome, DemoRun

READ = Read(lsn=1000, accounts=7, tellers=7, branches=7, history=7, transactions=3, delay_s=0.2, read_s=1.0)
COLUMNS = ["__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "aid", "bid", "abalance", "filler"]
OUTCOME = DemoOutcome(
    directory=Directory(Path("/tmp/rowtide-demo-x"), is_kept=False),
    server_version="18.4",
    run=DemoRun(
        seconds=21.3,
        transactions=3120,
        reads=[READ, replace(READ, delay_s=0.35), replace(READ, lsn=1001)],
        span=Span(900, 2000),
    ),
    comparisons=[TableProof("pgbench_accounts", 1_000_000, 0), TableProof("pgbench_history", 3122, 0)],
    figures=Figures(
        change_rows={"pgbench_accounts": 6244, "pgbench_history": 3122},
        cycles=7,
        latency_median_s=2.54,
        latency_p95_s=4.11,
        account_columns=COLUMNS,
        account_rows=[[1000, 1, 3, "04", 4711, 1, 0, "x"], [1000, 1, 4, "04", 4711, 1, 500, "x"]],
    ),
    seconds=80.4,
)


def line_of(outcome: DemoOutcome, name: str) -> str:
    """The report's line that begins with a name."""
    return next(line for line in write_report(outcome).splitlines() if line.startswith(name))


def test_run_is_summed_up() -> None:
    assert "3,120 in 21.3 s" in line_of(OUTCOME, "transactions")
    assert "pgbench_accounts 6,244, pgbench_history 3,122" in line_of(OUTCOME, "change rows")
    assert "median 2.5 s, 95th percentile 4.1 s, in 7 cycles" in line_of(OUTCOME, "commit to queryable")


def test_report_counts_reads_distinct_maxima_and_longest_delay() -> None:
    line = line_of(OUTCOME, "consistent reads")
    assert "3 during the run, at 2 different maximum LSNs" in line
    assert "at most 0.35 s after" in line


def test_equality_names_every_table_and_its_rows() -> None:
    assert "pgbench_accounts 1,000,000 rows, pgbench_history 3,122 rows" in line_of(OUTCOME, "row by row equal")


def test_tables_of_targets_are_named_with_what_they_equal() -> None:
    current = TableProof("pgbench_accounts", 1_000_000, 0, "current table")
    slices = TableProof("pgbench_accounts", 1_000_000, 0, "history table, slices", 1001)
    report = write_report(replace(OUTCOME, comparisons=[*OUTCOME.comparisons, current, slices]))
    assert "pgbench_accounts, current table = source: 1,000,000 rows" in report
    assert "history table, slices = the table as of LSN 0/3E9: 1,000,000 rows" in report


def test_account_is_shown_before_and_after_with_printed_lsn() -> None:
    report = write_report(OUTCOME).splitlines()
    assert any(line.split() == ["0/3E8", "1", "3", "update,", "before", "04", "4711", "1", "0"] for line in report)
    assert any(line.split() == ["0/3E8", "1", "4", "update,", "after", "04", "4711", "1", "500"] for line in report)


def test_what_was_removed_is_said_with_the_way_to_keep_it() -> None:
    report = write_report(OUTCOME)
    assert "Everything was removed" in report
    assert "rowtide demo --keep DIR" in report
    assert "/tmp/rowtide-demo-x" not in report


def test_what_is_kept_is_named_with_a_way_to_query_it() -> None:
    report = write_report(replace(OUTCOME, directory=replace(OUTCOME.directory, is_kept=True)))
    assert "Changes(build_session(), '/tmp/rowtide-demo-x/lake')" in report
    assert "/tmp/rowtide-demo-x/postgres" in report


def test_equal_tables_pass() -> None:
    require_equal(OUTCOME.comparisons)


def test_different_rows_are_an_error_that_names_the_tables() -> None:
    with pytest.raises(RowsDiffer, match="RT-4903: .* 2 rows of pgbench_tellers"):
        require_equal([*OUTCOME.comparisons, TableProof("pgbench_tellers", 100, 2)])
    with pytest.raises(RowsDiffer, match=r"1 rows of pgbench_accounts \(current table\)"):
        require_equal([TableProof("pgbench_accounts", 100, 1, "current table")])
