"""`rowtide cdc`: changes."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import click

from rowtide.cli.bounds import parse_bound
from rowtide.cli.groups import CommandTable
from rowtide.cli.lakes import open_lake_of
from rowtide.cli.options import Db, InstanceName
from rowtide.cli.output.rows import OutputFormat, whole_file
from rowtide.cli.output.tables import show_as_is
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Option

if TYPE_CHECKING:
    from rowtide.cdc.lake_readers.arrow_changes import ArrowChanges

app = CommandTable()

_LSNS = frozenset({"__$start_lsn", "__$end_lsn"})


class ChangesFormat(StrEnum):
    """Output formats of changes."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@app.command(epilog="Example: rowtide cdc changes public_orders --format jsonl --db postgresql://localhost/shop")
def changes(
    db: Db,
    instance: InstanceName,
    row_filter: Annotated[
        str, Option(help='"all" or "all update old"; with --net "all", "all with mask" or "all with merge".')
    ] = "all",
    start: Annotated[
        str | None,
        Option("--from", metavar="LSN|TIME", help="First LSN, or a time to begin after; default: low endpoint."),
    ] = None,
    end: Annotated[
        str | None,
        Option("--to", metavar="LSN|TIME", help="Last LSN, or a time to end with; default: last published."),
    ] = None,
    form: Annotated[ChangesFormat, Option("--format", help="parquet: typed, with --out.")] = ChangesFormat.TABLE,
    out: Annotated[Path | None, Option(help="Write a file instead.")] = None,
    *,
    net: Annotated[bool, Option("--net", help="One change per key: what the range amounts to.")] = False,
) -> None:
    """Print changes in commit order (SQL Server: fn_cdc_get_all_changes_<instance>, ..._net_changes_...).

    The range includes a transaction at the LSN of --from, but not one that ended at its TIME, so that consecutive
    ranges by time do not overlap. Times are in ISO 8601, in UTC if they have no zone.
    """
    if form is ChangesFormat.PARQUET and out is None:
        raise click.BadParameter("parquet needs --out FILE", param_hint="--format")
    first, last = (parse_bound(text) if text is not None else None for text in (start, end))
    found = open_lake_of(db).stream_changes(instance, first, last, row_filter, net=net)
    _write(found, form, out)


@app.command(epilog="Example: rowtide cdc as-of public_orders --at 2026-03-01T00:00 --db postgresql://localhost/shop")
def as_of(
    db: Db,
    instance: InstanceName,
    at: Annotated[
        str | None, Option(metavar="LSN|TIME", help="LSN, or a time: its last transaction; default: now.")
    ] = None,
    columns: Annotated[str | None, Option(help="Columns, separated by commas; default: all captured.")] = None,
    form: Annotated[ChangesFormat, Option("--format", help="parquet: typed, with --out.")] = ChangesFormat.TABLE,
    out: Annotated[Path | None, Option(help="Write a file instead.")] = None,
) -> None:
    """Print the rows of a table as of an LSN or a time, unordered: a snapshot and the changes since.

    Now is the last published LSN. Times are in ISO 8601, in UTC if they have no zone.
    """
    if form is ChangesFormat.PARQUET and out is None:
        raise click.BadParameter("parquet needs --out FILE", param_hint="--format")
    bound = parse_bound(at) if at is not None else None
    wanted = [name.strip() for name in columns.split(",")] if columns is not None else None
    _write(open_lake_of(db).stream_table_as_of(instance, bound, wanted), form, out)


def _write(found: ArrowChanges, form: ChangesFormat, out: Path | None) -> None:
    """Write rows to a file, or to standard output."""
    with whole_file(out) if out is not None else nullcontext() as partial:
        if partial is not None and form is ChangesFormat.PARQUET:
            from rowtide.cdc.lake_readers.presentation import write_parquet

            write_parquet(found, partial)
            return
        with partial.open("w", encoding="utf-8") if partial is not None else nullcontext(sys.stdout) as file:
            print_found(found, OutputFormat(form), file)


def print_found(found: ArrowChanges, form: OutputFormat, out: TextIO) -> None:
    """Print changes with the names that their columns have in the source."""
    from rowtide.cdc.lake_readers.presentation import present
    from rowtide.cli.output.changes import print_changes

    print_changes(present(found), form, out, show=show_change)


def show_change(column: str, value: object) -> str:
    """Return a value of a change for a table, with LSNs as `rowtide cdc lsn` prints them."""
    return str(CommitLsn(value)) if column in _LSNS and isinstance(value, int) else show_as_is(column, value)
