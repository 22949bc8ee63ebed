"""`rowtide tracking`: a database's changes since an anchor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from itertools import groupby
from math import isfinite, isnan
from typing import Annotated
from uuid import UUID

import click

from rowtide.cli.groups import CliGroup, CommandTable
from rowtide.cli.options import AnyDb, DryRun, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_rows, printed, report
from rowtide.cli.output.tables import show_fact
from rowtide.core.anchors import Anchor
from rowtide.core.options import MOST_DAYS, Argument, Option
from rowtide.tracking import Change, PurgeType, TrackingOptions
from rowtide.tracking.api import TrackingEnabling, open_tracking
from rowtide.tracking.options import TrackingRequest

app = CommandTable()
purge = CommandTable()

_OWN_NAMES = ("operation", "table", "anchor")

Table = Annotated[str, Argument(metavar="TABLE", help="a table of the database")]
Days = Annotated[int | None, Option(help="Remove entries that are older than this many days.", min=0, max=MOST_DAYS)]
Csn = Annotated[int | None, Option(help="Remove entries that committed up to this CSN.", min=0, max=2**63 - 1)]


class TrackedChangesFormat(StrEnum):
    """Output formats of changes."""

    TABLE = "table"
    JSONL = "jsonl"


@app.command(epilog="Example: rowtide tracking enable orders --db sqlite:///field.db")
def enable(db: AnyDb, asked: TrackingRequest, *, dry_run: DryRun = False) -> None:
    """Track a table from now on, whichever program writes to it (SQL Server Compact: EnableTracking)."""
    with _altering(db, dry_run=dry_run) as tracking, notes.status(f"Enabling {asked.table} ...") as progress:
        tracking.enable_tracking(replace(asked, on_progress=progress.update))
    report(f"Enabled: {asked.table}.", dry_run=dry_run)


@app.command(epilog="Example: rowtide tracking disable orders --db sqlite:///field.db")
def disable(db: AnyDb, table: Table, *, dry_run: DryRun = False) -> None:
    """Stop tracking a table; removes columns, triggers and tombstones (SQL Server Compact: DisableTracking)."""
    with _altering(db, dry_run=dry_run) as tracking:
        tracking.disable_tracking(table)
    report(f"Disabled: {table}.", dry_run=dry_run)


@app.command(epilog="Example: rowtide tracking resume orders --db sqlite:///field.db")
def resume(db: AnyDb, table: Table, *, dry_run: DryRun = False) -> None:
    """Track a table again whose triggers or columns were lost; earlier anchors are refused for it."""
    with _altering(db, dry_run=dry_run) as tracking:
        tracking.resume_tracking(table)
    report(f"Resumed: {table}. Enumerate it without an anchor.", dry_run=dry_run)


@app.command(epilog="Example: rowtide tracking options --format jsonl --db sqlite:///field.db")
def options(
    db: AnyDb,
    table: Annotated[str | None, Argument(metavar="TABLE", help="default: all tracked tables")] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """List how tables are tracked (SQL Server Compact: GetTrackingOptions)."""
    with open_tracking(db) as tracking:
        listed = tracking.list_tracked() if table is None else (tracking.get_tracked(table),)
    names = ["table", "key", "options", "storage", "index", "min_valid_csn", "lost_time"]
    rows = [
        [one.name, one.key_type, _as_text(one.options), one.storage, one.index, one.min_valid_csn, one.lost_time]
        for one in listed
    ]
    print_rows(names, rows, form, show=show_fact)


@app.command(
    epilog="Example: rowtide tracking changes orders,items --since 7-1f0c… --format jsonl --db sqlite:///field.db"
)
def changes(
    db: AnyDb,
    tables: Annotated[str, Argument(metavar="TABLE[,TABLE...]", help="tables, parents before their children")],
    since: Annotated[
        str | None, Option(metavar="ANCHOR", help="The last anchor; without one: all rows, and the first anchor.")
    ] = None,
    exclude_context: Annotated[
        UUID | None, Option(help="Exclude what was changed last with this tracking context.")
    ] = None,
    whole: Annotated[str, Option(metavar="TABLE[,TABLE...]", help="Of these, all rows.")] = "",
    form: Annotated[
        TrackedChangesFormat, Option("--format", help="jsonl: one object a line.")
    ] = TrackedChangesFormat.TABLE,
) -> None:
    """Print the net changes of tables since an anchor, in one snapshot; the last line is the next anchor."""
    anchor = None if since is None else Anchor.parse(since)
    with (
        open_tracking(db) as tracking,
        tracking.changes(_names(tables), anchor, exclude_context=exclude_context, whole=_names(whole)) as found,
    ):
        match form:
            case TrackedChangesFormat.JSONL:
                for change in found:
                    print(json.dumps(_as_object(change), ensure_ascii=False))
                print(json.dumps({"anchor": str(found.anchor)}))
            case TrackedChangesFormat.TABLE:
                _print_tables(found)
                print(f"anchor {found.anchor}")


app["purge"] = CliGroup("purge", "Remove what is older than some days, or than a CSN.", purge)


@purge.command(epilog="Example: rowtide tracking purge tombstones orders --days 30 --db sqlite:///field.db")
def tombstones(
    db: AnyDb,
    table: Annotated[str | None, Argument(metavar="TABLE", help="default: all tracked tables")] = None,
    days: Days = None,
    csn: Csn = None,
) -> None:
    """Remove tombstones; anchors that would need them are refused (SQL Server Compact: PurgeTombstoneTableData)."""
    purge_type, value = _parse_age(days, csn)
    with open_tracking(db) as tracking, notes.status("Removing tombstones ..."):
        purged = tracking.purge_tombstone_table_data(table, purge_type, value)
    notes.print(f"Removed: {purged} tombstones.")


@purge.command(epilog="Example: rowtide tracking purge transactions --csn 7000 --db sqlite:///field.db")
def transactions(db: AnyDb, days: Days = None, csn: Csn = None) -> None:
    """Remove transactions from the commit sequence (SQL Server Compact: PurgeTransactionSequenceData)."""
    purge_type, value = _parse_age(days, csn)
    with open_tracking(db) as tracking:
        purged = tracking.purge_transaction_sequence_data(purge_type, value)
    notes.print(f"Removed: {purged} transactions.")


@contextmanager
def _altering(db: str, *, dry_run: bool) -> Iterator[TrackingEnabling]:
    """Yield tracking to alter the database; with --dry-run it has no effect, and the statements are printed."""
    with open_tracking(db) as tracking:
        opened: AbstractContextManager[TrackingEnabling]
        opened = printed(tracking.rehearsal()) if dry_run else nullcontext(tracking)
        with opened as enabling:
            yield enabling


def _as_text(options: TrackingOptions) -> str:
    return ",".join(option.name.lower() for option in TrackingOptions if option in options and option.name)


def _parse_age(days: int | None, csn: int | None) -> tuple[PurgeType, int]:
    if days is not None and csn is None:
        return PurgeType.TIME_BASED, days
    if csn is not None and days is None:
        return PurgeType.CSN_BASED, csn
    raise click.BadParameter("name one of them", param_hint="--days / --csn")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _as_object(change: Change) -> Mapping[str, object]:
    """Return a change as one JSON object; a column with one of our names gets a trailing underscore."""
    row = {name + "_" * (name in _OWN_NAMES): _as_json(value) for name, value in change.as_dict().items()}
    return {"operation": change.operation, "table": change.table, **row}


def _as_json(value: object) -> object:
    """Return a value for JSON: bytes in hexadecimal; numerics and what JSON lacks as texts."""
    match value:
        case bytes():
            return value.hex()
        case float() | Decimal() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return format(value, "f")
        case list():
            return [_as_json(item) for item in value]
        case None | bool() | int() | float() | str() | dict():
            return value
        case _:
            return value.isoformat() if isinstance(value, (date, time)) else str(value)


def _print_tables(found: Iterable[Change]) -> None:
    for (table, columns), listed in groupby(found, lambda change: (change.table, change.columns)):
        print(table)
        print_rows(["operation", *columns], ([change.operation, *change.row] for change in listed), OutputFormat.TABLE)
