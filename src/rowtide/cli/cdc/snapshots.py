"""`rowtide cdc`: snapshots of captured tables."""

from __future__ import annotations

from typing import Annotated

import click

from rowtide.cdc.enabling.requests import RowsPerSecond
from rowtide.cdc.snapshots.requests import RepeatedSnapshot
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Option
from rowtide.handle import connect

app = CommandTable()

_LISTED_SNAPSHOT = {
    "instance": "capture_instance",
    "state": "state",
    "rows": "copied_rows",
    "of_about": "estimated_rows",
    "chunks": "chunks",
    "of": "of_chunks",
    "rows_a_second": "rows_a_second",
    "seconds_left": "remaining_seconds",
    "outcome": "outcome",
}
Named = Annotated[str | None, Option(metavar="TABLE", help="That of a table or capture instance.")]


@app.command(epilog="Example: rowtide cdc resnapshot public.orders --db postgresql://localhost/shop")
def resnapshot(db: Db, wanted: RepeatedSnapshot) -> None:
    """Copy a captured table again: after a gap, after DDL that changed values, or to repair some rows.

    `rowtide cdc run` copies it, while changes are captured. What was copied before stays until then.
    """
    names = connect(db).cdc.resnapshot(wanted)
    notes.print(f"Requested: a snapshot of {', '.join(names)}. `rowtide cdc run` copies it.")


@app.command(epilog="Example: rowtide cdc snapshots --pause public.orders --db postgresql://localhost/shop")
def snapshots(
    db: Db,
    pause: Named = None,
    resume: Named = None,
    cancel: Named = None,
    limit: Annotated[
        str | None, Option(metavar="TABLE", help="Change the rate to --rows-per-second, or to none.")
    ] = None,
    rows_per_second: RowsPerSecond = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """List the snapshots of captured tables and how far they are, or pause, resume, cancel or limit one.

    One that is cancelled is removed from the lake. Without a key, one that is paused begins again.
    """
    from rowtide.cdc.snapshots.administration import ListedSnapshot

    cdc = connect(db).cdc
    changed = False
    for name, change, what in (
        (pause, cdc.pause_snapshot, "Paused"),
        (resume, cdc.resume_snapshot, "Resumed"),
        (cancel, cdc.cancel_snapshot, "Cancelled"),
    ):
        if name is not None:
            changed = True
            notes.print(f"{what}: the snapshot of {', '.join(change(name))}.")
    if limit is not None:
        changed = True
        rate = f"{rows_per_second:,} rows a second" if rows_per_second is not None else "no limit"
        notes.print(f"The snapshot of {', '.join(cdc.limit_snapshot(limit, rows_per_second))}: {rate} from now on.")
    elif rows_per_second is not None:
        raise click.BadParameter("--rows-per-second goes with --limit TABLE")
    if not changed:
        print_listed(ListedSnapshot, cdc.list_snapshots(), form, _LISTED_SNAPSHOT, wide=wide)
