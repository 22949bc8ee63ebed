"""`rowtide merge`: subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.actions.wording import say_compared, say_reinitialized
from rowtide.cli.groups import CommandTable, record_done, report_done
from rowtide.cli.merge.devices import GatewayUrl, opening, require_db
from rowtide.cli.options import HideKeys, HubDb, ListingFormat, SomeHubDb, Wide, Yes, confirm_loss
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Option
from rowtide.databases.urls import parse_url
from rowtide.handle import connect
from rowtide.merge.articles import DeviceLimits, Partition, SubscriberType, Subscription as MergeSubscription
from rowtide.merge.devices.credentials import is_behind_gateway
from rowtide.merge.publishing.exchange_requests import (
    DroppedSubscription,
    MergeValidation,
    Recovered,
    Reinitialization,
)
from rowtide.merge.publishing.requests import (
    Existing,
    ExistingRows,
    NewMergeSubscription,
    PublicationName,
)

if TYPE_CHECKING:
    from rowtide.merge.api import MergeReplication
    from rowtide.merge.publishing.requests import ExistingRows

app = CommandTable()

_ARTICLE_VALIDATION = {
    "article": "article",
    "publisher_rows": "publisher_rows",
    "subscriber_rows": "subscriber_rows",
    "is_equal": "is_equal",
}


@app.command(
    epilog="Example: rowtide merge add-subscription shop --subscriber sqlite:///field.db --db postgresql://localhost/shop"
)
def add_subscription(
    db: HubDb,
    subscription: NewMergeSubscription,
    existing: Annotated[
        Existing | None,
        Option(
            help="Take over existing tables. keep: the subscriber's rows are uploaded where they differ; "
            "overwrite: they get the publisher's version, and rows that only the subscriber has are deleted.",
            show_default=False,
        ),
    ] = None,
    *,
    absent_is_delete: Annotated[
        bool,
        Option("--absent-is-delete", help="--existing keep: rows that the subscriber lacks are deleted everywhere."),
    ] = False,
    yes: Yes = False,
    _hide_keys: HideKeys = False,
) -> None:
    """Subscribe a database: create and fill its tables (SQL Server: sp_addmergesubscription).

    A SQLite file that does not exist is created.
    """
    if subscription.priority and subscription.subscriber_type is SubscriberType.CLIENT:
        raise click.BadParameter("only servers have one", param_hint="--priority")
    if absent_is_delete and existing is not Existing.KEEP:
        raise click.BadParameter("only with --existing keep", param_hint="--absent-is-delete")
    if existing is not None and subscription.snapshot is not None:
        raise click.BadParameter("not with --snapshot", param_hint="--existing")

    omissions: list[object] = []
    merge = connect(db).merge
    if existing is not None:
        _confirm_taking_over(merge, subscription, existing, absent_is_delete=absent_is_delete, yes=yes)
    with _copying() as on_progress:
        watched = replace(subscription, on_progress=on_progress, on_omission=omissions.append)
        if existing is None:
            merge.add_subscription(watched)
        else:
            merge.subscribe_existing(watched.taking_over(existing, absent_is_delete=absent_is_delete))
    for omission in omissions:
        notes.print(f"Not at the subscriber: {omission}")
    notes.print("Added; `rowtide merge sync` exchanges what changes from now on.")


def _confirm_taking_over(
    merge: MergeReplication,
    subscription: NewMergeSubscription,
    existing: Existing,
    *,
    absent_is_delete: bool,
    yes: bool,
) -> None:
    """Report the rows of existing tables that are kept, and ask about those that are lost."""
    with notes.status("Comparing ..."):
        found = merge.compare_existing(
            subscription.publication, subscription.subscriber, partition=subscription.chosen_partition
        )
    for rows in found:
        notes.print(str(rows), soft_wrap=True)
        for trigger in rows.rewriting:
            notes.print(f"Warning: {trigger}", soft_wrap=True)
    for lost in _lost(found, existing, absent_is_delete=absent_is_delete):
        confirm_loss(lost, yes=yes)


def _lost(found: Sequence[ExistingRows], existing: Existing, *, absent_is_delete: bool) -> Iterator[str]:
    """Yield the losses that the user confirms."""
    if existing is Existing.OVERWRITE:
        rows = sum(each.different + each.only_subscriber for each in found)
        if rows:
            yield f"the subscriber's version of {rows:,} rows"
    elif absent_is_delete:
        rows = sum(each.only_publisher for each in found)
        if rows:
            yield f"{rows:,} rows of the publisher, and of all subscribers, at the next synchronisation"


@app.command(
    epilog="Example: rowtide merge snapshot shop --host-name north --to snapshots/north --db postgresql://localhost/shop"
)
def snapshot(
    db: HubDb,
    publication: PublicationName,
    to: Annotated[Path, Option(metavar="DIR", help="The folder, which is created.")],
    *,
    partition: Partition,
    _hide_keys: HideKeys = False,
) -> None:
    """Write what subscribers of a partition start with to files (SQL Server: sp_adddynamicsnapshot_job).

    `rowtide merge add-subscription --snapshot` fills subscribers from them. An earlier snapshot there is replaced.
    """
    with _copying() as on_progress:
        written = connect(db).merge.make_snapshot(publication, to, partition=partition, on_progress=on_progress)
    notes.print(f"Wrote {written.rows:,} rows in {len(written.files):,} files to {to}.", soft_wrap=True)


@app.command(
    epilog="Example: rowtide merge drop-subscription shop --subscriber sqlite:///field.db"
    " --db postgresql://localhost/shop"
)
def drop_subscription(
    db: HubDb,
    dropped: DroppedSubscription,
    *,
    yes: Yes = False,
    limits: DeviceLimits,
) -> None:
    """End a subscription; its tables and rows stay (SQL Server: sp_dropmergesubscription).

    Changes that were never uploaded are listed first. With --upload-first they are uploaded, also those of tables that
    a program has rebuilt; if the publisher refuses any, the subscription stays.
    """
    if dropped.ignore_subscriber and dropped.upload_first:
        raise click.BadParameter("not with --ignore-subscriber", param_hint="--upload-first")
    merge = connect(db).merge
    watched = replace(dropped, on_recovered=_print_recovered, on_kept=_print_kept, limits=limits)
    if dropped.upload_first:
        with _copying():
            summary = merge.drop_subscription(watched)
        notes.print(f"Dropped: {summary} before.")
        return
    for lost in _list_unsent(merge, dropped):
        confirm_loss(lost, yes=yes)
    merge.drop_subscription(watched)
    notes.print("Dropped.")


def _list_unsent(merge: MergeReplication, dropped: DroppedSubscription) -> Iterator[str]:
    """Yield what is lost with a subscription; for an unreachable one, since when it may have changes."""
    is_device = is_behind_gateway(dropped.subscriber)
    if not dropped.ignore_subscriber and not is_device:
        if unsent := merge.list_unsent(dropped.publication, dropped.subscriber):
            yield f"what was never uploaded: {'; '.join(map(str, unsent))}"
        return

    from rowtide.merge.nodes.connecting import address

    name = dropped.subscriber if is_device else address(dropped.subscriber)
    for each in merge.status(dropped.publication):
        if each.subscriber == name:
            since = "its snapshot" if each.last_sync is None else f"{each.last_sync:%Y-%m-%d %H:%M}"
            yield f"what was changed at {each.subscriber} since {since}; how much is unknown"


@app.command(
    epilog="Example: rowtide merge reinitialize shop --subscriber sqlite:///field.db --upload-first"
    " --db postgresql://localhost/shop"
)
def reinitialize(
    wanted: Reinitialization,
    db: SomeHubDb = None,
    *,
    url: GatewayUrl = None,
    yes: Yes = False,
    _hide_keys: HideKeys = False,
    limits: DeviceLimits,
) -> None:
    """Copy a subscriber's tables again (SQL Server: sp_reinitmergesubscription).

    With --upload-first, all rows are compared with what the subscriber was sent: what was changed while a table had no
    triggers, because a program had rebuilt it, is uploaded too.
    """
    if wanted.absent_is_delete and not wanted.upload_first:
        raise click.BadParameter("only with --upload-first", param_hint="--absent-is-delete")
    if not wanted.upload_first:
        confirm_loss(f"what was changed at {parse_url(wanted.subscriber)} and not synchronised", yes=yes)
    if url is not None:
        with opening(url, wanted.subscriber, wanted.publication) as device, _copying() as on_progress:
            summary = device.reinitialize(
                upload_first=wanted.upload_first,
                absent_is_delete=wanted.absent_is_delete,
                on_recovered=_print_recovered,
                on_progress=on_progress,
                limits=limits,
            )
    else:
        asked = replace(wanted, on_recovered=_print_recovered, limits=limits)
        merge = connect(require_db(db)).merge
        with _copying() as on_progress:
            summary = merge.reinitialize(replace(asked, on_progress=on_progress))
    report_done(say_reinitialized(summary))


@app.command(
    epilog="Example: rowtide merge validate shop --subscriber sqlite:///field.db --checksum"
    " --db postgresql://localhost/shop"
)
def validate(
    wanted: MergeValidation,
    db: SomeHubDb = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    url: GatewayUrl = None,
    wide: Wide = False,
) -> None:
    """Compare a subscriber's rows with the publisher's (SQL Server: sp_validatemergesubscription).

    Stop writes and synchronise first: changes not yet exchanged count as differences. Exit code 1 if rows differ.
    """
    with notes.status("Comparing ...") as progress:
        watched = replace(wanted, on_progress=lambda article: progress.update(f"Comparing {article} ..."))
        if url is None:
            listed = connect(require_db(db)).merge.validate(watched)
        else:
            with opening(url, wanted.subscriber, wanted.publication) as device:
                listed = device.validate(checksum=wanted.checksum, on_progress=watched.on_progress)

    from rowtide.merge.errors.rows import MergeValidationFailed
    from rowtide.merge.inspection.validating import ArticleValidation

    print_listed(ArticleValidation, listed, form, _ARTICLE_VALIDATION, wide=wide)
    for name in (name for row in listed for name in row.unsent):
        notes.print(f"Not sent, and not compared: {name}", soft_wrap=True)
    failed = [row for row in listed if not row.is_equal]
    if failed:
        raise MergeValidationFailed(wanted.subscriber, len(failed), len(listed))
    record_done(say_compared(len(listed)))


def _print_kept(kept: MergeSubscription) -> None:
    notes.print(
        f"The publisher keeps the subscription of {kept.subscriber}, from where this database was moved or copied. "
        "If it was moved, end that one, too, with --ignore-subscriber.",
        soft_wrap=True,
    )


def _print_recovered(recovered: Recovered) -> None:
    notes.print(f"Found at the subscriber: {recovered}", soft_wrap=True)


@contextmanager
def _copying() -> Iterator[Callable[[str, int], None]]:
    """Yield the callback for the number of copied rows of an article."""
    with notes.status("Copying ...") as progress:
        yield lambda article, rows: progress.update(f"Copying {article}: {rows:,} rows ...")
