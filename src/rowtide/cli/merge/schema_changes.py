"""`rowtide merge`: changes of published tables, which subscribers follow."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.merge.options import ArticleName, HubDb
from rowtide.cli.merge.publishing import altering
from rowtide.cli.options import DryRun
from rowtide.cli.output.rows import notes
from rowtide.cli.output.statements import report
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.publishing.requests import PublicationName

app = CommandTable()


@app.command(
    epilog="Example: rowtide merge alter-article shop orders 'drop column note' --db postgresql://localhost/shop"
)
def alter_article(
    db: HubDb,
    publication: PublicationName,
    article: ArticleName,
    clause: Annotated[str, Argument(metavar="CLAUSE", help="what follows `alter table NAME`")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Alter a published table; subscribers follow when they synchronise.

    Any program may alter the table by itself: the next synchronisation notices. This also drops columns that SQLite
    would not drop because triggers of merge name them.
    """
    with altering(db, dry_run=dry_run) as merge:
        merge.alter_article(publication, article, clause)
    report("Altered; subscribers follow when they synchronise.", dry_run=dry_run)


@listing(
    app,
    epilog="Example: rowtide merge schema-changes shop --db postgresql://localhost/shop",
    columns="article_name as article, schemaversion as version, schematext as change, schemastatus as status, pending",
)
def schema_changes(db: HubDb, publication: PublicationName) -> Listed:
    """List schema changes that a subscriber has not followed (SQL Server: sp_enumeratependingschemachanges)."""
    from rowtide.merge.publishing.schema_changes import SchemaChange

    return SchemaChange, connect(db).merge.list_schema_changes(publication)


@app.command(epilog="Example: rowtide merge mark-schema-change shop 3 --skip --db postgresql://localhost/shop")
def mark_schema_change(
    db: HubDb,
    publication: PublicationName,
    version: Annotated[int, Argument(metavar="VERSION", help="as schema-changes lists it")],
    *,
    skip: Annotated[
        bool, Option("--skip/--active", help="Subscribers do not alter their tables: it was done by hand.")
    ] = True,
) -> None:
    """Leave a schema change to the subscribers' users (SQL Server: sp_markpendingschemachange)."""
    connect(db).merge.mark_schema_change(publication, version, "skipped" if skip else "active")
    notes.print("Marked.")
