"""`rowtide check`: what is missing in a database, with remedies."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import COLUMNS, describe, fields_of
from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output.rows import OutputFormat, as_json, print_rows
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.rights.purpose import Purpose

app = CommandTable()


@app.command(epilog="Example: rowtide check --as monitor --db postgresql://watcher@localhost/shop")
def check(
    db: AnyDb,
    tables: Annotated[
        list[str] | None,
        Argument(metavar="TABLE", help="Tables to look at; default: captured and tracked ones, before enabling all."),
    ] = None,
    lake: Annotated[
        str | None, Option(help="Before enabling capture: where the lake will be.", from_file=False)
    ] = None,
    purpose: Annotated[
        Purpose | None,
        Option("--as", help="Check only what a role for this needs; default: to enable and run what there is."),
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Report what prevents rowtide from working, or is worth knowing, each with the statement or command to run.

    Changes nothing. Works before and after enabling. Exit code 1 if anything prevents it; `rowtide health` checks what
    is enabled, with exit codes for programs.
    """
    from rowtide.diagnosis import require_nothing_stops

    results = connect(db).check(tables or (), lake=lake, purpose=purpose)
    if form is OutputFormat.TABLE:
        for result in results:
            print(describe(result))
    else:
        print_rows(COLUMNS, ([as_json(value, form) for value in fields_of(result)] for result in results), form)
    require_nothing_stops(results)
