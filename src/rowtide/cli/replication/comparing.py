"""`rowtide replication`: subscribers compared with their publisher, and repaired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.actions.wording import say_compared
from rowtide.cli.active_configuration import label_of
from rowtide.cli.groups import CommandTable, record_done
from rowtide.cli.options import Db, Listed, ListingFormat, SomePublication, Wide, listing
from rowtide.cli.output.metrics import MetricsFile, measuring
from rowtide.cli.output.progress import counted
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option, values_of
from rowtide.handle import connect
from rowtide.replication.articles.requests import CompareOptions, DeleteExtra, RowRepair, RowValidation

if TYPE_CHECKING:
    from rowtide.replication.inspection.comparing import ArticleValidation
    from rowtide.replication.inspection.differences import RowDifference
    from rowtide.replication.repairing import Repair


app = CommandTable()

_ARTICLE_VALIDATION = {
    "subscriber": "subscriber",
    "article": "article",
    "result": "result",
    "published": "published_rows",
    "subscribed": "subscriber_rows",
}

_ROW_DIFFERENCE = {
    "subscriber": "subscriber",
    "article": "article",
    "difference": "difference",
    "key": "key",
    "published": "published",
    "subscribed": "subscribed",
}
_REPAIR = {
    "subscriber": "subscriber",
    "article": "article",
    "action": "action",
    "key": "key",
    "before": "before",
    "after": "after",
    "reason": "reason",
}
_ROW_PLACE = {
    "place": "place",
    "article": "article",
    "state": "state",
    "queued": "queued",
    "lsn": "xact_seqno",
    "committed": "committed_at",
    "operation": "operation",
    "id": "command_id",
    "row": "row",
}
_JSON_OF_REPAIRS = ("key", "before", "after")


@app.command(epilog="Example: rowtide replication validate shop --checksum --db postgresql://localhost/shop")
def validate(
    db: Db,
    validation: RowValidation,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    differences: Annotated[
        bool, Option("--differences", help="List the rows that differ, by key, with what differs.")
    ] = False,
    repair: Annotated[
        bool, Option("--repair", help="Change the rows that differ to what is published; list the result of each.")
    ] = False,
    delete_extra: DeleteExtra = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="With --repair: list what would be done to the rows, and change none.")
    ] = False,
    wide: Wide = False,
    metrics: MetricsFile,
) -> None:
    """Compare subscribers' rows with the published ones while both change (SQL Server: sp_publication_validation).

    The published rows are compared as they were at the subscriber's position. If no process reads the log, this one
    does for a moment. Exit code 1 if rows differ (20574) or could not be compared (7235).
    """
    for option, is_given in (("--delete-extra", delete_extra), ("--dry-run", dry_run)):
        if is_given and not repair:
            raise click.BadParameter("is for --repair", param_hint=option)
    with measuring(metrics, label_of(db), "validate"), counted("Comparing ...") as show:
        replication, publication = connect(db).replication, validation.publication
        watched = replace(
            validation, on_compare=lambda where, name, number, of: show(f"{name} at {where}", number - 1, of)
        )
        if repair:
            if dry_run:
                notes.print("A dry run: nothing is changed.")
            compared = values_of(CompareOptions, watched)
            done = replication.repair(RowRepair(**compared, delete_extra=delete_extra, is_rehearsal=dry_run))
            _print_repairs(publication, done, form, wide=wide)
            return
        if differences:
            _print_differences(publication, replication.find_differences(watched), form, wide=wide)
            return
        listed = replication.validate(watched)
        _print_validated(publication, listed, form, wide=wide)
        record_done(say_compared(len(listed)))


def _print_validated(publication: str, listed: Sequence[ArticleValidation], form: OutputFormat, *, wide: bool) -> None:
    """Print what was compared. Raises `ValidationFailed`, `ArticlesNotCompared`."""
    from rowtide.replication.errors.conflicts import ValidationFailed
    from rowtide.replication.inspection.comparing import FAILED, ArticleValidation

    print_listed(ArticleValidation, listed, form, _ARTICLE_VALIDATION, wide=wide)
    for row in listed:
        if row.left_out:
            notes.print(f"Not compared at {row.subscriber}: {row.article}.{', '.join(row.left_out)}, not delivered.")
    failed = [row for row in listed if row.message == FAILED]
    if failed:
        raise ValidationFailed(publication, len(failed), len(listed))
    _require_compared(publication, listed)


def _print_differences(publication: str, found: Iterable[RowDifference], form: OutputFormat, *, wide: bool) -> None:
    """Print differences as they are found. Raises `SubscriberRowsDiffer`, `ArticlesNotCompared`."""
    from rowtide.replication.errors.conflicts import SubscriberRowsDiffer
    from rowtide.replication.inspection.differences import RowDifference

    uncompared: list[RowDifference] = []
    count = 0

    def rows() -> Iterator[RowDifference]:
        nonlocal count
        for difference in found:
            if difference.reason is not None:
                uncompared.append(difference)
            else:
                count += 1
                yield difference

    json_texts = ("key", "published", "subscribed")
    print_listed(RowDifference, rows(), form, _ROW_DIFFERENCE, wide=wide, json_texts=json_texts)
    if count:
        raise SubscriberRowsDiffer(publication, count)
    _require_compared(publication, uncompared)


def _print_repairs(publication: str, done: Iterable[Repair], form: OutputFormat, *, wide: bool) -> None:
    """Print the outcome of each repaired row, as it is repaired. Raises `RowsNotRepaired`, `ArticlesNotCompared`."""
    from rowtide.replication.errors.conflicts import RowsNotRepaired
    from rowtide.replication.repairing import LEFT, NOT_COMPARED, REFUSED, Repair

    counts = {LEFT: 0, REFUSED: 0}
    uncompared: list[Repair] = []

    def rows() -> Iterator[Repair]:
        for one in done:
            if one.action == NOT_COMPARED:
                uncompared.append(one)
            else:
                counts[one.action] = counts.get(one.action, 0) + 1
                yield one

    print_listed(Repair, rows(), form, _REPAIR, wide=wide, json_texts=_JSON_OF_REPAIRS)
    if counts[LEFT] or counts[REFUSED]:
        raise RowsNotRepaired(publication, counts[LEFT] + counts[REFUSED], counts[LEFT], counts[REFUSED])
    _require_compared(publication, uncompared)


def _require_compared(publication: str, found: Iterable[ArticleValidation | RowDifference | Repair]) -> None:
    from rowtide.replication.errors.conflicts import ArticlesNotCompared

    reasons = [f"{one.article} at {one.subscriber}: {one.reason}" for one in found if one.reason is not None]
    if reasons:
        raise ArticlesNotCompared(publication, len(reasons), "; ".join(reasons))


@listing(
    app,
    epilog="Example: rowtide replication repairs shop --db postgresql://localhost/shop",
    columns="time, subscriber, article, action, key, before, after",
    json_texts=("key", "before", "after"),
)
def repairs(db: Db, publication: SomePublication = None) -> Listed:
    """List the rows that `validate --repair` inserted, updated and deleted at subscribers, newest first."""
    from rowtide.replication.distributor.repair_records import RepairedRow

    return RepairedRow, connect(db).replication.list_repairs(publication)


@app.command(epilog="Example: rowtide replication row public.orders 42 --db postgresql://localhost/shop")
def row(
    db: Db,
    table: Annotated[str, Argument(metavar="TABLE", help="a published table")],
    key: Annotated[list[str], Argument(metavar="KEY", help="the values of its primary key, in its order")],
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """Show where a row is on its way: at the publisher and at each subscriber, with the last command for it.

    A subscriber's row is compared with what was published at its position; commands that wait for it are counted as
    queued.
    """
    listed = connect(db).replication.find_row(table, *key)

    from rowtide.replication.inspection.row_places import RowPlace

    print_listed(RowPlace, listed, form, _ROW_PLACE, wide=wide, json_texts=("key", "row"))
    for place in listed:
        if place.reason is not None:
            notes.print(f"Not compared at {place.place}: {place.article}: {place.reason}.", soft_wrap=True)
