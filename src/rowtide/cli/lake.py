"""`rowtide lake`: copy a lake and its log store; repair tables that readers refuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db
from rowtide.cli.output.event_lines import describe_mended, name_of
from rowtide.cli.output.progress import progress
from rowtide.cli.output.rows import notes, printed
from rowtide.core.options import Argument, ForGroup, Option
from rowtide.core.values import frozen
from rowtide.diagnosis.result import format_bytes, format_duration
from rowtide.handle import connect
from rowtide.targets.table_format import table_format

if TYPE_CHECKING:
    from rowtide.relocation.copying import Copied, CopyProgress
    from rowtide.targets.widening_removal import MendedTarget

app = CommandTable()

_FROM = Argument(metavar="FROM", help="The lake's folder or URL.")
_TO = Argument(metavar="TO", help="Folder or URL of the copy.")


@app.command(epilog="Example: rowtide lake copy /data/lake s3://bucket/shop")
def copy(
    source: Annotated[str, _FROM],
    target: Annotated[str, _TO],
    from_log_store: Annotated[str | None, Option(help="Folder of the log store; default: FROM/log.")] = None,
    log_store: Annotated[str | None, Option(help="Folder of its copy; default: TO/log.")] = None,
    db: Annotated[
        str | None,
        Option(
            "--db",
            envvar="ROWTIDE_DB",
            help="With --switch: the source database.",
            show_default=False,
            is_database=True,
        ),
    ] = None,
    *,
    switch: Annotated[bool, Option("--switch", help="Let the database use the copy from then on.")] = False,
    group: ForGroup = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what is to be copied, and copy nothing.")] = False,
) -> None:
    """Copy a lake and its log store, between folders and buckets: each file is verified.

    Capture may continue meanwhile. Run it again to complete a copy that was interrupted, or to bring it up to date:
    what is there already is not copied again. With --switch, what is left is copied while nobody captures, and the
    database uses the copy from then on: stop capture first.
    """
    places = _Places(source, target, from_log_store, log_store)
    if not switch:
        _copy(places, for_group=group, dry_run=dry_run)
    elif db is None:
        raise click.BadParameter("with --switch, name the database by --db or ROWTIDE_DB", param_hint="--db")
    else:
        _switch(db, places, for_group=group, dry_run=dry_run)


@app.command(epilog="Example: rowtide lake mend public.orders --db postgresql://localhost/shop")
def mend(
    db: Db,
    table: Annotated[str, Argument(metavar="TABLE", help="schema.table, or a capture instance.")],
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what is to be rewritten, and change nothing.")] = False,
) -> None:
    """Take Delta's type widening out of a table's change table and base, and out of its tables in targets, so that
    every reader can read them.

    Files with narrower types are written again; no row changes, and readers, capture and targets continue meanwhile. A
    running capture does it with its own tables, beside its cycles. Run it again to complete what was interrupted.
    """
    cdc, targets = connect(db).cdc, connect(db).targets
    if dry_run:
        found = cdc.plan_mending(table)
        _say(map(describe_mended, found))
        _say(map(describe_mended_target, targets.plan_mending(table)))
    else:
        with progress("Looking for files with narrower types ...", lambda reports: reports[-1:]) as report:
            found = cdc.mend(
                table,
                on_progress=lambda one: report(describe_mended(one)),
                on_wait=lambda holder: report(f"{holder} rewrites tables beside capture ..."),
            )
        _say(map(describe_mended, found))
        with progress("Looking into the tables of targets ...", lambda reports: reports[-1:]) as report:
            done = targets.mend(table, on_progress=lambda one: report(describe_mended_target(one)))
        _say(map(describe_mended_target, done))
    if not found:
        notes.print("Nothing was captured of it yet.")


def describe_mended_target(mended: MendedTarget) -> str:
    """Describe the outcome of `lake mend` for a table of a target."""
    form = table_format(mended.format)
    if not form.marks_wider_types:
        described = f"{name_of(mended.table.path)}: is {form.noun}, in which nothing is to be mended"
    else:
        described = describe_mended(mended.table)
    return f"{mended.target}, {described}"


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        notes.print(f"{line}.", soft_wrap=True)


@frozen
class _Places:
    """The places that the command line names."""

    source: str
    target: str
    source_log_store: str | None
    target_log_store: str | None


def _copy(places: _Places, *, for_group: bool, dry_run: bool) -> None:
    from rowtide.relocation.copying import copy_lake, plan_copy
    from rowtide.relocation.portions import LakePlace

    old, new = (
        LakePlace.of(places.source, places.source_log_store),
        LakePlace.of(places.target, places.target_log_store),
    )
    if dry_run:
        _print_planned(plan_copy(old, new))
        return
    with _copying() as on_progress:
        copied = copy_lake(old, new, for_group=for_group, on_progress=on_progress)
    notes.print(_describe(copied), soft_wrap=True)


def _switch(db: str, places: _Places, *, for_group: bool, dry_run: bool) -> None:
    database = connect(db)
    old_log, new_log = places.source_log_store, places.target_log_store
    if dry_run:
        with printed(database.rehearsal()) as rehearsal:
            copied = rehearsal.switch_lake(
                places.source, places.target, source_log_store=old_log, target_log_store=new_log
            )
    else:
        with _copying() as on_progress:
            copied = database.switch_lake(
                places.source,
                places.target,
                source_log_store=old_log,
                target_log_store=new_log,
                for_group=for_group,
                on_progress=on_progress,
            )
    if copied is None:
        notes.print(f"The database uses {places.target} already.", soft_wrap=True)
    elif dry_run:
        _print_planned(copied)
    else:
        notes.print(_describe(copied), soft_wrap=True)
        said = f"The database uses {places.target} from now on. Nothing is written to {places.source} any more"
        notes.print(f"{said}: delete it when no reader needs it.", soft_wrap=True)


def _print_planned(planned: Copied) -> None:
    found = f"{planned.copied_files} of {planned.files} files, {format_bytes(planned.copied_bytes)} of data"
    notes.print(f"To copy: {found}. Nothing was copied.", soft_wrap=True)


@contextmanager
def _copying() -> Iterator[Callable[[CopyProgress], None]]:
    """Yield a function that takes progress; an interrupt reports that it can continue."""
    begun = time.monotonic()

    def describe(reports: Sequence[CopyProgress]) -> Sequence[str]:
        return [describe_progress(reports[-1], time.monotonic() - begun)]

    try:
        with progress("Reading what there is to copy ...", describe) as on_progress:
            yield on_progress
    except KeyboardInterrupt:
        notes.print("Interrupted: the same command resumes with what is missing.")
        raise


def describe_progress(found: CopyProgress, seconds: float) -> str:
    """Describe how far a copy is, by the seconds it has run, and how long the rest takes at that rate."""
    rate = found.bytes / max(seconds, 0.001)
    left = ""
    if found.bytes < found.total_bytes and rate > 0:
        left = f", {format_duration((found.total_bytes - found.bytes) / rate)} left"
    return (
        f"{found.files} of {found.total_files} files, {format_bytes(found.bytes)} of "
        f"{format_bytes(found.total_bytes)} copied, {format_bytes(rate)} a second{left}"
    )


def _describe(copied: Copied) -> str:
    log_store = " and the log store" if copied.has_log_store else ", without a log store"
    return (
        f"Copied {copied.copied_files} files ({format_bytes(copied.copied_bytes)}); the copy has {copied.tables} tables"
        f"{log_store}, {copied.files} files ({format_bytes(copied.bytes)} of data), each verified."
    )
