"""`rowtide replication`: copy and deliver."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cli.exit_codes import FAILED, code_when_running_on
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import (
    Db,
    HideKeys,
    Master,
    Reason,
    SharedStorage,
    SomePublication,
    SparkConf,
    Yes,
    confirm_loss,
    spark_request,
)
from rowtide.cli.output.rows import notes, print_wait
from rowtide.cli.output.watching import progress, stopping
from rowtide.core.errors import RowtideError
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.replication.subscription_settings import DeliveryLimits

if TYPE_CHECKING:
    from rowtide.replication.distribution.watchers import DeliveryReport
    from rowtide.replication.snapshot.agent import SnapshotReport

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
    _hide_keys: HideKeys = False,
) -> None:
    """Read the log, unless another process does, and deliver until Ctrl-C (SQL Server: Distribution Agent).

    Options that are given replace the settings of the subscriptions. A subscription that another process delivers, on
    any machine, is left to it until that process ends.
    """
    deliver(db, publication, subscriber or (), limits, once=once)


def deliver(
    db: str,
    publication: str | None = None,
    subscribers: Sequence[str] = (),
    limits: DeliveryLimits | None = None,
    *,
    once: bool = False,
) -> None:
    """Deliver until stopped, or with `once` what was committed before, and print what happens."""
    replication = connect(db).replication

    from rowtide.replication.distribution.watchers import (
        DeliveredElsewhere,
        DroppedTable,
        SkippedCommand,
        Trouble,
        Watchers,
    )

    printed: list[Exception] = []
    with (
        _once_each(printed, once=once),
        stopping() as stop,
        progress("Starting the log reader ...", describe_reports) as on_report,
    ):

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        def on_trouble(trouble: Trouble) -> None:
            failed, error, pause_s = trouble.subscription, trouble.error, trouble.pause_s
            ending = "It has stopped." if pause_s is None else f"Next try in {pause_s:g} s."
            notes.print(f"{failed.publication} to {failed.subscriber}: {error} {ending}", soft_wrap=True)
            if pause_s is None:
                printed.append(error)

        def on_skipped(skipped: SkippedCommand) -> None:
            left_out, error = skipped.subscription, skipped.error
            line = f"{left_out.publication} to {left_out.subscriber}: skipped: {error}"
            notes.print(line, soft_wrap=True)

        def on_dropped(dropped: DroppedTable) -> None:
            gone, error = dropped.subscription, dropped.error
            notes.print(f"{gone.publication} to {gone.subscriber}: {error}", soft_wrap=True)

        def on_elsewhere(elsewhere: DeliveredElsewhere) -> None:
            found = elsewhere.subscription
            line = f"{found.publication} to {found.subscriber} is delivered by {elsewhere.holder}."
            notes.print(f"{line} This process takes over when that one ends.", soft_wrap=True)

        watchers = Watchers(on_report, on_trouble, on_retry, on_report, on_skipped, on_dropped, on_elsewhere)
        settings = limits.given if limits is not None else {}
        replication.run(publication, subscribers=subscribers, once=once, stop=stop, watchers=watchers, **settings)


@contextmanager
def _once_each(printed: Collection[Exception], *, once: bool) -> Iterator[None]:
    """End the command without a word on an error that was printed when it occurred; `--debug` prints where."""
    try:
        yield
    except RowtideError as error:
        if not any(error is one for one in printed) or logging.getLogger().isEnabledFor(logging.INFO):
            raise
        raise click.exceptions.Exit(FAILED if once else code_when_running_on(error)) from error


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


def describe_reports(reports: Sequence[DeliveryReport | SnapshotReport]) -> Sequence[str]:
    """Describe the batches delivered to each subscriber, together, and the progress of snapshots."""
    from rowtide.replication.distribution.watchers import DeliveryReport

    batches: dict[str, list[DeliveryReport]] = {}
    snapshots: dict[str, SnapshotReport] = {}
    for report in reports:
        if isinstance(report, DeliveryReport):
            batches.setdefault(report.subscriber, []).append(report)
        else:
            snapshots[report.subscriber] = report
    return [*map(describe_snapshot, snapshots.values()), *map(describe_batches, batches.values())]


def describe_batches(reports: Sequence[DeliveryReport]) -> str:
    """Describe the batches delivered to one subscriber."""
    commands, transactions = sum(each.commands for each in reports), sum(each.transactions for each in reports)
    return (
        f"{commands:,} commands of {transactions:,} transactions delivered to {reports[-1].subscriber} "
        f"up to LSN {reports[-1].reached} in {sum(each.seconds for each in reports):.1f} s"
    )


def describe_snapshot(report: SnapshotReport) -> str:
    """Describe the progress of a snapshot, or what it waits for."""
    if report.waits_for:
        return f"The snapshot for {report.subscriber} waits for the end of: {'; '.join(report.waits_for)}"
    return (
        f"{report.chunks} of {report.of_chunks} chunks ({report.copied_bytes / 1e6:,.0f} MB) copied to "
        f"{report.subscriber} in {report.seconds:.1f} s, {report.table} last"
    )
