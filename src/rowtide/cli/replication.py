"""`rowtide replication`: publications, articles, subscriptions, and delivery."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.options import Db, ListingFormat, TableName
from rowtide.cli.output import Format, as_json, notes, print_rows
from rowtide.cli.watching import stopping
from rowtide.core.column_lists import parse_column_list
from rowtide.core.errors import RowtideError
from rowtide.core.tables import BeforeImages
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.replication.distribution.agent import DeliveryReport

app = typer.Typer(
    help="Transactional replication: published tables delivered to subscribers, exactly once.", no_args_is_help=True
)

Publication = Annotated[str, typer.Argument(metavar="PUBLICATION", help="a publication's name")]
Subscriber = Annotated[
    str,
    typer.Option(
        "--subscriber",
        help="The subscriber's database: postgresql://user@host/name, without a password, or sqlite:///folder/file.db",
    ),
]


@app.command(epilog="Example: rowtide replication add-publication shop --db postgresql://localhost/shop")
def add_publication(db: Db, publication: Publication) -> None:
    """Make a publication, without articles (SQL Server: sp_addpublication).

    The database must be enabled for capture: `rowtide cdc enable-db`.
    """
    connect(db).replication.add_publication(publication)
    notes.print(f"Added: publication {publication}.")


@app.command(epilog="Example: rowtide replication drop-publication shop --db postgresql://localhost/shop")
def drop_publication(db: Db, publication: Publication) -> None:
    """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication)."""
    connect(db).replication.drop_publication(publication)
    notes.print("Dropped.")


@app.command(
    epilog='Example: rowtide replication add-article shop public.orders --update-command "SCALL shop.apply_order"'
    " --db postgresql://localhost/shop"
)
def add_article(
    db: Db,
    publication: Publication,
    table: TableName,
    listed: Annotated[
        str | None,
        typer.Option(
            "--columns", help='Published columns, separated by commas, in "" or [] where needed; default: all.'
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Which rows are published: a condition over published columns.")
    ] = None,
    insert_command: Annotated[str, typer.Option(help="CALL [PROC], SQL or NONE.")] = "CALL",
    update_command: Annotated[str, typer.Option(help="SCALL, CALL, MCALL or XCALL [PROC], SQL or NONE.")] = "SCALL",
    delete_command: Annotated[str, typer.Option(help="CALL or XCALL [PROC], SQL or NONE.")] = "CALL",
    before_images: Annotated[
        BeforeImages | None,
        typer.Option(
            help="What the log carries of a row before its change: all, or its key; default: what commands need.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Publish a table (SQL Server: sp_addarticle).

    Updates name the changed columns where the log carries whole rows, which it does from now on unless
    `--before-images key` says otherwise; then every column that the log carries counts as changed.
    """
    replication = connect(db).replication

    from rowtide.core.records import Operation
    from rowtide.replication.call_formats import parse_command

    written = {
        Operation.INSERT: insert_command,
        Operation.UPDATE: update_command,
        Operation.DELETE: delete_command,
    }
    replication.add_article(
        publication,
        table,
        columns=parse_column_list(listed) if listed is not None else None,
        commands={operation: parse_command(operation, text) for operation, text in written.items()},
        before_images=before_images,
        where=where,
    )
    notes.print(f"Added: {table} is published in {publication}.")


@app.command(epilog="Example: rowtide replication drop-article shop public.orders --db postgresql://localhost/shop")
def drop_article(db: Db, publication: Publication, table: TableName) -> None:
    """Take a table out of a publication that has no subscriptions (SQL Server: sp_droparticle)."""
    connect(db).replication.drop_article(publication, table)
    notes.print("Dropped.")


@app.command(
    epilog="Example: rowtide replication add-subscription shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def add_subscription(db: Db, publication: Publication, subscriber: Subscriber) -> None:
    """Deliver all that commits from now on to a database that has the tables and their rows.

    (SQL Server: sp_addsubscription with sync type "replication support only".) Procedures and a table of progress are
    made there, in the schema rowtide_subscriber; in a SQLite file, where statements stand in for procedures, tables of
    progress alone.
    """
    connect(db).replication.add_subscription(publication, subscriber)
    notes.print("Added; `rowtide replication run` delivers.")


@app.command(
    epilog="Example: rowtide replication drop-subscription shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def drop_subscription(
    db: Db,
    publication: Publication,
    subscriber: Subscriber,
    *,
    ignore_subscriber: Annotated[
        bool, typer.Option("--ignore-subscriber", help="The subscriber is gone: change nothing there.")
    ] = False,
) -> None:
    """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription)."""
    connect(db).replication.drop_subscription(publication, subscriber, ignores_subscriber=ignore_subscriber)
    notes.print("Dropped.")


@app.command(epilog="Example: rowtide replication script-procedures shop --db postgresql://localhost/shop")
def script_procedures(
    db: Db,
    publication: Publication,
    subscriber: Annotated[
        str | None, typer.Option(help="For such a subscriber, which is not asked; default: one in PostgreSQL.")
    ] = None,
) -> None:
    """Print what is made at a subscriber (SQL Server: sp_scriptpublicationcustomprocs)."""
    for statement in connect(db).replication.script_procedures(publication, subscriber):
        print(f"{statement.strip()};\n")


@app.command(epilog="Example: rowtide replication status --db postgresql://localhost/shop")
def status(
    db: Db,
    publication: Annotated[str | None, typer.Argument(metavar="[PUBLICATION]", help="default: all")] = None,
    form: ListingFormat = Format.TABLE,
) -> None:
    """List the subscriptions, and how far each is; subscribers are not asked."""
    listed = connect(db).replication.status(publication)

    from rowtide.replication.status import SubscriptionStatus

    columns = [field.name for field in fields(SubscriptionStatus)]
    print_rows(columns, ([as_json(getattr(row, name), form) for name in columns] for row in listed), form)


@app.command(epilog="Example: rowtide replication run --once --db postgresql://localhost/shop")
def run(
    db: Db,
    publication: Annotated[str | None, typer.Argument(metavar="[PUBLICATION]", help="default: all")] = None,
    commit_batch_size: Annotated[
        int, typer.Option(min=1, max=10_000, help="Source transactions in a transaction at the subscriber.")
    ] = 100,
    commit_batch_threshold: Annotated[
        int, typer.Option(min=1, max=10_000, help="Commands after which a batch ends with its source transaction.")
    ] = 1000,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything committed before is delivered.")] = False,
) -> None:
    """Read the log, if nobody else does, and deliver, until stopped with Ctrl-C (SQL Server: Distribution Agent)."""
    replication = connect(db).replication

    from rowtide.replication.distribution.batches import BatchLimits

    with stopping() as stop, notes.status("Starting the log reader ...") as shown:

        def on_batch(report: DeliveryReport) -> None:
            line = (
                f"{report.commands:,} commands of {report.transactions:,} transactions delivered to "
                f"{report.subscriber} up to LSN {report.reached} in {report.seconds:.2f} s"
            )
            if notes.is_terminal:
                shown.update(line)
            else:
                notes.print(line, soft_wrap=True)

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        limits = BatchLimits(commit_batch_size, commit_batch_threshold)
        replication.run(publication, once=once, limits=limits, stop=stop, on_batch=on_batch, on_retry=on_retry)
