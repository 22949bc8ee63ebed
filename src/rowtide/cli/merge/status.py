"""`rowtide merge`: listings, state, history and metadata of nodes, and conflicts."""

from __future__ import annotations

from typing import Annotated

from rowtide.actions.wording import say_resolved_merge
from rowtide.cli.groups import CommandTable, name_actor, report_done
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import AnyDb, HubDb, Listed, ListingFormat, SomePublication, Wide, listing
from rowtide.cli.output.rows import OutputFormat, as_json, notes, print_facts, print_listed, print_rows
from rowtide.cli.output.tables import show_fact
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.publishing.requests import PublicationName, SubscriberUrl

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
    from rowtide.merge.inspection.row_replicas import RowReplica

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
    from rowtide.merge.conflicts.stored_conflicts import MergeConflict

    return MergeConflict, connect(db).merge.list_conflicts(publication, article)


@app.command(epilog="Example: rowtide merge resolve 0f3c… --winner subscriber --db postgresql://localhost/shop")
def resolve(
    db: HubDb,
    conflict: Annotated[str, Argument(metavar="CONFLICT", help="the conflict_id that `conflicts` lists")],
    winner: Annotated[Winner, Option(help="Whose version to keep.", show_default=False)],
    *,
    over_later_changes: Annotated[
        bool, Option("--over-later-changes", help="Also replace what has changed since; that becomes a conflict.")
    ] = False,
) -> None:
    """Choose the side that wins, whichever won before: its version becomes the publisher's own change, for all nodes.

    With column tracking that is what it had changed, else the whole row. For a row that the publisher refuses,
    `publisher` undoes it at the subscriber, `subscriber` retries it.
    """
    is_written = connect(db).merge.resolve(
        conflict, winner, over_later_changes=over_later_changes, decided_by=name_actor()
    )
    report_done(say_resolved_merge(is_written=is_written))


@listing(app, epilog="Example: rowtide merge publications --db postgresql://localhost/shop")
def publications(db: AnyDb) -> Listed:
    """List the publications that a node takes part in (SQL Server: sp_helpmergepublication)."""
    from rowtide.merge.inspection.listings import MergePublication

    return MergePublication, connect(db).merge.list_publications()


@listing(
    app,
    epilog="Example: rowtide merge articles shop --wide --db postgresql://localhost/shop",
    columns="publication, article, columns, column_tracking, resolver, subset_filter as filter",
)
def articles(db: AnyDb, publication: SomePublication = None) -> Listed:
    """List merged tables with their resolvers (SQL Server: sp_helpmergearticle)."""
    from rowtide.merge.inspection.listings import MergeArticle

    return MergeArticle, connect(db).merge.list_articles(publication)


@listing(app, epilog="Example: rowtide merge identity-ranges shop --db postgresql://localhost/shop")
def identity_ranges(db: AnyDb, publication: SomePublication = None) -> Listed:
    """List the numbers that nodes have for new rows (SQL Server: MSmerge_identity_range).

    NULL stands for the publisher, whose max_used is the last number given to any node.
    """
    from rowtide.merge.inspection.listings import MergeIdentityRange

    return MergeIdentityRange, connect(db).merge.list_identity_ranges(publication)


@listing(app, epilog="Example: rowtide merge filters shop --db postgresql://localhost/shop")
def filters(db: AnyDb, publication: SomePublication = None) -> Listed:
    """List row filters, and join filters with their parents (SQL Server: sp_helpmergefilter)."""
    from rowtide.merge.inspection.listings import MergeFilter

    return MergeFilter, connect(db).merge.list_filters(publication)


@listing(
    app,
    epilog="Example: rowtide merge subscriptions shop --db postgresql://localhost/shop",
    columns="publication, subscriber, subscriber_type as type, priority, last_sync, expires",
)
def subscriptions(db: AnyDb, publication: SomePublication = None) -> Listed:
    """List the subscriptions that a node knows, without connecting to others (SQL Server: sp_helpmergesubscription)."""
    from rowtide.merge.status import MergeStatus

    return MergeStatus, [row for row in connect(db).merge.status(publication) if row.subscriber is not None]


@app.command(epilog="Example: rowtide merge table MSmerge_contents --db postgresql://localhost/shop")
def table(
    db: AnyDb,
    name: Annotated[str, Argument(metavar="TABLE", help="MSmerge_contents, sysmergesubscriptions, …")],
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Print a table that SQL Server documents, as a node is now: without an agent, with all changes so far.

    On PostgreSQL they are views of the schema rowtide_merge, in a SQLite file those that need no filters are views.
    """
    found = connect(db).merge.read_table(name)
    rows = [[_hexadecimal(value) for value in row.values()] for row in found.rows]
    if form is OutputFormat.TABLE:
        print_rows(found.columns, rows, form, show=show_fact)
    else:
        print_rows(found.columns, [[as_json(value, form) for value in row] for row in rows], form)


Upload = Annotated[bool, Option("--upload", help="From the subscriber to the publisher, not the other way.")]


@app.command(epilog="Example: rowtide merge make-generation --db sqlite:///field.db")
def make_generation(db: AnyDb, form: ListingFormat = OutputFormat.TABLE) -> None:
    """Close the open generation of a node, if it has changes (SQL Server: sp_MSmakegeneration).

    Prints the last closed one, a row of MSmerge_genhistory. Synchronisations do this themselves.
    """
    made = connect(db).merge.make_generation()
    if made is None:
        notes.print("Nothing is merged here.")
    else:
        print_facts(made, form)


@app.command(
    epilog="Example: rowtide merge enum-changes shop --subscriber sqlite:///field.db --db postgresql://localhost/shop"
)
def enum_changes(
    db: HubDb,
    publication: PublicationName,
    subscriber: SubscriberUrl,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    upload: Upload = False,
) -> None:
    """List the changes that the publisher has for a subscriber, and send nothing (SQL Server: sp_MSenumchanges).

    They are those after the lower of the sender's sentgen and the receiver's recgen.
    """
    listed = connect(db).merge.enum_changes(publication, subscriber, upload=upload)

    from rowtide.merge.inspection.handle import EnumeratedChange

    print_listed(EnumeratedChange, listed, form)


@app.command(
    epilog="Example: rowtide merge get-metadata shop orders 01977d20-5a4e-7cc0-8000-cfe0f9b6d111"
    " --subscriber sqlite:///field.db --db postgresql://localhost/shop"
)
def get_metadata(
    db: HubDb,
    publication: PublicationName,
    table: Annotated[str, Argument(metavar="TABLE", help="an article's name, or its table")],
    rowguids: Annotated[list[str], Argument(metavar="ROWGUID", help="values of the column rowguid")],
    subscriber: SubscriberUrl,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    upload: Upload = False,
) -> None:
    """Say whether rows would be applied as inserts, updates or deletes (SQL Server: sp_MSgetmetadata)."""
    listed = connect(db).merge.get_metadata(publication, subscriber, table, rowguids, upload=upload)

    from rowtide.merge.inspection.handle import RowMetadata

    print_listed(RowMetadata, listed, form)


@app.command(
    epilog="Example: rowtide merge dummy-update public.orders 01977d20-5a4e-7cc0-8000-cfe0f9b6d111"
    " --db postgresql://localhost/shop"
)
def dummy_update(
    db: AnyDb,
    table: Annotated[str, Argument(metavar="TABLE", help="an article's name, or its table")],
    rowguid: Annotated[str, Argument(metavar="ROWGUID", help="a value of the column rowguid")],
) -> None:
    """Let a row be sent again, as if it had been updated (SQL Server: sp_mergedummyupdate)."""
    is_there = connect(db).merge.dummy_update(table, rowguid)
    notes.print("It will be sent again." if is_there else "There is no such row.")


def _hexadecimal(value: object) -> object:
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
