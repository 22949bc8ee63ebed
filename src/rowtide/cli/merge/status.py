"""`rowtide merge`: state, history and metadata of nodes, and conflicts."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import AnyDb, HubDb, ListingFormat, SomePublication, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.publishing.requests import PublicationName

app = CommandTable()

_MERGE_STATUS = {
    "publication": "publication",
    "role": "role",
    "subscriber": "subscriber",
    "state": "state",
    "last_sync": "last_sync",
    "conflicts": "open_conflicts",
}


@app.command(epilog="Example: rowtide merge status --db postgresql://localhost/shop")
def status(
    db: AnyDb, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List publications and subscriptions as a node knows them, without connecting to others.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    from rowtide.diagnosis.merge import check_merge, read_merge
    from rowtide.merge.status import MergeStatus

    facts = read_merge(db, publication)
    print_listed(MergeStatus, facts.listed if facts is not None else (), form, _MERGE_STATUS, wide=wide)
    print_unhealthy(check_merge(facts) if facts is not None else ())


@listing(
    app,
    epilog="Example: rowtide merge history shop --db postgresql://localhost/shop",
    columns="session_id as session, start_time, state, article, phase, inserts, updates, deletes",
)
def history(db: AnyDb, publication: SomePublication = None) -> Listed:
    """List past synchronisations by article, newest first (SQL Server: MSmerge_sessions)."""
    from rowtide.merge.inspection.listings import MergeSession

    return MergeSession, connect(db).merge.list_history(publication)


@listing(
    app,
    epilog="Example: rowtide merge row orders 018f3c1e-… --db postgresql://localhost/shop",
    columns="publication, server, version, state, comment",
)
def row(
    db: AnyDb,
    table: Annotated[str, Argument(metavar="TABLE", help="a merged table")],
    rowguid: Annotated[str, Argument(metavar="ROWGUID", help="the row's value of the column rowguid")],
) -> Listed:
    """Show what each node is known to have of a row, and why (SQL Server: sp_showrowreplicainfo)."""
    from rowtide.merge.inspection.validating import RowReplica

    return RowReplica, connect(db).merge.list_row_replicas(table, rowguid)


@app.command(epilog="Example: rowtide merge cleanup --db postgresql://localhost/shop")
def cleanup(db: AnyDb) -> None:
    """Remove metadata that no subscription needs (SQL Server: sp_mergemetadataretentioncleanup).

    Synchronisations also do this, once a day.
    """
    with notes.status("Removing metadata ...") as progress:
        removed = connect(db).merge.cleanup(on_progress=lambda rows: progress.update(f"Removed {rows:,} rows ..."))
    notes.print(f"Removed: metadata of {removed} rows.")


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
