"""`rowtide merge`: publications and their articles."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli.merge_options import HubDb, Publication
from rowtide.cli.output import notes
from rowtide.handle import connect
from rowtide.merge.articles import DEFAULT_RETENTION_DAYS

app = typer.Typer()


@app.command(epilog="Example: rowtide merge add-publication shop --db postgresql://localhost/shop")
def add_publication(
    db: HubDb,
    publication: Publication,
    retention_days: Annotated[
        int,
        typer.Option(help="A subscriber that has not synchronised for so many days begins anew; 0: never.", min=0),
    ] = DEFAULT_RETENTION_DAYS,
) -> None:
    """Make a publication, without articles (SQL Server: sp_addmergepublication)."""
    connect(db).merge.add_publication(publication, retention_days=retention_days)
    notes.print(f"Added: publication {publication}.")


@app.command(epilog="Example: rowtide merge drop-publication shop --db postgresql://localhost/shop")
def drop_publication(db: HubDb, publication: Publication) -> None:
    """Drop a publication without subscriptions (SQL Server: sp_dropmergepublication).

    Its triggers go, and columns `rowguid` that it made; with the last publication all that merging made.
    """
    connect(db).merge.drop_publication(publication)
    notes.print("Dropped.")


@app.command(
    epilog="Example: rowtide merge add-article shop orders --column-tracking --resolver later-wins:changed_at"
    " --db postgresql://localhost/shop"
)
def add_article(
    db: HubDb,
    publication: Publication,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="a table, on PostgreSQL as schema.table")],
    resolver: Annotated[
        str,
        typer.Option(
            help="Who wins a conflict: priority (of subscriptions; the publisher stands above all), publisher-wins, "
            "subscriber-wins, or later-wins:COLUMN, the higher value of a column."
        ),
    ] = "priority",
    *,
    column_tracking: Annotated[
        bool,
        typer.Option("--column-tracking", help="Changes of different columns of a row are merged, without conflict."),
    ] = False,
    compensate_for_errors: Annotated[
        bool,
        typer.Option(
            "--compensate-for-errors",
            help="What the publisher does not take is undone at the subscriber, instead of being tried again.",
        ),
    ] = False,
) -> None:
    """Publish a table and track its changes (SQL Server: sp_addmergearticle).

    It gets a column `rowguid`, where it has none, and triggers.
    """
    with notes.status(f"Adding {table} ..."):
        article = connect(db).merge.add_article(
            publication,
            table,
            column_tracking=column_tracking,
            resolver=resolver,
            compensate_for_errors=compensate_for_errors,
        )
    notes.print(f"Added: article {article.name}.")


@app.command(epilog="Example: rowtide merge drop-article shop orders --db postgresql://localhost/shop")
def drop_article(
    db: HubDb,
    publication: Publication,
    article: Annotated[str, typer.Argument(metavar="ARTICLE", help="an article's name, or its table")],
) -> None:
    """Publish a table no more (SQL Server: sp_dropmergearticle)."""
    connect(db).merge.drop_article(publication, article)
    notes.print("Dropped.")
