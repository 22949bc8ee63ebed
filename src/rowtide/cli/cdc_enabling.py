"""`rowtide cdc`: enable and disable databases and tables."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.losses import Yes, confirm_loss
from rowtide.cli.options import Db, DryRun, Group, TableName
from rowtide.cli.output import notes, print_child_tables, print_wait
from rowtide.cli.statements import printed
from rowtide.core.column_lists import parse_column_list
from rowtide.core.tables import BeforeImages
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.cdc.enabling.instances import InstanceOptions

app = typer.Typer()


class Truncate(StrEnum):
    """How a truncate of a captured table is handled."""

    CAPTURE = "capture"
    REFUSE = "refuse"


@app.command(epilog="Example: rowtide cdc enable-db --db postgresql://localhost/shop --lake /data/lake")
def enable_db(
    db: Db,
    lake: Annotated[str, typer.Option(help="Folder or URL of the lake.")],
    log_store: Annotated[str | None, typer.Option(help="Folder of the log store; default: LAKE/log.")] = None,
    *,
    group: Group = False,
    dry_run: DryRun = False,
) -> None:
    """Enable a database: publication, slot, log store (SQL Server: sp_cdc_enable_db)."""
    cdc = connect(db).cdc
    if dry_run:
        with printed(cdc.rehearsal()) as rehearsal:
            rehearsal.enable_db(lake, log_store)
        return
    enabled = cdc.enable_db(lake, log_store, for_group=group, on_wait=print_wait)

    from rowtide.log.postgres.ddl_triggers import Triggers  # with the driver, which `cdc` has asked for

    if enabled.was_enabled:
        change = "Nothing was changed" if enabled.triggers is not Triggers.MADE else "Its event triggers were missing"
        notes.print(f"RT-22905: the database is enabled already. {change}.")
    else:
        notes.print(f"Enabled from LSN {enabled.position} on; the lake is {enabled.source.lake}.")
    if enabled.triggers is Triggers.REFUSED:
        notes.print("No event triggers: this role may not create them. `rowtide check` says what is lost.")


@app.command(epilog="Example: rowtide cdc disable-db --yes --db postgresql://localhost/shop")
def disable_db(db: Db, *, yes: Yes = False) -> None:
    """Disable a database; removes instances, change rows, publication and slot (SQL Server: sp_cdc_disable_db).

    Reports what is lost, and asks. In a copy of another database, it removes only what was copied, nothing of the
    original.
    """
    cdc = connect(db).cdc
    confirm_loss(cdc.find_disabling(), yes=yes)
    disabled = cdc.disable_db()
    notes.print("Disabled.")
    if disabled.owner is not None:
        notes.print(f"Unchanged: {disabled.kept}.", soft_wrap=True)


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

    Sets replica identity full, so that updates and deletes log the whole old row. With `--before-images key` the log
    does not grow, but change rows lack the old values that it does not carry.
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
        with printed(cdc.rehearsal()) as rehearsal:
            rehearsal.enable_table(table, **options)
        return
    name = cdc.enable_table(table, **options)
    notes.print(f"Enabled: capture instance {name}.")
    print_child_tables(table, cdc.find_child_tables(table), "captured")
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
    """Disable a table's instance, or all of its instances (SQL Server: sp_cdc_disable_table)."""
    chosen = None if capture_instance == "all" else capture_instance
    cdc = connect(db).cdc
    if dry_run:
        with printed(cdc.rehearsal()) as rehearsal:
            rehearsal.disable_table(table, capture_instance=chosen)
        return
    cdc.disable_table(table, capture_instance=chosen)
    notes.print("Disabled. Capture removes the change rows once it has read that far.")
