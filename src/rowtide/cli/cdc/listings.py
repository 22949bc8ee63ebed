"""`rowtide cdc`: status, listings of instances, and scripts generated from them."""

from __future__ import annotations

import sys
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db, InstanceName, ListingFormat
from rowtide.cli.output.rows import OutputFormat, print_facts, print_rows
from rowtide.core.names import parse_column_list
from rowtide.core.options import Argument, Option
from rowtide.handle import connect

app = CommandTable()


@listing(
    app,
    epilog="Example: rowtide cdc instances --format csv --db postgresql://localhost/shop",
    columns="capture_instance as instance, source_schema as schema, source_table as table, "
    "supports_net_changes as net_changes, role_name as role, create_date as created",
)
def instances(
    db: Db,
    source_schema: Annotated[str | None, Option(help="Only of a table, with --source-name.")] = None,
    source_name: Annotated[str | None, Option(help="Only of a table, with --source-schema.")] = None,
) -> Listed:
    """List the capture instances (SQL Server: sp_cdc_help_change_data_capture).

    Only those that the role may read, from the catalogue. start_lsn is stored in the lake; `rowtide cdc lsn min` prints
    it.
    """
    from rowtide.cdc.introspection import ListedInstance

    return ListedInstance, connect(db).cdc.list_instances(source_schema, source_name)


@listing(
    app,
    epilog="Example: rowtide cdc columns public_orders --db postgresql://localhost/shop",
    columns="column_ordinal as ordinal, column_name as column, data_type as type, "
    "character_maximum_length as length, numeric_precision as precision, numeric_scale as scale",
)
def columns(db: Db, instance: InstanceName) -> Listed:
    """List an instance's captured columns, by ordinal (SQL Server: sp_cdc_get_captured_columns)."""
    from rowtide.cdc.introspection import ListedColumn

    return ListedColumn, connect(db).cdc.get_captured_columns(instance)


@app.command(epilog="Example: rowtide cdc generate-wrapper public_orders --db postgresql://localhost/shop")
def generate_wrapper(
    db: Db,
    instance: Annotated[str | None, Argument(metavar="INSTANCE", help="default: every one")] = None,
    column_list: Annotated[
        str | None, Option(help='Columns to return, separated by commas, in "" or [] where needed; default: all.')
    ] = None,
    update_flag_list: Annotated[
        str | None, Option(help="Columns with a flag, <name>_uflag: whether an update changed it.")
    ] = None,
    form: Annotated[
        OutputFormat | None, Option("--format", help="As rows (function_name, create_script); default: scripts alone.")
    ] = None,
    *,
    closed: Annotated[
        bool,
        Option("--closed-high-end-point/--open-high-end-point", help="Whether the end time belongs to the window."),
    ] = True,
) -> None:
    """Print scripts of Spark SQL functions for queries by time (SQL Server: sp_cdc_generate_wrapper_function).

    fn_all_changes_INSTANCE and fn_net_changes_INSTANCE (start_time, end_time, row_filter_option): the start is
    exclusive; a null means the end of the validity interval. They call the functions that `rowtide.register` registers.
    """
    wrappers = connect(db).cdc.generate_wrapper(
        instance,
        closed_high_end_point=closed,
        column_list=parse_column_list(column_list) if column_list is not None else None,
        update_flag_list=parse_column_list(update_flag_list) if update_flag_list is not None else None,
    )
    if form is not None:
        rows = [(wrapper.function_name, wrapper.create_script) for wrapper in wrappers]
        print_rows(("function_name", "create_script"), rows, form)
        return
    sys.stdout.write("\n".join(f"{wrapper.create_script.rstrip()};\n" for wrapper in wrappers))


@app.command(epilog="Example: rowtide cdc status --format jsonl --db postgresql://localhost/shop")
def status(db: Db, form: ListingFormat = OutputFormat.TABLE) -> None:
    """Print the progress of reading and capture, and what the server retains for them: a line per fact, or one object.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    # Not by the handle: it imports what reads the lake's changes.
    from rowtide.cdc.status import read_status
    from rowtide.databases.postgres.connect import open_engine
    from rowtide.databases.postgres.kept_sessions import reading_once
    from rowtide.databases.urls import parse_url
    from rowtide.diagnosis import Area, read_health

    with reading_once():
        print_facts(read_status(open_engine(db), parse_url(db).name), form)
        print_unhealthy(read_health(db, [Area.LOG, Area.CAPTURE]))
