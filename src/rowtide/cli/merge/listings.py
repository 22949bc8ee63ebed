"""`rowtide merge`: listings of publications, articles, filters and subscriptions."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.merge.options import SomePublication
from rowtide.cli.options import AnyDb, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, print_listed
from rowtide.handle import connect

app = CommandTable()

_ARTICLE = {
    "publication": "publication",
    "article": "article",
    "columns": "columns",
    "column_tracking": "column_tracking",
    "resolver": "resolver",
    "filter": "subset_filter",
}
_SUBSCRIPTION = {
    "publication": "publication",
    "subscriber": "subscriber",
    "type": "subscriber_type",
    "priority": "priority",
    "last_sync": "last_sync",
    "expires": "expires",
}


@app.command(epilog="Example: rowtide merge publications --db postgresql://localhost/shop")
def publications(db: AnyDb, form: ListingFormat = OutputFormat.TABLE) -> None:
    """List the publications that a node takes part in (SQL Server: sp_helpmergepublication)."""
    listed = connect(db).merge.list_publications()

    from rowtide.merge.inspection.listings import MergePublication

    print_listed(MergePublication, listed, form)


@app.command(epilog="Example: rowtide merge articles shop --wide --db postgresql://localhost/shop")
def articles(
    db: AnyDb, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List merged tables with their resolvers (SQL Server: sp_helpmergearticle)."""
    listed = connect(db).merge.list_articles(publication)

    from rowtide.merge.inspection.listings import MergeArticle

    print_listed(MergeArticle, listed, form, _ARTICLE, wide=wide)


@app.command(epilog="Example: rowtide merge identity-ranges shop --db postgresql://localhost/shop")
def identity_ranges(db: AnyDb, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE) -> None:
    """List the numbers that nodes have for new rows (SQL Server: MSmerge_identity_range).

    NULL stands for the publisher, whose max_used is the last number given to any node.
    """
    listed = connect(db).merge.list_identity_ranges(publication)

    from rowtide.merge.inspection.listings import MergeIdentityRange

    print_listed(MergeIdentityRange, listed, form)


@app.command(epilog="Example: rowtide merge filters shop --db postgresql://localhost/shop")
def filters(db: AnyDb, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE) -> None:
    """List row filters, and join filters with their parents (SQL Server: sp_helpmergefilter)."""
    listed = connect(db).merge.list_filters(publication)

    from rowtide.merge.inspection.listings import MergeFilter

    print_listed(MergeFilter, listed, form)


@app.command(epilog="Example: rowtide merge subscriptions shop --db postgresql://localhost/shop")
def subscriptions(
    db: AnyDb, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the subscriptions that a node knows, without connecting to others (SQL Server: sp_helpmergesubscription)."""
    listed = [row for row in connect(db).merge.status(publication) if row.subscriber is not None]

    from rowtide.merge.status import MergeStatus

    print_listed(MergeStatus, listed, form, _SUBSCRIPTION, wide=wide)
