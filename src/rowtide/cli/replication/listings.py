"""`rowtide replication`: listings of publications, articles and subscriptions."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, print_listed
from rowtide.cli.replication.options import SomePublication
from rowtide.handle import connect

app = CommandTable()

_ARTICLE = {
    "publication": "publication",
    "article": "article",
    "columns": "columns",
    "filter": "filter_clause",
}
_SUBSCRIPTION = {
    "publication": "publication",
    "subscriber": "subscriber",
    "state": "state",
    "settings": "settings",
    "queued": "queued_commands",
    "size": "queued_bytes",
    "oldest": "oldest_queued",
}


@app.command(epilog="Example: rowtide replication publications --db postgresql://localhost/shop")
def publications(db: Db, form: ListingFormat = OutputFormat.TABLE) -> None:
    """List the publications (SQL Server: sp_helppublication)."""
    listed = connect(db).replication.list_publications()

    from rowtide.replication.inspection.listings import ListedPublication

    print_listed(ListedPublication, listed, form)


@app.command(epilog="Example: rowtide replication articles shop --wide --db postgresql://localhost/shop")
def articles(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List published tables, with their columns, row filters and commands (SQL Server: sp_helparticle)."""
    listed = connect(db).replication.list_articles(publication)

    from rowtide.replication.inspection.listings import ListedArticle

    print_listed(ListedArticle, listed, form, _ARTICLE, wide=wide)


@app.command(epilog="Example: rowtide replication subscriptions --format jsonl --db postgresql://localhost/shop")
def subscriptions(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List subscriptions with their queues (SQL Server: sp_helpsubscription).

    Queued are undelivered commands in the log store, including those that a row filter will exclude; sizes are of
    whole segments, and `oldest` is when the first was read. Does not connect to subscribers.
    """
    listed = connect(db).replication.list_subscriptions(publication)

    from rowtide.replication.inspection.listings import ListedSubscription

    print_listed(ListedSubscription, listed, form, _SUBSCRIPTION, wide=wide, json_texts=("settings",))
