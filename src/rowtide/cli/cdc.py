"""`rowtide cdc`: change data capture."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from sqlalchemy import Executable
from sqlalchemy.dialects import postgresql

from rowtide.cdc.column_lists import parse_column_list
from rowtide.cli import cdc_cleanup, cdc_ddl, cdc_listings, cdc_lsn, cdc_masks
from rowtide.cli.bounds import parse_bound
from rowtide.cli.options import Db, DryRun, InstanceName, ListingFormat, TableName
from rowtide.cli.output import Format, print_rows, whole_file
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import BeforeImages
from rowtide.handle import connect
from rowtide.log.postgres.ddl_triggers import Triggers

if TYPE_CHECKING:
    from rowtide.cdc.capture import CycleReport
    from rowtide.cdc.instances import InstanceOptions
    from rowtide.cdc.status import Status

app = typer.Typer(help="Change data capture: changes in Delta tables, queryable by LSN.", no_args_is_help=True)
app.add_typer(cdc_lsn.app, name="lsn")
app.add_typer(cdc_listings.app)
app.add_typer(cdc_masks.app)
app.add_typer(cdc_cleanup.app)
app.add_typer(cdc_ddl.app)


class ChangesFormat(StrEnum):
    """How changes are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Truncate(StrEnum):
    """What becomes of a truncate of a captured table."""

    CAPTURE = "capture"
    REFUSE = "refuse"


notes = Console(stderr=True, markup=False, emoji=False, highlight=False)


@app.command(epilog="Example: rowtide cdc enable-db --db postgresql://localhost/shop --lake /data/lake")
def enable_db(
    db: Db,
    lake: Annotated[str, typer.Option(help="Folder or URL of the lake.")],
    log_store: Annotated[str | None, typer.Option(help="Folder of the log store; default: LAKE/log.")] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Enable a database: publication, slot, log store (SQL Server: sp_cdc_enable_db)."""
    if dry_run:
        from rowtide.cdc.administration import plan_enable_database
        from rowtide.databases.postgres.connect import open_engine

        _print_statements(plan_enable_database(open_engine(db)))
        return
    enabled = connect(db).cdc.enable_db(lake, log_store)
    if enabled.was_enabled:
        change = "Nothing was changed" if enabled.triggers is not Triggers.MADE else "Its event triggers were missing"
        notes.print(f"RT-22905: the database is enabled already. {change}.")
    else:
        notes.print(f"Enabled from LSN {enabled.position} on; the lake is {enabled.source.lake}.")
    if enabled.triggers is Triggers.REFUSED:
        notes.print("Without event triggers, which this role may not make: `rowtide check` says what is lost.")


@app.command(epilog="Example: rowtide cdc disable-db --db postgresql://localhost/shop")
def disable_db(db: Db) -> None:
    """Disable a database; its instances, change rows, publication and slot go (SQL Server: sp_cdc_disable_db)."""
    connect(db).cdc.disable_db()
    notes.print("Disabled.")


@app.command(epilog="Example: rowtide cdc enable-table public.orders --db postgresql://localhost/shop")
def enable_table(
    db: Db,
    table: TableName,
    capture_instance: Annotated[str | None, typer.Option(help="Its name; default: schema_table.")] = None,
    role: Annotated[
        str | None,
        typer.Option(help="Gating role: only its members may read the changes; made if it is not there."),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="Unique index that identifies rows; default: that of the primary key.")
    ] = None,
    listed: Annotated[
        str | None,
        typer.Option(
            "--columns", help='Captured columns, separated by commas, in "" or [] where needed; default: all.'
        ),
    ] = None,
    truncate: Annotated[
        Truncate, typer.Option(help="Capture a truncate as operation 6, or let the server refuse it.")
    ] = Truncate.CAPTURE,
    before_images: Annotated[
        BeforeImages, typer.Option(help="What the log carries of a row before its change: all of it, or its key.")
    ] = BeforeImages.FULL,
    *,
    net_changes: Annotated[
        bool | None,
        typer.Option(
            "--net-changes/--no-net-changes",
            help="Whether it has net changes; default: if it has a key.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Enable a table for capture (SQL Server: sp_cdc_enable_table).

    Sets replica identity full, so that updates and deletes log the whole old row; with `--before-images key` the
    log does not grow, and change rows lack what it does not carry.
    """
    cdc = connect(db).cdc
    options: InstanceOptions = {
        "capture_instance": capture_instance,
        "columns": parse_column_list(listed) if listed is not None else None,
        "refuses_truncate": truncate is Truncate.REFUSE,
        "before_images": before_images,
        "role_name": role,
        "index_name": index,
        "supports_net_changes": net_changes,
    }
    if dry_run:
        _print_statements(cdc.plan_enable_table(table, **options))
        return
    name = cdc.enable_table(table, **options)
    notes.print(f"Enabled: capture instance {name}.")
    cost = cdc.find_image_cost(table) if before_images is BeforeImages.FULL else None
    if cost is not None:
        notes.print(
            f"From now on every update and delete logs the old row with its large values ({', '.join(cost.columns)}), "
            f"also where they do not change; {cost.out_of_line_bytes / 1e6:.1f} MB of the table lie out of line. "
            "`--before-images key` logs keys only.",
            soft_wrap=True,
        )


@app.command(epilog="Example: rowtide cdc disable-table public.orders --db postgresql://localhost/shop")
def disable_table(
    db: Db,
    table: TableName,
    capture_instance: Annotated[str, typer.Option(help="One instance's name, or all.")] = "all",
    *,
    dry_run: DryRun = False,
) -> None:
    """Disable a table's instance, or all of them (SQL Server: sp_cdc_disable_table)."""
    chosen = None if capture_instance == "all" else capture_instance
    cdc = connect(db).cdc
    if dry_run:
        _print_statements(cdc.plan_disable_table(table, capture_instance=chosen))
        return
    cdc.disable_table(table, capture_instance=chosen)
    notes.print("Disabled; the change rows go when capture has read that far.")


@app.command(epilog="Example: rowtide cdc run --once --db postgresql://localhost/shop")
def run(
    db: Db,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything committed before is published.")] = False,
) -> None:
    """Read the log and capture, until stopped with Ctrl-C (SQL Server: the capture job)."""
    from rowtide.cdc.run import Watchers

    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    with notes.status("Starting Spark and the log reader ...") as status:
        shown = status if notes.is_terminal else None

        def on_cycle(report: CycleReport) -> None:
            subject = "heartbeat" if report.is_heartbeat else "instances"
            line = (
                f"cycle {report.cycle}: {', '.join(report.instances) or subject} "
                f"published up to LSN {report.to_position} in {report.seconds:.1f} s"
            )
            if shown is not None:
                shown.update(line)
            else:
                notes.print(line, soft_wrap=True)

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        connect(db).cdc.run(once=once, stop=stop, watchers=Watchers(on_cycle, on_retry))


@app.command(epilog="Example: rowtide cdc changes public_orders --format jsonl --db postgresql://localhost/shop")
def changes(
    db: Db,
    instance: InstanceName,
    row_filter: Annotated[
        str, typer.Option(help='"all" or "all update old"; with --net "all", "all with mask" or "all with merge".')
    ] = "all",
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="LSN|TIME", help="First LSN, or a time to begin after; default: low endpoint."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="LSN|TIME", help="Last LSN, or a time to end with; default: last published."),
    ] = None,
    form: Annotated[ChangesFormat, typer.Option("--format", help="parquet: typed, with --out.")] = ChangesFormat.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write a file instead.")] = None,
    *,
    net: Annotated[bool, typer.Option("--net", help="One change per key: what the range amounts to.")] = False,
) -> None:
    """Print changes in commit order (SQL Server: fn_cdc_get_all_changes_<instance>, ..._net_changes_...).

    A transaction at the LSN of --from belongs to the range; one that ended at its TIME does not, so that one range by
    time begins where the last one ended. Times are in ISO 8601, in UTC where they have no zone.
    """
    if form is ChangesFormat.PARQUET and out is None:
        raise typer.BadParameter("parquet needs --out FILE", param_hint="--format")
    bounds = [parse_bound(text) if text is not None else None for text in (start, end)]
    cdc, asked = connect(db).cdc, (instance, bounds[0], bounds[1], row_filter)
    with whole_file(out) if out is not None else nullcontext() as partial:
        if partial is not None and form is ChangesFormat.PARQUET:
            cdc.write_parquet(partial, *asked, net=net)
            return
        names, rows = cdc.present_changes(*asked, net=net)
        with partial.open("w", encoding="utf-8") if partial is not None else nullcontext(sys.stdout) as file:
            print_rows(names, rows, Format(form), file)


@app.command(epilog="Example: rowtide cdc status --format jsonl --db postgresql://localhost/shop")
def status(db: Db, form: ListingFormat = Format.TABLE) -> None:
    """Print how far reading and capture are, and what the server keeps for them: a line per fact, or one object."""
    facts = _present_status(connect(db).cdc.status())
    if form is Format.TABLE:
        print_rows(("fact", "value"), facts.items(), form)
        return
    # CSV has no lists.
    values = ["; ".join(v) if isinstance(v, list) and form is Format.CSV else v for v in facts.values()]
    print_rows(tuple(facts), [values], form)


@app.command(epilog="Example: rowtide cdc reinitialize --yes --db postgresql://localhost/shop")
def reinitialize(
    db: Db,
    reason: Annotated[str, typer.Option(help="Recorded with the gap.")] = "reinitialized by hand",
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Go on after a gap: slot and publication are made anew, and the gap is recorded. Says first what is lost."""
    cdc = connect(db).cdc
    notes.print(f"Lost: {cdc.find_loss()}.", soft_wrap=True)
    if not yes:
        typer.confirm("Go on?", abort=True, err=True)
    cdc.reinitialize(reason)
    notes.print("The next epoch is open; `rowtide cdc run` goes on.")


@app.command(epilog="Example: rowtide cdc skip-transaction 0/16B3748 --yes --db postgresql://localhost/shop")
def skip_transaction(
    db: Db,
    lsn: Annotated[str, typer.Argument(help="The LSN that RT-2121 names.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Go on behind a transaction that cannot be read; the gap is recorded. Says first what is lost."""
    cdc, skipped = connect(db).cdc, CommitLsn.parse(lsn)
    unreadable = cdc.find_unreadable(skipped)
    notes.print(
        f"Lost: every change of the transaction that commits at LSN {skipped}; a change of {unreadable.table} in it "
        f"cannot be read: {unreadable.reason}. Ranges that contain {skipped} will be refused.",
        soft_wrap=True,
    )
    if not yes:
        typer.confirm("Go on?", abort=True, err=True)
    cdc.skip_transaction(skipped)
    notes.print("Skipped; `rowtide cdc run` goes on behind it.")


def _present_status(status: Status) -> dict[str, object]:
    """Return a status as names and JSON values: positions as text, times in ISO 8601."""
    return {field.name: _as_json(getattr(status, field.name)) for field in fields(status)}


def _as_json(value: object) -> object:
    match value:
        case Position():
            return str(value)
        case datetime():
            return value.isoformat()
        case tuple():
            return list(value)
        case _:
            return value


def _print_statements(steps: Sequence[Executable]) -> None:
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    for step in steps:
        compiled = step.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
        sys.stdout.write(f"{str(compiled).strip()};\n")
