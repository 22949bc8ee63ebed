"""`rowtide merge`: state, history and metadata of nodes."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.listing import Listed, listing
from rowtide.cli.merge.options import SomePublication
from rowtide.cli.options import AnyDb, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument
from rowtide.handle import connect

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
    from rowtide.merge.inspection.explaining import RowReplica

    return RowReplica, connect(db).merge.list_row_replicas(table, rowguid)


@app.command(epilog="Example: rowtide merge cleanup --db postgresql://localhost/shop")
def cleanup(db: AnyDb) -> None:
    """Remove metadata that no subscription needs (SQL Server: sp_mergemetadataretentioncleanup).

    Synchronisations also do this, once a day.
    """
    with notes.status("Removing metadata ...") as progress:
        removed = connect(db).merge.cleanup(on_progress=lambda rows: progress.update(f"Removed {rows:,} rows ..."))
    notes.print(f"Removed: metadata of {removed} rows.")
