"""`rowtide merge`: conflicts."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.merge.options import HubDb
from rowtide.cli.options import AnyDb, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.publishing.requests import PublicationName

app = CommandTable()

_KEPT_CONFLICT = {
    "conflict_id": "conflict_id",
    "article": "article",
    "conflict": "conflict",
    "losing_row": "losing_row",
    "winning_row": "winning_row",
    "resolved": "resolved_time",
}
_ROWS = ("losing_row", "winning_row")


@app.command(epilog="Example: rowtide merge conflicts shop orders --format jsonl --db postgresql://localhost/shop")
def conflicts(
    db: AnyDb,
    publication: PublicationName,
    article: Annotated[str | None, Argument(metavar="TABLE", help="default: all")] = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """List conflicts: the losing and the winning version of a row, and why (SQL Server: sp_helpmergeconflictrows).

    NULL stands for a deleted row.
    """
    listed = connect(db).merge.list_conflicts(publication, article)

    from rowtide.merge.conflicts.records import KeptConflict

    print_listed(KeptConflict, listed, form, _KEPT_CONFLICT, wide=wide, json_texts=_ROWS)


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
