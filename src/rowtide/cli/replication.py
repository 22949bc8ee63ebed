"""`rowtide replication`: publications, articles, subscriptions, and delivery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowtide.cli.options import Db, ListingFormat, TableName
from rowtide.cli.output import Format, as_json, notes, print_rows
from rowtide.cli.watching import stopping
from rowtide.core.column_lists import parse_column_list
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.handle import connect
from rowtide.replication.sync_types import IfExists, SyncType

if TYPE_CHECKING:
    from rowtide.replication.distribution.agent import DeliveryReport
    from rowtide.replication.snapshot.agent import SnapshotReport

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
def add_subscription(
    db: Db,
    publication: Publication,
    subscriber: Subscriber,
    sync_type: Annotated[
        SyncType,
        typer.Option(
            help="automatic: tables, procedures and rows are made there; replication-support-only: tables and rows are "
            "there already; from-lsn: the same, as they were at --lsn; none: procedures are there too."
        ),
    ] = SyncType.AUTOMATIC,
    lsn: Annotated[
        str | None, typer.Option(help="from-lsn: the subscriber has all changes below this LSN.", metavar="LSN")
    ] = None,
    if_exists: Annotated[
        IfExists, typer.Option(help="automatic: what becomes of a table that the subscriber has already.")
    ] = IfExists.FAIL,
) -> None:
    """Deliver a publication to a database: its rows, and all that commits from now on (SQL Server: sp_addsubscription).

    `rowtide replication run` copies the rows while they change, and goes on with the changes. Procedures and tables of
    progress are made at the subscriber, in the schema rowtide_subscriber; in a SQLite file, where statements stand in
    for procedures, tables of progress alone.
    """
    replication = connect(db).replication
    replication.add_subscription(
        publication,
        subscriber,
        sync_type=sync_type,
        if_exists=if_exists,
        lsn=CommitLsn.parse(lsn) if lsn is not None else None,
    )
    copies = "copies its rows and delivers" if sync_type is SyncType.AUTOMATIC else "delivers"
    notes.print(f"Added; `rowtide replication run` {copies}.")


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


SomeSubscriber = Annotated[
    str | None, typer.Option("--subscriber", help="The subscriber's database; default: all.", show_default=False)
]


@app.command(
    epilog="Example: rowtide replication reinitialize shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def reinitialize(
    db: Db,
    publication: Publication,
    subscriber: SomeSubscriber = None,
    if_exists: Annotated[
        IfExists, typer.Option(help="What becomes of the tables that are there: keep, delete, truncate or drop.")
    ] = IfExists.DROP,
) -> None:
    """Copy the tables anew to a subscriber, or to all, with what has changed since (SQL Server: sp_reinitsubscription).

    `rowtide replication run` copies and delivers.
    """
    for url in connect(db).replication.reinitialize(publication, subscriber, if_exists=if_exists):
        notes.print(f"Begun: {url}.")


@app.command(
    epilog="Example: rowtide replication pause shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def pause(db: Db, publication: Publication, subscriber: SomeSubscriber = None) -> None:
    """Stop delivering to a subscriber, or to all of a publication; what they lack is kept until the retention."""
    connect(db).replication.pause(publication, subscriber)
    notes.print("Paused.")


@app.command(
    epilog="Example: rowtide replication resume shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def resume(db: Db, publication: Publication, subscriber: SomeSubscriber = None) -> None:
    """Deliver again, also to a subscriber whose agent has stopped with an error."""
    connect(db).replication.resume(publication, subscriber)
    notes.print("Resumed.")


@app.command(
    epilog="Example: rowtide replication change-distribution --max-retention-hours 120 --db postgresql://localhost/shop"
)
def change_distribution(
    db: Db,
    max_retention_hours: Annotated[
        int, typer.Option(help="Hours that a subscription may be behind before it is deactivated; 72 at first.")
    ],
) -> None:
    """Set how long what a subscription was not delivered is kept (SQL Server: sp_changedistributiondb)."""
    connect(db).replication.change_distribution(max_retention_hours=max_retention_hours)
    notes.print(f"Changed: what is not delivered is kept {max_retention_hours} hours.")


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


SomePublication = Annotated[str | None, typer.Argument(metavar="[PUBLICATION]", help="default: all")]


@app.command(epilog="Example: rowtide replication status --db postgresql://localhost/shop")
def status(db: Db, publication: SomePublication = None, form: ListingFormat = Format.TABLE) -> None:
    """List the subscriptions, how far each is and how its agent stands; subscribers are not asked."""
    listed = connect(db).replication.status(publication)

    from rowtide.replication.status import SubscriptionStatus

    _print_listed(SubscriptionStatus, listed, form)


@app.command(epilog="Example: rowtide replication history shop --db postgresql://localhost/shop")
def history(db: Db, publication: SomePublication = None, form: ListingFormat = Format.TABLE) -> None:
    """List what the agents have done in the last 48 hours, the newest first (SQL Server: MSdistribution_history)."""
    listed = connect(db).replication.history(publication)

    from rowtide.replication.history import HistoricState

    _print_listed(HistoricState, listed, form)


@app.command(epilog="Example: rowtide replication errors shop --db postgresql://localhost/shop")
def errors(db: Db, publication: SomePublication = None, form: ListingFormat = Format.TABLE) -> None:
    """List the agents' errors in the last 48 hours, the newest first (SQL Server: MSrepl_errors)."""
    listed = connect(db).replication.errors(publication)

    from rowtide.replication.history import HistoricError

    _print_listed(HistoricError, listed, form)


@app.command(
    epilog="Example: rowtide replication browse-commands --article orders --format jsonl"
    " --db postgresql://localhost/shop"
)
def browse_commands(
    db: Db,
    from_lsn: Annotated[
        str | None, typer.Option("--from", help="The first transaction's LSN; default: the first that is kept.")
    ] = None,
    to_lsn: Annotated[
        str | None, typer.Option("--to", help="The last transaction's LSN; default: the last that was read.")
    ] = None,
    article: Annotated[str | None, typer.Option(help="Of this article, by its name or table; default: all.")] = None,
    publication: Annotated[str | None, typer.Option(help="Of this publication; default: all.")] = None,
    form: ListingFormat = Format.TABLE,
) -> None:
    """List the commands in the log store, delivered or not, in commit order (SQL Server: sp_browsereplcmds).

    As jsonl and csv they are printed as they are read, however many there are.
    """
    first, last = (CommitLsn.parse(text) if text is not None else None for text in (from_lsn, to_lsn))
    listed = connect(db).replication.browse_commands(publication, article=article, from_lsn=first, to_lsn=last)

    from rowtide.replication.browsing import BrowsedCommand

    _print_listed(BrowsedCommand, listed, form)


@app.command(epilog="Example: rowtide replication post-tracer-token shop --db postgresql://localhost/shop")
def post_tracer_token(db: Db, publication: Publication) -> None:
    """Post a token into the publisher's log and print its id (SQL Server: sp_posttracertoken)."""
    print(connect(db).replication.post_tracer_token(publication))


@app.command(epilog="Example: rowtide replication tracer-tokens shop --db postgresql://localhost/shop")
def tracer_tokens(db: Db, publication: Publication, form: ListingFormat = Format.TABLE) -> None:
    """List how long tokens took to the log store and to each subscriber, in seconds; null is pending.

    (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
    """
    listed = connect(db).replication.tracer_tokens(publication)

    from rowtide.replication.tracers import TracerArrival

    _print_listed(TracerArrival, listed, form)


@app.command(epilog="Example: rowtide replication validate shop --checksum --db postgresql://localhost/shop")
def validate(
    db: Db,
    publication: Publication,
    form: ListingFormat = Format.TABLE,
    *,
    checksum: Annotated[bool, typer.Option("--checksum", help="Compare values too, not only numbers of rows.")] = False,
) -> None:
    """Compare the rows of subscribers with the published ones (SQL Server: sp_publication_validation).

    For a publisher at rest, with everything delivered: what is on its way counts as a difference. Exit code 1 where
    rows differ (20574).
    """
    listed = connect(db).replication.validate(publication, checksum=checksum)

    from rowtide.replication.errors import ValidationFailed
    from rowtide.replication.validating import FAILED, ArticleValidation

    _print_listed(ArticleValidation, listed, form)
    failed = [row for row in listed if row.message == FAILED]
    if failed:
        raise ValidationFailed(publication, len(failed), len(listed))


def _print_listed(kind: type[Any], listed: Iterable[object], form: Format) -> None:
    columns = [field.name for field in fields(kind)]
    print_rows(columns, ([as_json(getattr(row, name), form) for name in columns] for row in listed), form)


@app.command(epilog="Example: rowtide replication deliver-backlogs --db postgresql://localhost/shop")
def deliver_backlogs(
    db: Db,
    publication: Annotated[str | None, typer.Argument(metavar="[PUBLICATION]", help="default: all")] = None,
) -> None:
    """Deliver what the log store has to subscriptions that lack much of it, each by a task of Spark.

    For many subscribers, or after a long stop; `rowtide replication run` goes on from there, and delivers to files.
    """
    with notes.status("Delivering ..."):
        delivered = connect(db).replication.deliver_backlogs(publication)
    for backlog in delivered:
        line = (
            f"{backlog.commands:,} commands of {backlog.transactions:,} transactions delivered to "
            f"{backlog.subscriber} in {backlog.seconds:.1f} s"
        )
        notes.print(line if backlog.failure is None else f"{line}. {backlog.failure}", soft_wrap=True)
    if not delivered:
        notes.print("No subscription lacks enough for a job: `rowtide replication run` delivers.")


@app.command(epilog="Example: rowtide replication run --once --db postgresql://localhost/shop")
def run(
    db: Db,
    publication: SomePublication = None,
    commit_batch_size: Annotated[
        int, typer.Option(min=1, max=10_000, help="Source transactions in a transaction at the subscriber.")
    ] = 100,
    commit_batch_threshold: Annotated[
        int, typer.Option(min=1, max=10_000, help="Commands after which a batch ends with its source transaction.")
    ] = 1000,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything committed before is delivered.")] = False,
    skip_errors: Annotated[
        str,
        typer.Option(
            metavar="N:N",
            help="Leave out commands with these errors: 2601, 2627, 547, 515, 20598 or SQLSTATEs.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Read the log, if nobody else does, and deliver, until stopped with Ctrl-C (SQL Server: Distribution Agent)."""
    replication = connect(db).replication

    from rowtide.replication.distribution.batches import BatchLimits
    from rowtide.replication.watchers import SkippedCommand, Trouble, Watchers

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

        def on_snapshot(report: SnapshotReport) -> None:
            line = describe_snapshot(report)
            if notes.is_terminal:
                shown.update(line)
            else:
                notes.print(line, soft_wrap=True)

        def on_trouble(trouble: Trouble) -> None:
            failed, error, pause_s = trouble.subscription, trouble.error, trouble.pause_s
            ending = "It has stopped." if pause_s is None else f"Next try in {pause_s:g} s."
            notes.print(f"{failed.publication} to {failed.subscriber}: {error} {ending}", soft_wrap=True)

        def on_skipped(skipped: SkippedCommand) -> None:
            left_out, error = skipped.subscription, skipped.error
            told = f"{left_out.publication} to {left_out.subscriber}: skipped at LSN {skipped.lsn}: {error}"
            notes.print(told, soft_wrap=True)

        limits = BatchLimits(commit_batch_size, commit_batch_threshold)
        watchers = Watchers(on_batch, on_trouble, on_retry, on_snapshot, on_skipped)
        replication.run(publication, once=once, limits=limits, stop=stop, watchers=watchers, skip_errors=skip_errors)


def describe_snapshot(report: SnapshotReport) -> str:
    """Say how far a snapshot is, or what it waits for."""
    if report.waits_for:
        return f"The snapshot for {report.subscriber} waits for the end of: {'; '.join(report.waits_for)}"
    return (
        f"{report.chunks} of {report.of_chunks} chunks ({report.copied_bytes / 1e6:,.0f} MB) copied to "
        f"{report.subscriber} in {report.seconds:.1f} s, {report.table} last"
    )
