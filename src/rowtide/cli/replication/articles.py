"""`rowtide replication`: changes of published articles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun, TableName
from rowtide.cli.output.rows import notes
from rowtide.cli.output.statements import printed
from rowtide.cli.replication.options import Publication
from rowtide.core.options import Argument, Option
from rowtide.core.secrets import redact
from rowtide.handle import connect
from rowtide.replication.articles.articles import MovedPartitions
from rowtide.replication.articles.call_formats import KeyUpdates
from rowtide.replication.sync_types import IfExists

if TYPE_CHECKING:
    from rowtide.replication.articles.changes import ArticleChanges

app = CommandTable()

_ColumnName = Annotated[str, Argument(metavar="COLUMN", help="a column's name")]
_IfCopied = Annotated[
    IfExists | None,
    Option(
        "--if-exists",
        help="What becomes of a table that is copied again; default: drop, truncate where what was there was kept.",
        show_default=False,
    ),
]


@app.command(
    epilog="""Example: rowtide replication change-article shop public.orders --where "status <> 'draft'\""""
    " --db postgresql://localhost/shop"
)
def change_article(
    db: Db,
    publication: Publication,
    table: TableName,
    where: Annotated[
        str | None, Option(help="Another row filter: a condition over published columns.", show_default=False)
    ] = None,
    insert_command: Annotated[str | None, Option(help="CALL [PROC], SQL or NONE.", show_default=False)] = None,
    update_command: Annotated[
        str | None, Option(help="SCALL, CALL, MCALL or XCALL [PROC], SQL or NONE.", show_default=False)
    ] = None,
    delete_command: Annotated[str | None, Option(help="CALL or XCALL [PROC], SQL or NONE.", show_default=False)] = None,
    key_updates: Annotated[
        KeyUpdates | None, Option(help="How a change of the key is delivered.", show_default=False)
    ] = None,
    moved_partitions: Annotated[
        MovedPartitions | None,
        Option(help="Whether partitions that move rows let it be copied again.", show_default=False),
    ] = None,
    if_exists: _IfCopied = None,
    *,
    no_where: Annotated[bool, Option("--no-where", help="Publish all rows.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Change a published table's filter or commands (SQL Server: sp_changearticle, sp_articlefilter).

    What is not given stays. With another filter, subscribers copy the table again, while everything else is delivered.
    """
    from rowtide.core.operations import Operation
    from rowtide.replication.articles.call_formats import parse_command

    given = {
        Operation.INSERT: insert_command,
        Operation.UPDATE: update_command,
        Operation.DELETE: delete_command,
    }
    changes: ArticleChanges = {
        "commands": {each: parse_command(each, text) for each, text in given.items() if text is not None},
        "where": where,
        "without_filter": no_where,
        "key_updates": key_updates,
        "moved_partitions": moved_partitions,
    }
    _change(db, publication, table, changes, if_exists, dry_run=dry_run)


@app.command(epilog="Example: rowtide replication add-column shop public.orders note --db postgresql://localhost/shop")
def add_column(
    db: Db,
    publication: Publication,
    table: TableName,
    column: _ColumnName,
    if_exists: _IfCopied = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Publish a column that is not published (SQL Server: sp_articlecolumn).

    Subscribers copy the table again, while everything else is delivered.
    """
    _change(db, publication, table, {"add_columns": (column,)}, if_exists, dry_run=dry_run)


@app.command(epilog="Example: rowtide replication drop-column shop public.orders note --db postgresql://localhost/shop")
def drop_column(
    db: Db, publication: Publication, table: TableName, column: _ColumnName, *, dry_run: DryRun = False
) -> None:
    """Publish a column no longer (SQL Server: sp_articlecolumn).

    Subscribers keep it with the values that it has; where it is not null, it allows nulls from then on.
    """
    _change(db, publication, table, {"drop_columns": (column,)}, None, dry_run=dry_run)


def _change(
    db: str, publication: str, table: str, changes: ArticleChanges, if_exists: IfExists | None, *, dry_run: bool
) -> None:
    replication = connect(db).replication
    if dry_run:
        with printed(replication.rehearsal()) as rehearsal:
            rehearsal.change_article(publication, table, if_exists=if_exists, **changes)
        return
    for subscriber in replication.find_copying(publication, table, **changes):
        notes.print(f"Copies {table} again, while everything else is delivered: {redact(subscriber)}.", soft_wrap=True)
    replication.change_article(publication, table, if_exists=if_exists, **changes)
    notes.print("Changed; `rowtide replication run` brings it to the subscribers.")
