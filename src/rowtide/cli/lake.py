"""`rowtide lake`: copy a lake and its log store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.options import Group
from rowtide.cli.output import notes
from rowtide.cli.progress import progress
from rowtide.findings.quantities import format_bytes, format_duration

if TYPE_CHECKING:
    from rowtide.relocation import Copied, CopyProgress

app = typer.Typer(rich_markup_mode=None)

_FROM = typer.Argument(metavar="FROM", help="The lake's folder or URL.")
_TO = typer.Argument(metavar="TO", help="Folder or URL of the copy.")


@app.command(epilog="Example: rowtide lake copy /data/lake s3://bucket/shop")
def copy(
    source: Annotated[str, _FROM],
    target: Annotated[str, _TO],
    from_log_store: Annotated[str | None, typer.Option(help="Folder of the log store; default: FROM/log.")] = None,
    log_store: Annotated[str | None, typer.Option(help="Folder of its copy; default: TO/log.")] = None,
    *,
    group: Group = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what is to be copied, and copy nothing.")] = False,
) -> None:
    """Copy a lake and its log store, between folders and buckets: each file is verified.

    Capture may go on meanwhile. Run it again to complete a copy that was interrupted, or to bring it up to date: what
    is there already is not copied again.
    """
    from rowtide.relocation import LakePlace, copy_lake, plan_copy

    places = LakePlace.of(source, from_log_store), LakePlace.of(target, log_store)
    if dry_run:
        planned = plan_copy(*places)
        found = f"{planned.copied_files} of {planned.files} files, {format_bytes(planned.copied_bytes)} of data"
        notes.print(f"To copy: {found}. Nothing was copied.", soft_wrap=True)
        return
    with _copying() as on_progress:
        copied = copy_lake(*places, for_group=group, on_progress=on_progress)
    notes.print(_describe(copied), soft_wrap=True)


@contextmanager
def _copying() -> Iterator[Callable[[CopyProgress], None]]:
    """Yield a function that takes progress; one who interrupts is told that it can go on."""
    begun = time.monotonic()

    def describe(reports: Sequence[CopyProgress]) -> Sequence[str]:
        return [describe_progress(reports[-1], time.monotonic() - begun)]

    try:
        with progress("Reading what there is to copy ...", describe) as on_progress:
            yield on_progress
    except KeyboardInterrupt:
        notes.print("Interrupted: the same command goes on with what is missing.")
        raise


def describe_progress(found: CopyProgress, seconds: float) -> str:
    """Describe how far a copy is, after so many seconds, and how long the rest takes at that rate."""
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
