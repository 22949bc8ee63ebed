"""`rowtide replication`: copy and deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rowtide.cli.configured import label_of
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import (
    Db,
    HideKeys,
    Master,
    Reason,
    SharedStorage,
    SomePublication,
    SparkConf,
    Upgrade,
    Yes,
    confirm_loss,
    spark_request,
    upgrade_first,
)
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.cli.output.rows import notes, print_wait
from rowtide.cli.output.watching import watching
from rowtide.core.options import Argument, Option
from rowtide.events.configuration import LogOptions
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.replication.subscription_settings import DeliveryLimits

if TYPE_CHECKING:
    pass

app = CommandTable()


@app.command(
    epilog="Example: rowtide replication deliver-backlogs --master spark://host:7077 --shared-storage --db …/shop"
)
def deliver_backlogs(
    db: Db,
    publication: Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")] = None,
    *,
    master: Master = None,
    spark_conf: SparkConf,
    shared_storage: SharedStorage = False,
    _hide_keys: HideKeys = False,
) -> None:
    """Deliver large backlogs from the log store, one Spark task per subscription.

    For many subscribers, or after a long stop. `rowtide replication run` continues from there, and delivers to files.
    """
    request = spark_request(master, spark_conf, shared_storage=shared_storage)
    with requesting(request), notes.status("Delivering ..."):
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
