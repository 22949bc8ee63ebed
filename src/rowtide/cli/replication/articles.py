"""`rowtide replication`: changes of published articles."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun
from rowtide.cli.output.rows import notes
from rowtide.cli.output.statements import printed
from rowtide.core.options import Argument, TableName
from rowtide.core.secrets import redact
from rowtide.handle import connect
from rowtide.replication.articles.requests import ArticleChange, IfCopied
from rowtide.replication.sync_types import PublicationName

app = CommandTable()

_ColumnName = Annotated[str, Argument(metavar="COLUMN", help="a column's name")]


@app.command(
    epilog="""Example: rowtide replication change-article shop public.orders --where "status <> 'draft'\""""
    " --db postgresql://localhost/shop"
)
def change_article(db: Db, change: ArticleChange, *, dry_run: DryRun = False) -> None:
    """Change a published table's filter or commands (SQL Server: sp_changearticle, sp_articlefilter).

    What is not given stays. With another filter, subscribers copy the table again, while everything else is delivered.
    """
    _change(db, change, dry_run=dry_run)


@app.command(epilog="Example: rowtide replication add-column shop public.orders note --db postgresql://localhost/shop")
def add_column(
    db: Db,
    publication: PublicationName,
    table: TableName,
    column: _ColumnName,
    if_exists: IfCopied = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Publish a column that is not published (SQL Server: sp_articlecolumn).

    Subscribers copy the table again, while everything else is delivered.
    """
    _change(db, ArticleChange(publication, table, add_columns=(column,), if_exists=if_exists), dry_run=dry_run)


@app.command(epilog="Example: rowtide replication drop-column shop public.orders note --db postgresql://localhost/shop")
def drop_column(
    db: Db, publication: PublicationName, table: TableName, column: _ColumnName, *, dry_run: DryRun = False
) -> None:
    """Publish a column no longer (SQL Server: sp_articlecolumn).

    Subscribers keep it with the values that it has; where it is not null, it allows nulls from then on.
    """
    _change(db, ArticleChange(publication, table, drop_columns=(column,)), dry_run=dry_run)


def _change(db: str, change: ArticleChange, *, dry_run: bool) -> None:
    replication = connect(db).replication
    if dry_run:
        with printed(replication.rehearsal()) as rehearsal:
            rehearsal.change_article(change)
        return
    for subscriber in replication.find_copying(change):
        notes.print(
            f"Copies {change.table} again, while everything else is delivered: {redact(subscriber)}.", soft_wrap=True
        )
    replication.change_article(change)
    notes.print("Changed; `rowtide replication run` applies it at the subscribers.")
