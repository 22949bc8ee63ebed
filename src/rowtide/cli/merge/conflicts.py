"""`rowtide merge`: conflicts."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.merge.options import HubDb
from rowtide.cli.options import AnyDb
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.publishing.requests import PublicationName

app = CommandTable()


@listing(
    app,
    epilog="Example: rowtide merge conflicts shop orders --format jsonl --db postgresql://localhost/shop",
    columns="conflict_id, article, conflict, losing_row, winning_row, resolved_time as resolved",
    json_texts=("losing_row", "winning_row"),
)
def conflicts(
    db: AnyDb,
    publication: PublicationName,
    article: Annotated[str | None, Argument(metavar="TABLE", help="default: all")] = None,
) -> Listed:
    """List conflicts: the losing and the winning version of a row, and why (SQL Server: sp_helpmergeconflictrows).

    NULL stands for a deleted row.
    """
    from rowtide.merge.conflicts.records import KeptConflict

    return KeptConflict, connect(db).merge.list_conflicts(publication, article)


@app.command(epilog="Example: rowtide merge resolve 0f3c… --winner subscriber --db postgresql://localhost/shop")
def resolve(
    db: HubDb,
    conflict: Annotated[str, Argument(metavar="CONFLICT", help="the conflict_id that `conflicts` lists")],
    winner: Annotated[Winner, Option(help="Whose version is to stay.", show_default=False)],
    *,
    over_later_changes: Annotated[
        bool, Option("--over-later-changes", help="Also replace what has changed since; that becomes a conflict.")
    ] = False,
) -> None:
    """Choose the side that wins, whichever won before: its version becomes the publisher's own change, for all nodes.

    With column tracking that is what it had changed, else the whole row. For a row that the publisher refuses,
    `publisher` undoes it at the subscriber, `subscriber` retries it.
    """
    is_written = connect(db).merge.resolve(conflict, winner, over_later_changes=over_later_changes)
    notes.print("Resolved: the row goes to all nodes." if is_written else "Resolved: it stays as it is.")
