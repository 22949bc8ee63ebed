"""The demo's final report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.cdc.change_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from rowtide.core.lsn import CommitLsn
from rowtide.demo.checker import Figures
from rowtide.demo.processes import ACCOUNT, CLIENTS, DEPOSIT, WITHDRAWAL, Directory
from rowtide.demo.proof import Read, TableProof
from rowtide.demo.story import DemoOutcome, DemoRun

_OPERATIONS = {DELETE: "delete", INSERT: "insert", UPDATE_BEFORE: "update, before", UPDATE_AFTER: "update, after"}
_SHOWN = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "aid", "bid", "abalance")


def write_report(outcome: DemoOutcome) -> str:
    """Return the whole report."""
    return "\n".join(
        [
            "",
            *_aligned(_results(outcome)),
            "",
            *_account(outcome.figures),
            "",
            *(_kept(outcome.directory) if outcome.directory.is_kept else _removed()),
        ]
    )


def _results(outcome: DemoOutcome) -> Iterator[tuple[str, str]]:
    run, figures = outcome.run, outcome.figures
    yield "source", f"PostgreSQL {outcome.server_version}, pgbench TPC-B with {CLIENTS} clients"
    yield "transactions", f"{run.transactions:,} in {run.seconds:.1f} s, and two by hand"
    yield "change rows", ", ".join(f"{table} {rows:,}" for table, rows in figures.change_rows.items())
    latency = f"median {figures.latency_median_s:.1f} s, 95th percentile {figures.latency_p95_s:.1f} s"
    yield "commit to queryable", f"{latency}, in {figures.cycles} cycles"
    yield "consistent reads", _reads(run)
    of_tables = [found for found in outcome.comparisons if not found.subject]
    yield "row by row equal", f"initial rows + captured changes = source: {_rows(of_tables)}"
    for found in outcome.comparisons:
        if found.subject:
            yield "", _describe(found)
    yield "the demo took", f"{outcome.seconds:.0f} s"


def _reads(run: DemoRun) -> str:
    maxima = len({read.lsn for read in run.reads})
    return (
        f"{len(run.reads)} during the run, at {maxima} different maximum LSNs: accounts, tellers, branches and history "
        f"agreed in each; reading began at most {_longest_delay(run.reads):.2f} s after taking the maximum"
    )


def _longest_delay(reads: Sequence[Read]) -> float:
    return max((read.delay_s for read in reads), default=0.0)


def _rows(comparisons: Sequence[TableProof]) -> str:
    return ", ".join(f"{found.table} {found.rows:,} rows" for found in comparisons)


def _describe(found: TableProof) -> str:
    """Say of a target's table to what it is equal."""
    other = f"the table as of LSN {CommitLsn(found.lsn)}" if found.lsn else "source"
    return f"{found.table}, {found.subject} = {other}: {found.rows:,} rows"


def _account(figures: Figures) -> list[str]:
    places = [figures.account_columns.index(name) for name in _SHOWN]
    rows = [
        [_value(name, row[place]) for name, place in zip(_SHOWN, places, strict=True)] for row in figures.account_rows
    ]
    widths = [max(map(len, column)) for column in zip(_SHOWN, *rows, strict=True)]
    return [
        f"Account {ACCOUNT}, booked {DEPOSIT:+} and {WITHDRAWAL:+} by hand (pgbench_accounts, all update old):",
        "",
        *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in [_SHOWN, *rows]),
    ]


def _value(name: str, value: object) -> str:
    match name, value:
        case "__$start_lsn", int():
            return str(CommitLsn(value))
        case "__$operation", int():
            return f"{value} {_OPERATIONS[value]}"
        case _:
            return str(value)


def _removed() -> list[str]:
    return [
        "Everything was removed. To keep it and look around:",
        "",
        "  rowtide demo --keep DIR",
        "",
        "On a database of your own (wal_level = logical):",
        "",
        "  rowtide cdc enable-db --lake DIR --db postgresql://USER@HOST/NAME",
        "  rowtide cdc enable-table SCHEMA.TABLE --db postgresql://USER@HOST/NAME",
        "  rowtide cdc add-target NAME SCHEMA_TABLE --path DIR --db postgresql://USER@HOST/NAME",
        "  rowtide agent run --db postgresql://USER@HOST/NAME",
        "  rowtide cdc changes SCHEMA_TABLE --db postgresql://USER@HOST/NAME",
    ]


def _kept(directory: Directory) -> list[str]:
    places = [
        (f"{directory.lake}/cdc", "the change tables (Delta), base tables, cycles, instances, lsn_time_mapping"),
        (str(directory.targets), "the current and the history table (Delta)"),
        (f"{directory.lake}/log", "the log store"),
        (str(directory.postgres), "PostgreSQL's data"),
        (str(directory.messages), "what the processes said"),
    ]
    return [
        "Where things lie:",
        "",
        *("  " + line for line in _aligned(places)),
        "",
        "Nothing runs any more, and the lake needs no database. In Python:",
        "",
        "  from rowtide import build_session",
        "  from rowtide.cdc import Changes",
        f"  changes = Changes(build_session(), {str(directory.lake)!r})",
        f"  changes.get_all_changes('public_pgbench_accounts').where('aid = {ACCOUNT}').show()",
        "",
        "With PostgreSQL, which runs while this Python does:",
        "",
        "  from pathlib import Path",
        "  from rowtide.databases.postgres.embedded import EmbeddedServer",
        f"  server = EmbeddedServer.start(Path({str(directory.postgres)!r}))",
        "  print(server.url())",
        "",
        "and, in another terminal, with that URL:",
        "",
        "  rowtide cdc run --db URL",
        "  rowtide cdc changes public_pgbench_branches --db URL",
    ]


def _aligned(pairs: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> list[str]:
    listed = list(pairs)
    width = max(len(name) for name, _ in listed)
    return [f"{name.ljust(width)}  {text}" for name, text in listed]
