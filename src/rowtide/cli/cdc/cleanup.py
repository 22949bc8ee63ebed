"""`rowtide cdc`: cleanup."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from rowtide.cdc.cleanup.orders import CleanupOrder
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_rows
from rowtide.cli.output.tables import show_fact
from rowtide.core.options import MOST_MINUTES, Option
from rowtide.handle import connect

app = CommandTable()


@app.command(epilog="Example: rowtide cdc cleanup --retention 10080 --db postgresql://localhost/shop")
def cleanup(
    db: Db,
    order: CleanupOrder,
    retention: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_MINUTES,
            help="Minutes before the last captured commit that stay; default: the cleanup job's.",
        ),
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Remove old change rows, after raising low endpoints (SQL Server: cleanup job, sp_cdc_cleanup_change_table).

    A running `cdc run` does it between its cycles; if none runs, this process does. Without a mark, for an INSTANCE, it
    only removes the rows below its low endpoint that an earlier cleanup could not remove.
    """
    cdc = connect(db).cdc
    kept = timedelta(minutes=retention) if retention is not None else cdc.read_retention()
    order = replace(order, retention=kept)
    with notes.status("Cleaning up ...") as progress:
        cleaned = cdc.cleanup(order, on_progress=progress.update, on_note=notes.print)
    rows = [(found.name, str(found.low) if found.low is not None else None, found.removed_rows) for found in cleaned]
    print_rows(("table", "low_endpoint", "removed_rows"), rows, form, show=show_fact)
