"""`rowtide merge`: synchronisations, and what they would send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cli import options
from rowtide.cli.active_configuration import label_of
from rowtide.cli.groups import CommandTable
from rowtide.cli.merge.devices import DeviceCode, GatewayUrl, ReplacesFile, opening, require_db
from rowtide.cli.output.metrics import MetricsFile, measuring
from rowtide.cli.output.progress import progress
from rowtide.cli.output.rows import OutputFormat, notes, print_listed, print_rows
from rowtide.cli.output.watching import logging_beside
from rowtide.cli.parameters import parse_time
from rowtide.core.errors import RowtideError
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.events.configuration import LogOptions
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.merge.articles import DeviceLimits, ExchangeType
from rowtide.merge.publishing.exchange_requests import Exchange, PartitionChange, RepeatedDownload
from rowtide.merge.publishing.requests import PublicationName

if TYPE_CHECKING:
    from rowtide.merge.fan_out import SyncOutcome
    from rowtide.merge.session.history import Summary
    from rowtide.merge.session.pending_changes import PendingChanges

app = CommandTable()

_FAILED, _ROWS_REFUSED = 1, 2
"""Exit codes of synchronisations of which one failed, or that left rows behind."""
_OUTCOME = {
    "publication": "publication",
    "subscriber": "subscriber",
    "uploaded": "uploaded",
    "downloaded": "downloaded",
    "conflicts": "conflicts",
    "refused": "refused",
    "seconds": "seconds",
    "result": "result",
}
_PENDING = {
    "subscriber": "subscriber",
    "direction": "direction",
    "article": "article",
    "pending_ins_and_upd": "pending_ins_and_upd",
    "pending_deletes": "pending_deletes",
    "conflicts": "conflicts",
    "refused": "refused",
}


class SyncEngine(StrEnum):
    """The engine that synchronises many subscribers."""

    THREADS = "threads"
    SPARK = "spark"


@frozen(kw_only=True)
class AllSubscribers:
    """Whether all subscribers are synchronised, how many at a time, and by what."""

    is_wanted: Annotated[
        bool, Option("--all", help="All subscribers of the publication, or of all publications of this hub.")
    ] = False
    workers: Annotated[int, Option("--workers", help="--all: subscribers at a time.", min=1, max=1000)] = 4
    engine: Annotated[
        SyncEngine, Option("--engine", help="--all: spark: Spark's workers synchronise subscribers that are servers.")
    ] = SyncEngine.THREADS


@frozen(kw_only=True)
class DeviceOptions:
    """The gateway through which a device reaches its hub, and its first registration."""

    url: GatewayUrl = None
    code: DeviceCode = None
    replace_file: ReplacesFile = False

    def require_url(self) -> None:
        """Refuse options that need --url."""
        if self.url is None and (self.code is not None or self.replace_file):
            raise click.BadParameter("only with --url", param_hint="--code" if self.code is not None else "--replace")


@app.command(epilog="Example: rowtide merge sync shop --subscriber sqlite:///field.db --db postgresql://localhost/shop")
def sync(
    db: options.SomeHubDb = None,
    publication: options.SomePublication = None,
    subscriber: options.SomeSubscriber = None,
    form: options.ListingFormat = OutputFormat.TABLE,
    *,
    all_subscribers: AllSubscribers,
    dry_run: Annotated[
        bool, Option("--dry-run", help="List what would be sent, conflict and be refused; change nothing.")
    ] = False,
    exchange: Exchange = ExchangeType.BOTH,
    device: DeviceOptions,
    spark: options.SparkOptions,
    upgrade: options.Upgrade = False,
    _hide_keys: options.HideKeys = False,
    limits: DeviceLimits,
    log: LogOptions,
    metrics: MetricsFile,
) -> None:
    """Exchange all changes: upload, then download (SQL Server: the Merge Agent).

    After an interruption, the next synchronisation continues. Refused rows are retried each time. Exit code 2 if rows
    were refused; with --all 1 if any subscriber failed, which does not stop the others. With --url the subscriber is a
    device that reaches its hub by a gateway; a file that is not there is made.
    """
    if device.url is not None:
        if subscriber is None or all_subscribers.is_wanted or dry_run or upgrade:
            raise click.BadParameter("it goes with --subscriber alone", param_hint="--url")
        _print_exchanged(_sync_device(device, device.url, subscriber, publication, exchange, limits, log), form)
        return
    device.require_url()
    db = require_db(db)
    _require_subscribers(publication, subscriber, exchange, is_all=all_subscribers.is_wanted)
    if dry_run:
        _print_dry_run(db, publication, subscriber, form, upgrades=upgrade)
        return
    if upgrade:
        options.upgrade_first(db, None if subscriber is None else (subscriber,))
    if publication is not None and subscriber is not None:
        with measuring(metrics, label_of(db), "merge"), logging_beside(log):
            summary = _sync_one(db, publication, subscriber, exchange, limits)
        _print_exchanged(summary, form)
        return
    with measuring(metrics, label_of(db), "merge"):
        with requesting(spark.request), logging_beside(log):
            outcomes = _sync_all(db, publication, all_subscribers, limits)
        # Within the block: metrics of a command that fails count it as failed.
        _print_outcomes(outcomes, form)
    if any(outcome.refused for outcome in outcomes):
        raise click.exceptions.Exit(_ROWS_REFUSED)


def _sync_device(
    device: DeviceOptions,
    url: str,
    subscriber: str,
    publication: str | None,
    exchange: ExchangeType,
    limits: DeviceLimits,
    log: LogOptions,
) -> Summary:
    """Synchronise a device through a gateway, registered first where a code is given."""
    with (
        logging_beside(log),
        _exchanging() as on_progress,
        opening(url, subscriber, publication, device.code) as opened,
    ):
        return opened.sync(exchange=exchange, replace=device.replace_file, on_progress=on_progress, limits=limits)


def _sync_one(db: str, publication: str, subscriber: str, exchange: ExchangeType, limits: DeviceLimits) -> Summary:
    with _exchanging() as on_progress:
        return connect(db).merge.sync(
            publication, subscriber, exchange=exchange, on_progress=on_progress, limits=limits
        )


def _require_subscribers(
    publication: str | None, subscriber: str | None, exchange: ExchangeType, *, is_all: bool
) -> None:
    if is_all == (subscriber is not None):
        raise click.BadParameter("one of --subscriber and --all is needed", param_hint="--subscriber")
    if not is_all and publication is None:
        raise click.BadParameter("--subscriber needs one", param_hint="PUBLICATION")
    if is_all and exchange is not ExchangeType.BOTH:
        raise click.BadParameter("not with --all", param_hint="--exchange-type")


def _print_dry_run(
    db: str, publication: str | None, subscriber: str | None, form: OutputFormat, *, upgrades: bool
) -> None:
    if upgrades:
        raise click.BadParameter("not with --dry-run", param_hint="--upgrade")
    if publication is None:
        raise click.BadParameter("--dry-run needs one", param_hint="PUBLICATION")
    _print_pending(_ask_pending(db, publication, subscriber, finds_conflicts=True), form)


@app.command(
    epilog="Example: rowtide merge resync shop --subscriber sqlite:///field.db --since validation"
    " --db postgresql://localhost/shop"
)
def resync(
    db: options.HubDb,
    wanted: RepeatedDownload,
    since: Annotated[str, Option(metavar="start|validation|TIME", help="Since when.")] = "start",
    form: options.ListingFormat = OutputFormat.TABLE,
    *,
    _hide_keys: options.HideKeys = False,
    limits: DeviceLimits,
) -> None:
    """Download again what the publisher changed since a time, and write it (SQL Server: sp_resyncmergesubscription).

    Cheaper than `reinitialize`. `validation` is the last one that found all rows equal, `start` is as far back as there
    are metadata. Rows that the subscriber has changed itself are uploaded first, as in `sync`.
    """
    when = None if since in ("start", "validation") else parse_time(since)
    with _exchanging() as on_progress:
        bounds = replace(wanted, since=when, since_validation=since == "validation")
        summary = connect(db).merge.resync(replace(bounds, on_progress=on_progress, limits=limits))
    _print_exchanged(summary, form)


@app.command(
    epilog="Example: rowtide merge change-subscription shop --subscriber sqlite:///field.db --host-name south"
    " --db postgresql://localhost/shop"
)
def change_subscription(
    db: options.HubDb,
    change: PartitionChange,
    form: options.ListingFormat = OutputFormat.TABLE,
    *,
    _hide_keys: options.HideKeys = False,
    limits: DeviceLimits,
) -> None:
    """Move a subscriber to another partition, losing nothing (SQL Server: sp_changemergesubscription).

    Its changes are uploaded first; then rows leave and enter. After an interruption, `sync` continues. Exit code 2 if
    rows were refused.
    """
    with _exchanging() as on_progress:
        summary = connect(db).merge.change_subscription(replace(change, on_progress=on_progress, limits=limits))
    _print_exchanged(summary, form)


def _sync_all(
    db: str, publication: str | None, all_subscribers: AllSubscribers, limits: DeviceLimits
) -> Sequence[SyncOutcome]:
    failed = 0

    def describe(reports: Sequence[tuple[SyncOutcome, int, int]]) -> Sequence[str]:
        nonlocal failed
        failed += sum(outcome.error is not None for outcome, _, _ in reports)
        _, done, total = reports[-1]
        return [f"{done:,} of {total:,} subscriptions synchronised, {failed:,} failed"]

    spark = None
    if all_subscribers.engine is SyncEngine.SPARK:
        from rowtide.lake.session import build_session

        spark = build_session()
    with progress("Synchronising ...", describe) as report:
        return connect(db).merge.sync_all(
            publication,
            workers=all_subscribers.workers,
            spark=spark,
            limits=limits,
            on_progress=lambda outcome, done, total: report((outcome, done, total)),
        )


def _print_outcomes(outcomes: Sequence[SyncOutcome], form: OutputFormat) -> None:
    """Print results of subscriptions; the command fails if one of them has failed."""
    from rowtide.merge.fan_out import SyncOutcome

    print_listed(SyncOutcome, outcomes, form, _OUTCOME)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in failed:
        notes.print(f"{outcome.publication} to {outcome.subscriber}: {outcome.error}", soft_wrap=True)
    done = len(outcomes) - len(failed)
    notes.print(f"Synchronised {done:,} of {len(outcomes):,} subscriptions.", soft_wrap=True)
    if failed:
        raise click.exceptions.Exit(_FAILED)


@app.command(
    epilog="Example: rowtide merge pending shop --subscriber sqlite:///field.db --db postgresql://localhost/shop"
)
def pending(
    publication: PublicationName,
    db: options.SomeHubDb = None,
    subscriber: options.SomeSubscriber = None,
    form: options.ListingFormat = OutputFormat.TABLE,
    *,
    url: GatewayUrl = None,
    rows: Annotated[bool, Option("--rows", help="List the rows instead of counting them.")] = False,
    conflicts: Annotated[
        bool, Option("--conflicts", help="Count what would conflict and be refused; --rows does so, too.")
    ] = False,
    wide: options.Wide = False,
) -> None:
    """List what the next synchronisation will send, of one subscriber or all (SQL Server: sp_showpendingchanges).

    Nothing is changed. Of a subscriber that cannot be reached, only what the publisher has for it is listed. With
    --url, conflicts are not looked for.
    """
    if url is not None:
        if subscriber is None or conflicts:
            raise click.BadParameter("it goes with --subscriber, and without --conflicts", param_hint="--url")
        with notes.status("Reading ..."), opening(url, subscriber, publication) as device:
            listed = device.list_pending()
    else:
        listed = _ask_pending(require_db(db), publication, subscriber, finds_conflicts=rows or conflicts)
    if rows:
        _print_rows(listed, form)
    else:
        _print_pending(listed, form, wide=wide)


def _ask_pending(
    db: str, publication: str, subscriber: str | None, *, finds_conflicts: bool
) -> Sequence[PendingChanges]:
    def say(unreached: str, error: RowtideError) -> None:
        notes.print(f"{unreached}: only what the publisher has for it is listed. {error}", soft_wrap=True)

    with notes.status("Reading ..."):
        return connect(db).merge.list_pending(
            publication, subscriber, finds_conflicts=finds_conflicts, on_unreachable=say
        )


def _print_pending(listed: Sequence[PendingChanges], form: OutputFormat, *, wide: bool = False) -> None:
    from rowtide.merge.session.pending_changes import PendingChanges

    print_listed(PendingChanges, listed, form, _PENDING, wide=wide)


def _print_rows(listed: Sequence[PendingChanges], form: OutputFormat) -> None:
    names = ["subscriber", "direction", "article", "rowguid", "is_delete", "conflict", "refusal"]
    rows = (
        [each.subscriber, each.direction, row.article, row.rowguid, row.is_delete, row.conflict, row.refusal]
        for each in listed
        for row in each.rows
    )
    print_rows(names, rows, form)


@contextmanager
def _exchanging() -> Iterator[Callable[[str, int, int], None]]:
    """Yield the callback for the progress of an upload or download."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=notes.console, transient=True, disable=not notes.is_terminal) as bar:
        tasks = {phase: bar.add_task(phase, total=None, visible=False) for phase in ("upload", "download")}

        def on_progress(phase: str, done: int, changes: int) -> None:
            bar.update(tasks[phase], completed=done, total=changes, visible=True)

        yield on_progress


def _print_exchanged(summary: Summary, form: OutputFormat) -> None:
    """Print the result as Replication Monitor lists it: a line for each article and direction, and the total.

    The command ends with exit code 2 if rows were refused.
    """
    columns = [
        "article",
        "direction",
        "inserts",
        "updates",
        "deletes",
        "conflicts",
        "retried",
        "refused",
        "seconds",
    ]
    rows = [
        [
            article,
            direction,
            counts.inserts,
            counts.updates,
            counts.deletes,
            counts.conflicts,
            counts.retried,
            counts.refused,
            round(counts.seconds, 3),
        ]
        for direction, phase in (("upload", summary.upload), ("download", summary.download))
        for article, counts in phase.articles.items()
    ]
    if rows or form is not OutputFormat.TABLE:
        print_rows(columns, rows, form)
    notes.print(f"Synchronised in {summary.seconds:.2f} s: {summary}.", soft_wrap=True)
    for refused in summary.upload.refused + summary.download.refused:
        notes.print(f"Refused: {refused.article.name} {refused.change.rowguid}: {refused.error.reason}", soft_wrap=True)
    for column in summary.unsent:
        notes.print(f"Not sent: {column}", soft_wrap=True)
    for omission in summary.omissions:
        notes.print(f"Not at the subscriber: {omission}", soft_wrap=True)
    if summary.refused:
        raise click.exceptions.Exit(_ROWS_REFUSED)
