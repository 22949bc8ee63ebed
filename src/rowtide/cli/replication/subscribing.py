"""`rowtide replication`: subscriptions, and the process that copies and delivers."""

from __future__ import annotations

from typing import Annotated

from rowtide.actions.wording import PAUSED, RESUMED, say_copied_again
from rowtide.cli.active_configuration import label_of
from rowtide.cli.groups import CommandTable, record_done, report_done
from rowtide.cli.options import (
    ClusterOptions,
    Db,
    HideKeys,
    IgnoreSubscriber,
    ListingFormat,
    Reason,
    SomePublication,
    Upgrade,
    Yes,
    confirm_loss,
    upgrade_first,
)
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.cli.output.rows import OutputFormat, notes, print_listed, print_wait
from rowtide.cli.output.watching import watching
from rowtide.core.options import MOST_HOURS, Argument, Option
from rowtide.events.configuration import LogOptions
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.replication.articles.requests import PublicationThresholds
from rowtide.replication.subscription_settings import (
    DeliveryLimits,
    DeliveryOptions,
    IfExists,
    PublicationName,
    RequestedSubscription,
    SomeSubscriber,
    SubscriberUrl,
    SyncType,
)

app = CommandTable()

_SYNCED_SEQUENCE = {"subscriber": "subscriber", "table": "table", "column": "column", "next": "now", "before": "before"}


@app.command(
    epilog="Example: rowtide replication add-subscription shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def add_subscription(db: Db, subscription: RequestedSubscription) -> None:
    """Subscribe a database: its rows, and all changes that commit from now on (SQL Server: sp_addsubscription).

    `rowtide replication run` copies the rows while they change, and then delivers changes. Procedures and progress
    tables are created at the subscriber, in schema rowtide_subscriber; in a SQLite file, where statements replace
    procedures, only progress tables.
    """
    unmade = connect(db).replication.add_subscription(subscription)
    copies = "copies its rows and delivers" if subscription.sync_type is SyncType.AUTOMATIC else "delivers"
    notes.print(f"Added; `rowtide replication run` {copies}.")
    for constraint in unmade:
        notes.print(
            f"Without unique index: {constraint} is deferrable; SQLite would check it too early.", soft_wrap=True
        )


@app.command(
    epilog="Example: rowtide replication change-subscription shop --subscriber postgresql://localhost/copy"
    " --streams 4 --db postgresql://localhost/shop"
)
def change_subscription(
    db: Db,
    publication: PublicationName,
    subscriber: SubscriberUrl,
    options: DeliveryOptions,
) -> None:
    """Change how a subscription is delivered (SQL Server: sp_changesubscription).

    A run takes it on at the end of a batch; its own options go before these settings.
    """
    settings = connect(db).replication.change_subscription(publication, subscriber, **options.given)
    notes.print(f"Settings that are not the default: {settings.encode() or 'none'}.", soft_wrap=True)


@app.command(
    epilog="Example: rowtide replication sync-sequences shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def sync_sequences(
    db: Db, publication: PublicationName, subscriber: SomeSubscriber = None, form: ListingFormat = OutputFormat.TABLE
) -> None:
    """Move subscribers' sequences to where the publisher's are, before programs write to a subscriber.

    Stop writing to the publisher and deliver everything first. No sequence is moved back.
    """
    moved = connect(db).replication.sync_sequences(publication, subscriber)

    from rowtide.replication.targets.subscriber_kind import SyncedSequence

    print_listed(SyncedSequence, moved, form, _SYNCED_SEQUENCE)


@app.command(
    epilog="Example: rowtide replication drop-subscription shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def drop_subscription(
    db: Db,
    publication: PublicationName,
    subscriber: SubscriberUrl,
    *,
    ignore_subscriber: IgnoreSubscriber = False,
) -> None:
    """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription)."""
    connect(db).replication.drop_subscription(publication, subscriber, ignore_subscriber=ignore_subscriber)
    notes.print("Dropped.")


@app.command(
    epilog="Example: rowtide replication reinitialize shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def reinitialize(
    db: Db,
    publication: PublicationName,
    subscriber: SomeSubscriber = None,
    article: Annotated[
        str | None,
        Option(
            help="Copy this table alone, while the others are delivered; default: all.",
            metavar="TABLE",
            show_default=False,
        ),
    ] = None,
    if_exists: Annotated[
        IfExists | None,
        Option(
            help="What to do with existing tables: keep, delete, truncate or drop; by default drop, and "
            "truncate where the subscription kept tables.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Copy the tables again to a subscriber, or to all (SQL Server: sp_reinitsubscription).

    `rowtide replication run` then copies and delivers.
    """
    again = connect(db).replication.reinitialize(publication, subscriber, article=article, if_exists=if_exists)
    for url in again:
        notes.print(f"Reinitialized: {url}.")
    record_done(say_copied_again(len(again)))


@app.command(
    epilog="Example: rowtide replication pause shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def pause(db: Db, publication: PublicationName, subscriber: SomeSubscriber = None) -> None:
    """Stop delivery to one subscriber of a publication, or to all.

    Undelivered changes are kept within the retention.
    """
    connect(db).replication.pause(publication, subscriber)
    report_done(PAUSED)


@app.command(
    epilog="Example: rowtide replication resume shop --subscriber postgresql://localhost/copy"
    " --db postgresql://localhost/shop"
)
def resume(db: Db, publication: PublicationName, subscriber: SomeSubscriber = None) -> None:
    """Resume delivery, also to a subscriber whose agent stopped with an error."""
    connect(db).replication.resume(publication, subscriber)
    report_done(RESUMED)


@app.command(epilog="Example: rowtide replication recover postgresql://localhost/copy")
def recover(
    subscriber: Annotated[str, Argument(metavar="SUBSCRIBER", help="the subscriber's database", is_database=True)],
) -> None:
    """Complete at a subscriber what an agent that was killed left prepared there, without the publisher.

    Each batch is committed or rolled back as a whole. An agent does the same when it starts.
    """
    from rowtide.replication.subscribing.pausing import recover

    recovered = recover(subscriber)
    for transaction in recovered:
        notes.print(f"{transaction.name}: {transaction.outcome}.", soft_wrap=True)
    if not recovered:
        notes.print("Nothing is left prepared.")


@app.command(
    epilog="Example: rowtide replication change-distribution --max-retention-hours 120 --db postgresql://localhost/shop"
)
def change_distribution(
    db: Db,
    max_retention_hours: Annotated[
        int,
        Option(
            help="Hours that a subscription may be behind before it is deactivated; 72 until it is set.", max=MOST_HOURS
        ),
    ],
) -> None:
    """Set how long undelivered changes are kept (SQL Server: sp_changedistributiondb)."""
    connect(db).replication.change_distribution(max_retention_hours=max_retention_hours)
    notes.print(f"Changed: undelivered changes are kept for {max_retention_hours} hours.")


@app.command(
    epilog="Example: rowtide replication change-publication shop --latency-threshold 60 --db postgresql://localhost/shop"
)
def change_publication(db: Db, wanted: PublicationThresholds) -> None:
    """Set from where on `health` and `status` warn of a publication's subscriptions.

    (SQL Server: sp_replmonitorchangepublicationthreshold.)
    """
    now = connect(db).replication.change_publication(wanted)
    latency = "after the default time" if now.latency_s is None else f"after {now.latency_s} s"
    share = "the default share" if now.expiration_percent is None else f"{now.expiration_percent} %"
    notes.print(f"Changes of {wanted.publication} that wait are a warning {latency}, and at {share} of the retention.")


@app.command(
    epilog="Example: rowtide replication deliver-backlogs --master spark://host:7077 --shared-storage --db …/shop"
)
def deliver_backlogs(
    db: Db,
    publication: Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")] = None,
    *,
    spark: ClusterOptions,
    _hide_keys: HideKeys = False,
) -> None:
    """Deliver large backlogs from the log store, one Spark task per subscription.

    For many subscribers, or after a long stop. `rowtide replication run` continues from there, and delivers to files.
    """
    with requesting(spark.request), notes.status("Delivering ..."):
        delivered = connect(db).replication.deliver_backlogs(publication)
    for backlog in delivered:
        line = (
            f"{backlog.commands:,} commands of {backlog.transactions:,} transactions delivered to "
            f"{backlog.subscriber} in {backlog.seconds:.1f} s"
        )
        notes.print(line if backlog.failure is None else f"{line}. {backlog.failure}", soft_wrap=True)
    if not delivered:
        notes.print("No backlog is large enough for a job; `rowtide replication run` delivers the rest.")


@app.command(epilog="Example: rowtide replication run --once --db postgresql://localhost/shop")
def run(
    db: Db,
    publication: SomePublication = None,
    subscriber: Annotated[
        list[str] | None,
        Option(
            help="Deliver only to this subscriber; may be repeated. Default: all.", show_default=False, is_database=True
        ),
    ] = None,
    *,
    limits: DeliveryLimits,
    once: Annotated[
        bool, Option("--once", help="Stop when everything committed before is delivered.", from_file=False)
    ] = False,
    upgrade: Upgrade = False,
    _hide_keys: HideKeys = False,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Read the log, unless another process does, and deliver until Ctrl-C (SQL Server: Distribution Agent).

    Options that are given replace the settings of the subscriptions. A subscription that another process delivers, on
    any machine, is left to it until that process ends.
    """
    with (
        measuring(metrics, label_of(db), "replication"),
        watching("Starting the log reader ...", log, db, "replication", once=once) as stop,
    ):
        # Refuses what is no publisher before any subscriber is upgraded.
        replication = connect(db).replication
        if upgrade:
            upgrade_first(db, subscriber)
        replication.run(publication, subscribers=subscriber or (), once=once, stop=stop, **limits.given)


@app.command(epilog="Example: rowtide replication restart-log --yes --db postgresql://localhost/shop")
def restart_log(
    db: Db,
    reason: Reason = "restarted by hand",
    *,
    yes: Yes = False,
) -> None:
    """Restart the log after a gap, in a database without capture (SQL Server: sp_replrestart).

    Reports what is lost, and asks. Creates a new slot and publication. Then run `rowtide replication reinitialize` to
    copy the tables to each subscriber.
    """
    replication = connect(db).replication
    confirm_loss(replication.find_loss(), yes=yes)
    replication.restart_log(reason, on_wait=print_wait)
    notes.print("The log was restarted. Next, run `rowtide replication reinitialize` for each publication.")
