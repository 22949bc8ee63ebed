"""`rowtide cdc`: queries of changes, with LSNs and their times, update masks, and DDL."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import click

from rowtide.cdc import change_columns
from rowtide.cli.groups import CliGroup, CommandTable
from rowtide.cli.options import Db, InstanceName, ListingFormat, Wide, open_lake_of
from rowtide.cli.output.rows import OutputFormat, as_json, print_rows, whole_file
from rowtide.cli.output.tables import show_as_is, show_fact
from rowtide.cli.parameters import parse_bound, parse_time
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument, Option, TableName
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.cdc.lake_readers.presentation import ArrowChanges


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
    net: Annotated[bool, Option("--net", help="One change per key: the net effect of the range.")] = False,
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


_BRIEF = ("ddl_lsn", "ddl_time", "ddl_command", "required_column_update", "inferred")
_COLUMNS = (
    "source_schema",
    "source_table",
    "capture_instance",
    "required_column_update",
    "ddl_command",
    "ddl_lsn",
    "ddl_time",
    "inferred",
    "rewrites_values",
)


@app.command(epilog="Example: rowtide cdc ddl-history public_orders --format jsonl --db postgresql://localhost/shop")
def ddl_history(
    db: Db, instance: InstanceName, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the DDL on an instance's table, in log order (SQL Server: sp_cdc_get_ddl_history).

    Includes what is published. An inferred row describes a difference that no event trigger reported. The change table
    has no rows for values rewritten by DDL.
    """
    columns = _BRIEF if form is OutputFormat.TABLE and not wide else _COLUMNS
    found = open_lake_of(db).get_ddl_history(instance)
    rows = ([as_json(getattr(change, name), form) for name in columns] for change in found)
    print_rows(columns, rows, form, show=show_fact)


@app.command(epilog="Example: rowtide cdc table-changes public.orders --format jsonl --db postgresql://localhost/shop")
def table_changes(
    db: Db,
    table: TableName,
    row_filter: Annotated[str, Option(help='"all" or "all update old".')] = "all",
    start: Annotated[
        str | None, Option("--from", metavar="LSN|TIME", help="As in `changes`; default: the oldest LSN.")
    ] = None,
    end: Annotated[
        str | None, Option("--to", metavar="LSN|TIME", help="As in `changes`; default: last published.")
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Print a table's changes across both of its instances, in commit order.

    The older instance's changes up to the low endpoint of the newer one, then the newer one's: for consumers that
    switch between them. The columns are those of both.
    """
    first, last = (parse_bound(text) if text is not None else None for text in (start, end))
    print_found(connect(db).cdc.stream_table_changes(table, first, last, row_filter), form, sys.stdout)


lsn = CommandTable()
app["lsn"] = CliGroup("lsn", "LSNs: the validity interval's ends, neighbours, and times.", lsn)

GivenLsn = Annotated[str, Argument(metavar="LSN", help="X/Y, epoch:X/Y or the integer")]


@lsn.command(name="min", epilog="Example: rowtide cdc lsn min public_orders --db postgresql://localhost/shop")
def lsn_min(db: Db, instance: InstanceName) -> None:
    """Print an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn)."""
    print(open_lake_of(db).get_min_lsn(instance))


@lsn.command(name="max", epilog="Example: rowtide cdc lsn max --db postgresql://localhost/shop")
def lsn_max(db: Db) -> None:
    """Print the last published LSN; nothing if there is none (SQL Server: fn_cdc_get_max_lsn)."""
    _print_if_any(open_lake_of(db).get_max_lsn())


@lsn.command(name="increment", epilog="Example: rowtide cdc lsn increment 0/16B3748")
def lsn_increment(lsn: GivenLsn) -> None:
    """Print the next LSN, where the next window begins (SQL Server: fn_cdc_increment_lsn)."""
    print(CommitLsn.parse(lsn).increment())


@lsn.command(name="decrement", epilog="Example: rowtide cdc lsn decrement 0/16B3748")
def lsn_decrement(lsn: GivenLsn) -> None:
    """Print the previous LSN (SQL Server: fn_cdc_decrement_lsn)."""
    print(CommitLsn.parse(lsn).decrement())


@lsn.command(
    name="of-time",
    epilog='Example: rowtide cdc lsn of-time "largest less than or equal" 2026-01-31T08:00:00Z '
    "--db postgresql://localhost/shop",
)
def lsn_of_time(
    db: Db,
    operator: Annotated[
        str,
        Argument(
            metavar="OPERATOR",
            help='"largest less than", "largest less than or equal", "smallest greater than" or '
            '"smallest greater than or equal"',
        ),
    ],
    time: Annotated[str, Argument(metavar="TIME", help="in ISO 8601, in UTC where it has no zone")],
) -> None:
    """Print the LSN closest to a time; nothing if there is none (SQL Server: fn_cdc_map_time_to_lsn)."""
    _print_if_any(open_lake_of(db).map_time_to_lsn(operator, parse_time(time)))


@lsn.command(name="time-of", epilog="Example: rowtide cdc lsn time-of 0/16B3748 --db postgresql://localhost/shop")
def lsn_time_of(db: Db, lsn: GivenLsn) -> None:
    """Print when a transaction ended.

    Nothing if the LSN is not a transaction's (SQL Server: fn_cdc_map_lsn_to_time).
    """
    time = open_lake_of(db).map_lsn_to_time(CommitLsn.parse(lsn))
    _print_if_any(time.isoformat() if time is not None else None)


def _print_if_any(value: object) -> None:
    if value is not None:
        print(value)


ColumnName = Annotated[str, Argument(metavar="COLUMN", help="a captured column, letter by letter")]
Mask = Annotated[str, Argument(metavar="MASK", help="an update mask in hexadecimal, as `changes` prints it")]


@app.command(
    name="has-column-changed",
    epilog="Example: rowtide cdc has-column-changed public_orders status 0x06 --db postgresql://localhost/shop",
)
def print_column_changed(db: Db, instance: InstanceName, column: ColumnName, mask: Mask) -> None:
    """Print 1 if a column's bit is set in a mask, else 0 (SQL Server: fn_cdc_has_column_changed)."""
    print(int(connect(db).cdc.has_column_changed(instance, column, _parse_mask(mask))))


@app.command(name="is-bit-set", epilog="Example: rowtide cdc is-bit-set 2 0x06")
def print_bit_set(position: Annotated[int, Argument(help="a column's ordinal, from 1")], mask: Mask) -> None:
    """Print 1 if a bit is set in a mask, else 0 (SQL Server: fn_cdc_is_bit_set)."""
    print(int(change_columns.is_bit_set(position, _parse_mask(mask))))


@app.command(epilog="Example: rowtide cdc column-ordinal public_orders status --db postgresql://localhost/shop")
def column_ordinal(db: Db, instance: InstanceName, column: ColumnName) -> None:
    """Print a column's ordinal, its bit in masks.

    Nothing if there is no such column (SQL Server: fn_cdc_get_column_ordinal).
    """
    ordinal = connect(db).cdc.get_column_ordinal(instance, column)
    if ordinal is not None:
        print(ordinal)


def _parse_mask(text: str) -> bytes:
    try:
        return bytes.fromhex(text.lower().removeprefix("0x"))
    except ValueError as error:
        raise click.BadParameter(f"{text} is no hexadecimal number of whole bytes", param_hint="MASK") from error
