"""`rowtide replication`: listings of publications, articles and subscriptions."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db
from rowtide.cli.replication.options import SomePublication
from rowtide.handle import connect

app = CommandTable()


@listing(app, epilog="Example: rowtide replication publications --db postgresql://localhost/shop")
def publications(db: Db) -> Listed:
    """List the publications (SQL Server: sp_helppublication)."""
    from rowtide.replication.inspection.listings import ListedPublication

    return ListedPublication, connect(db).replication.list_publications()


@listing(
    app,
    epilog="Example: rowtide replication articles shop --wide --db postgresql://localhost/shop",
    columns="publication, article, columns, filter_clause as filter",
)
def articles(db: Db, publication: SomePublication = None) -> Listed:
    """List published tables, with their columns, row filters and commands (SQL Server: sp_helparticle)."""
    from rowtide.replication.inspection.listings import ListedArticle

    return ListedArticle, connect(db).replication.list_articles(publication)


@listing(
    app,
    epilog="Example: rowtide replication subscriptions --format jsonl --db postgresql://localhost/shop",
    columns="publication, subscriber, state, settings, queued_commands as queued, queued_bytes as size, "
    "oldest_queued as oldest",
    json_texts=("settings",),
)
def subscriptions(db: Db, publication: SomePublication = None) -> Listed:
    """List subscriptions with their queues (SQL Server: sp_helpsubscription).

    Queued are undelivered commands in the log store, including those that a row filter will exclude; sizes are of
    whole segments, and `oldest` is when the first was read. Does not connect to subscribers.
    """
    from rowtide.replication.inspection.listings import ListedSubscription

    return ListedSubscription, connect(db).replication.list_subscriptions(publication)
