"""`rowtide merge`: listings of publications, articles, filters and subscriptions."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.merge.options import SomePublication
from rowtide.cli.options import AnyDb
from rowtide.handle import connect

app = CommandTable()


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
