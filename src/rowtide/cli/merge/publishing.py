"""`rowtide merge`: publications and their articles, and changes of published tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import ArticleName, DryRun, HubDb
from rowtide.cli.output.rows import notes, printed, report
from rowtide.cli.parameters import require_given
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.articles import FilterType, Partition
from rowtide.merge.publishing.requests import (
    MergeArticleChanges,
    MergePublicationChanges,
    NewMergeArticle,
    NewMergePublication,
    PublicationName,
)

if TYPE_CHECKING:
    from rowtide.merge.publishing.handle import MergePublishing


app = CommandTable()


@app.command(epilog="Example: rowtide merge add-publication shop --db postgresql://localhost/shop")
def add_publication(db: HubDb, publication: NewMergePublication, *, dry_run: DryRun = False) -> None:
    """Create a publication without articles (SQL Server: sp_addmergepublication)."""
    with altering(db, dry_run=dry_run) as merge:
        merge.add_publication(publication)
    report(f"Added: publication {publication.name}.", dry_run=dry_run)


@app.command(
    epilog="Example: rowtide merge change-publication shop --no-replicate-ddl --db postgresql://localhost/shop"
)
def change_publication(db: HubDb, changes: MergePublicationChanges, *, dry_run: DryRun = False) -> None:
    """Change a publication's options (SQL Server: sp_changemergepublication)."""
    require_given(changes)
    with altering(db, dry_run=dry_run) as merge:
        merge.change_publication(changes)
    report("Changed.", dry_run=dry_run)


@app.command(epilog="Example: rowtide merge drop-publication shop --db postgresql://localhost/shop")
def drop_publication(db: HubDb, publication: PublicationName, *, dry_run: DryRun = False) -> None:
    """Drop a publication without subscriptions (SQL Server: sp_dropmergepublication).

    Also drops its triggers, and the columns `rowguid` that it added; with the last publication, all of merge's objects.
    """
    with altering(db, dry_run=dry_run) as merge:
        merge.drop_publication(publication)
    report("Dropped.", dry_run=dry_run)


@app.command(
    epilog="Example: rowtide merge add-article shop orders --column-tracking --resolver later-wins:changed_at"
    " --db postgresql://localhost/shop"
)
def add_article(db: HubDb, article: NewMergeArticle, *, dry_run: DryRun = False) -> None:
    """Publish a table and track its changes (SQL Server: sp_addmergearticle).

    Adds triggers, and a column `rowguid` if the table has none.
    """
    with notes.status(f"Adding {article.table} ..."), altering(db, dry_run=dry_run) as merge:
        added = merge.add_article(article)
    report(f"Added: article {added.name}.", dry_run=dry_run)


@app.command(
    epilog="Example: rowtide merge add-filter shop orders customers 'orders.customer_id = customers.id'"
    " --db postgresql://localhost/shop"
)
def add_filter(
    db: HubDb,
    publication: PublicationName,
    child: Annotated[str, Argument(metavar="CHILD", help="the article whose rows follow")],
    parent: Annotated[str, Argument(metavar="PARENT", help="the article that they follow")],
    join: Annotated[str, Argument(metavar="JOIN_EXPR", help="a condition over both, columns with their tables")],
    filter_type: Annotated[
        FilterType,
        Option("--type", help="join: rows follow the parent's; record: they are one logical record with it; both."),
    ] = FilterType.JOIN,
    *,
    unique_key: Annotated[
        bool, Option("--unique-key", help="A row of CHILD matches one row of PARENT at most.")
    ] = False,
) -> None:
    """Add a join filter: rows follow the parent's rows that they join to (SQL Server: sp_addmergefilter)."""
    connect(db).merge.add_filter(publication, child, parent, join, unique_key=unique_key, filter_type=filter_type)
    notes.print(f"Added: {child} follows {parent}.")


@app.command(
    epilog="Example: rowtide merge change-article shop customers --where 'region = host_name()'"
    " --db postgresql://localhost/shop"
)
def change_article(db: HubDb, changes: MergeArticleChanges, *, dry_run: DryRun = False) -> None:
    """Change an article's filters, resolver and options (SQL Server: sp_changemergearticle).

    Each subscriber follows at its next synchronisation: rows enter and leave as the new filters say.
    """
    require_given(changes)
    with altering(db, dry_run=dry_run) as merge:
        merge.change_article(changes)
    follows = "; subscribers follow when they synchronise."
    if changes.upload_options is not None:
        follows = "; `rowtide merge reinitialize --upload-first` each subscriber."
    report(f"Changed{follows}", dry_run=dry_run)


@app.command(epilog="Example: rowtide merge add-partition shop --host-name north --db postgresql://localhost/shop")
def add_partition(db: HubDb, publication: PublicationName, partition: Partition) -> None:
    """Create a partition before the first subscription to it (SQL Server: sp_addmergepartition)."""
    number = connect(db).merge.add_partition(publication, partition)
    notes.print(f"Added: partition {number}.")


@app.command(epilog="Example: rowtide merge adjust-identity-range shop orders --db postgresql://localhost/shop")
def adjust_identity_range(
    db: HubDb,
    publication: PublicationName,
    article: ArticleName,
) -> None:
    """Give the publisher new numbers if it has used its own (SQL Server: sp_adjustpublisheridentityrange)."""
    is_adjusted = connect(db).merge.adjust_identity_range(publication, article)
    notes.print("Adjusted." if is_adjusted else "Nothing to adjust: the publisher has numbers left.")


@app.command(epilog="Example: rowtide merge restore-identity-range shop orders --db postgresql://localhost/shop")
def restore_identity_range(
    db: HubDb,
    publication: PublicationName,
    article: ArticleName,
) -> None:
    """Continue after all numbers that may have been given (SQL Server: sp_restoremergeidentityrange).

    For a publisher that was restored from a backup: numbers given since then are unknown to it.
    """
    last = connect(db).merge.restore_identity_range(publication, article)
    notes.print(f"Restored: new ranges begin after {last}.")


@app.command(epilog="Example: rowtide merge drop-article shop orders --db postgresql://localhost/shop")
def drop_article(
    db: HubDb,
    publication: PublicationName,
    article: ArticleName,
    *,
    dry_run: DryRun = False,
) -> None:
    """Remove a table from a publication (SQL Server: sp_dropmergearticle).

    Tables and rows stay. Each subscriber first uploads what it had changed.
    """
    with altering(db, dry_run=dry_run) as merge:
        merge.drop_article(publication, article)
    report("Dropped.", dry_run=dry_run)


@contextmanager
def altering(db: str, *, dry_run: bool) -> Iterator[MergePublishing]:
    """Yield what alters the database; with --dry-run it has no effect, and the statements are printed."""
    merge = connect(db).merge
    opened: AbstractContextManager[MergePublishing] = printed(merge.rehearsal()) if dry_run else nullcontext(merge)
    with opened as publishing:
        yield publishing


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
