"""`rowtide merge`: the tables and procedures that SQL Server documents."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output import Format, as_json, print_rows
from rowtide.cli.tables import show_fact
from rowtide.handle import connect

app = typer.Typer()


@app.command(epilog="Example: rowtide merge table MSmerge_contents --db postgresql://localhost/shop")
def table(
    db: AnyDb,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="MSmerge_contents, sysmergesubscriptions, …")],
    form: ListingFormat = Format.TABLE,
) -> None:
    """Print a table that SQL Server documents, as a node is now: without an agent, with all changes so far.

    On PostgreSQL they are views of the schema rowtide_merge, in a SQLite file those that need no filters are views.
    """
    found = connect(db).merge.read_table(name)
    rows = [[_hexadecimal(value) for value in row.values()] for row in found.rows]
    if form is Format.TABLE:
        print_rows(found.columns, rows, form, show=show_fact)
    else:
        print_rows(found.columns, [[as_json(value, form) for value in row] for row in rows], form)


def _hexadecimal(value: object) -> object:
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
