"""`rowtide cdc`: DDL on captured tables, and changes across both instances of a table."""

from __future__ import annotations

import sys
from typing import Annotated

from rowtide.cli.bounds import parse_bound
from rowtide.cli.cdc.changes import print_found
from rowtide.cli.groups import CommandTable
from rowtide.cli.lakes import open_lake_of
from rowtide.cli.options import Db, InstanceName, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, as_json, print_rows
from rowtide.cli.output.tables import show_fact
from rowtide.core.options import Option, TableName
from rowtide.handle import connect

app = CommandTable()

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
