"""`rowtide replication`: publications, their articles, and scripts that run at subscribers after schema changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun, ListingFormat, Wide, Yes, confirm_loss
from rowtide.cli.output.rows import OutputFormat, notes, print_child_tables, print_listed, print_wait, printed
from rowtide.core.options import Argument, Option, TableName
from rowtide.core.redaction import redact
from rowtide.handle import connect
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.articles.requests import ArticleChange, IfCopied, NewArticle, NewPublication
from rowtide.replication.subscription_settings import PublicationName

app = CommandTable()

_ADDED_ARTICLE = {"name": "name", "type": "type", "outcome": "outcome", "reason": "reason"}


@app.command(
    epilog="Example: rowtide replication add-publication shop --lake /data/lake --db postgresql://localhost/shop"
)
def add_publication(db: Db, publication: NewPublication) -> None:
    """Create a publication without articles (SQL Server: sp_addpublication).

    The first one, in a database that is not enabled for capture, creates publication, slot and log store: use `--lake`
    or `--log-store`.
    """
    opened = connect(db).replication.add_publication(replace(publication, on_wait=print_wait))

    from rowtide.log.postgres.ddl_triggers import Triggers

    notes.print(f"Added: publication {publication.name}.")
    if not opened.was_there:
        notes.print(f"The log is read from LSN {opened.position} on, into {opened.source.log_store}.", soft_wrap=True)
    if not opened.was_there and opened.triggers is Triggers.REFUSED:
        notes.print("No event triggers: this role may not create them. `rowtide check` says what is lost.")


@app.command(
    epilog="Example: rowtide replication move-distribution postgresql://west/distribution"
    " --db postgresql://localhost/shop"
)
def move_distribution(
    db: Db,
    distribution_db: Annotated[
        str, Argument(metavar="URL", help="The database to move it to, without a password.", is_database=True)
    ],
) -> None:
    """Move what publications, articles and subscriptions are to another database.

    If there is nothing to be moved because the distribution database is lost, one that was restored at the new place is
    used from now on. Runs continue by themselves.
    """
    rows = connect(db).replication.move_distribution(distribution_db)
    notes.print("Recorded: the one that was restored there is used." if rows is None else f"Moved: {rows:,} rows.")


@app.command(epilog="Example: rowtide replication drop-publication shop --db postgresql://localhost/shop")
def drop_publication(db: Db, publication: PublicationName, *, yes: Yes = False) -> None:
    """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication).

    The last one, in a database that is not enabled for capture, also removes publication, slot and log store; it
    reports what is lost, and asks.
    """
    replication = connect(db).replication
    ending = replication.find_ending(publication)
    if ending is not None:
        confirm_loss(ending, yes=yes)
    replication.drop_publication(publication)
    notes.print("Dropped.")


@app.command(
    epilog='Example: rowtide replication add-article shop public.orders --update-command "SCALL shop.apply_order"'
    " --db postgresql://localhost/shop"
)
def add_article(
    db: Db,
    article: NewArticle,
    article_type: Annotated[
        ArticleType | None,
        Option(
            "--type", help="The type of the object; default: the catalogue's.", show_default=False, sql_server="@type"
        ),
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Publish a table, or the text of a view, function or procedure (SQL Server: sp_addarticle).

    Subscribers of the publication get its rows while everything else is delivered: `rowtide replication run` copies
    them, `status` says how far it is.

    Updates send only changed columns, for which the log must carry whole old rows: this is set up unless
    `--before-images key` is given; then every column that the log carries counts as changed.
    """
    replication = connect(db).replication
    if dry_run:
        with printed(replication.rehearsal()) as rehearsal:
            if not rehearsal.add_schema_article(article.publication, article.table, article_type):
                rehearsal.add_article(article)
        return
    if replication.add_schema_article(article.publication, article.table, article_type):
        notes.print(f"Added: the text of {article.table} is published in {article.publication}.")
        return
    replication.add_article(article)
    notes.print(f"Added: {article.table} is published in {article.publication}.")
    print_child_tables(article.table, replication.find_child_tables(article.table), "published")


@app.command(epilog="Example: rowtide replication add-schema shop public --db postgresql://localhost/shop")
def add_schema(
    db: Db,
    publication: PublicationName,
    schema: Annotated[str, Argument(metavar="SCHEMA", help="its name, as in the catalogue")],
    excluding: Annotated[
        list[str] | None, Option("--except", help="Not these: names, or patterns of them. May be repeated.")
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """Publish what a schema has: its tables, and the text of its views, functions and procedures.

    What is published already is skipped, and one that cannot be published does not stop the others. Functions of
    triggers are omitted: subscribers' tables get no triggers.
    """
    from rowtide.replication.errors.publishing import ArticlesNotAdded
    from rowtide.replication.publishing.whole_schemas import FAILED, AddedArticle

    with notes.status("Publishing ..."):
        added = list(connect(db).replication.add_schema(publication, schema, excluding=excluding or ()))
    print_listed(AddedArticle, added, form, _ADDED_ARTICLE, wide=wide)
    failed = [one for one in added if one.outcome == FAILED]
    if failed:
        raise ArticlesNotAdded(schema, publication, len(failed), len(added))


@app.command(epilog="Example: rowtide replication drop-article shop public.orders --db postgresql://localhost/shop")
def drop_article(db: Db, publication: PublicationName, table: TableName, *, dry_run: DryRun = False) -> None:
    """Remove a table from a publication; subscribers keep its rows (SQL Server: sp_droparticle).

    Their procedures are removed by `rowtide replication run`, while everything else is delivered.
    """
    replication = connect(db).replication
    if dry_run:
        with printed(replication.rehearsal()) as rehearsal:
            rehearsal.drop_article(publication, table)
        return
    replication.drop_article(publication, table)
    notes.print("Dropped.")


@app.command(epilog="Example: rowtide replication script-procedures shop --db postgresql://localhost/shop")
def script_procedures(
    db: Db,
    publication: PublicationName,
    subscriber: Annotated[
        str | None,
        Option(help="The kind of subscriber, without connecting to one; default: PostgreSQL.", is_database=True),
    ] = None,
) -> None:
    """Print the statements that create a subscriber's objects (SQL Server: sp_scriptpublicationcustomprocs)."""
    for statement in connect(db).replication.script_procedures(publication, subscriber):
        print(f"{statement.strip()};\n")


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


def existing_file(path: Path) -> Path:
    """Refuse a path that is not a file."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


@app.command(
    epilog="Example: rowtide replication register-custom-scripting shop public.orders --sql apply_order.sql"
    " --db postgresql://localhost/shop"
)
def register_custom_scripting(
    db: Db,
    publication: PublicationName,
    table: TableName,
    sql: Annotated[
        Path | None,
        Option(help="File with SQL statements; it is read now.", check=existing_file),
    ] = None,
    python: Annotated[
        str | None,
        Option(
            help="Function of the agent's that returns SQL statements.", metavar="MODULE:FUNCTION", show_default=False
        ),
    ] = None,
    from_lsn: Annotated[
        str | None,
        Option("--from", help="For schema changes from this LSN on; default: from now on.", metavar="LSN"),
    ] = None,
) -> None:
    """Run statements at subscribers after each schema change of a table (SQL Server: sp_register_custom_scripting).

    They run in the transaction of the change, after the generated procedures were made again: custom procedures follow
    a changed signature. If they fail, delivery stops before the change (RT-7261).
    """
    connect(db).replication.register_custom_scripting(
        publication,
        table,
        sql=sql.read_text() if sql is not None else None,
        python=python,
        name=str(sql) if sql is not None else None,
        from_lsn=from_lsn,
    )
    notes.print("Registered.")


@app.command(
    epilog="Example: rowtide replication unregister-custom-scripting shop public.orders --db postgresql://localhost/shop"
)
def unregister_custom_scripting(db: Db, publication: PublicationName, table: TableName) -> None:
    """Run nothing after later schema changes of a table (SQL Server: sp_unregister_custom_scripting)."""
    connect(db).replication.unregister_custom_scripting(publication, table)
    notes.print("Unregistered.")
