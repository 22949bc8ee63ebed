"""`rowtide cdc`: enable and disable databases and tables, and rules by which new tables are enabled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cdc.requests import DatabaseToEnable, InstanceRequest, NewInstance
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun, ListingFormat, Wide, Yes, confirm_loss
from rowtide.cli.output.progress import progress
from rowtide.cli.output.rows import OutputFormat, notes, print_child_tables, print_listed, print_wait, printed
from rowtide.core.errors import FileNotReadable
from rowtide.core.options import Argument, Option, TableName
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.cdc.api import ChangeDataCapture
    from rowtide.cdc.enabling.table_sets import TableOutcome
    from rowtide.cdc.requests import SharedRequest
    from rowtide.databases.postgres.altering_many import AlterationProgress


_LISTED = {
    "schema": "source_schema",
    "table": "source_table",
    "outcome": "outcome",
    "instance": "capture_instance",
    "reason": "reason",
}
_PLANNED = {
    **_LISTED,
    "large_columns": "large_columns",
    "out_of_line_bytes": "out_of_line_bytes",
}


@frozen
class ChosenTables:
    """The tables to enable, by names, patterns, schemas and a file."""

    tables: Annotated[
        list[str] | None,
        Argument(metavar="TABLE", help="schema.table, quoted as in SQL where needed; * ? [] are wildcards"),
    ] = None
    schema: Annotated[list[str] | None, Option(help="All tables of a schema. May be repeated.")] = None
    file: Annotated[Path | None, Option(help="File with a name or pattern a line; # begins a comment.")] = None
    excluding: Annotated[
        list[str] | None, Option("--except", help="Not these: names or patterns. May be repeated.")
    ] = None

    def collect_patterns(self) -> tuple[str, ...]:
        """Return all names and patterns. Raises `FileNotReadable`."""
        of_schemas = (f"{schema}.*" for schema in self.schema or ())
        return (*(self.tables or ()), *of_schemas, *(_read_lines(self.file) if self.file is not None else ()))


def enable_all(
    cdc: ChangeDataCapture,
    patterns: Sequence[str],
    excluding: Sequence[str],
    wait_s: float,
    form: OutputFormat,
    request: SharedRequest,
    *,
    with_new_tables: bool,
) -> None:
    """Enable the tables, and list the outcomes. Raises the first error, after all tables were tried."""
    from rowtide.cdc.enabling.table_sets import Outcome, TableOutcome

    try:
        with progress("Enabling ...", _describe) as on_progress:
            outcomes = cdc.enable_tables(
                patterns,
                excluding=excluding,
                with_new_tables=with_new_tables,
                wait_s=wait_s,
                on_progress=on_progress,
                **request.shared,
            )
    except KeyboardInterrupt:
        notes.print("Interrupted: the same command resumes with the tables that are not enabled.")
        raise
    print_listed(TableOutcome, outcomes, form, _LISTED)
    _report_costs([one for one in outcomes if one.outcome is Outcome.ENABLED])
    count = {outcome: sum(one.outcome is outcome for one in outcomes) for outcome in Outcome}
    notes.print(
        f"Enabled {count[Outcome.ENABLED]} of {len(outcomes)} tables; {count[Outcome.SKIPPED]} enabled already, "
        f"{count[Outcome.FAILED]} failed.",
        soft_wrap=True,
    )
    if with_new_tables:
        notes.print("New tables of these patterns are enabled too: see `rowtide cdc table-rules`.")
    _raise_first(outcomes)


def list_planned(
    cdc: ChangeDataCapture,
    patterns: Sequence[str],
    excluding: Sequence[str],
    form: OutputFormat,
    request: SharedRequest,
) -> None:
    """List what would be enabled. Raises the error of the first table that could not be."""
    from rowtide.cdc.enabling.table_sets import TableOutcome

    planned = cdc.plan_tables(patterns, excluding=excluding, **request.shared)
    print_listed(TableOutcome, planned, form, _PLANNED)
    _raise_first(planned)


def _read_lines(file: Path) -> tuple[str, ...]:
    from rowtide.cdc.enabling.table_sets import parse_lines

    try:
        return parse_lines(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FileNotReadable(str(file), getattr(error, "strerror", None) or "it is not text in UTF-8") from error


def _describe(reports: Sequence[AlterationProgress]) -> Sequence[str]:
    return [str(reports[-1])]


def _report_costs(enabled: Sequence[TableOutcome]) -> None:
    large = [one for one in enabled if one.out_of_line_bytes is not None]
    if large:
        names = ", ".join(f"{one.source_schema}.{one.source_table}" for one in large)
        size = sum(one.out_of_line_bytes or 0 for one in large) / 1e6
        notes.print(
            f"From now on every update and delete of {names} logs the old row with its large values, also where they "
            f"do not change; {size:.1f} MB lie out of line. `--before-images key` logs keys only.",
            soft_wrap=True,
        )
    for one in enabled:
        print_child_tables(f"{one.source_schema}.{one.source_table}", one.child_tables, "captured")


def _raise_first(outcomes: Sequence[TableOutcome]) -> None:
    for one in outcomes:
        if one.error is not None:
            raise one.error


app = CommandTable()


class Truncate(StrEnum):
    """The handling of a truncate of a captured table."""

    CAPTURE = "capture"
    REFUSE = "refuse"


@app.command(epilog="Example: rowtide cdc enable-db --db postgresql://localhost/shop --lake /data/lake")
def enable_db(db: Db, database: DatabaseToEnable, *, dry_run: DryRun = False) -> None:
    """Enable a database: publication, slot, log store (SQL Server: sp_cdc_enable_db).

    Run it again to change --widened, also while capture runs.
    """
    cdc = connect(db).cdc
    if dry_run:
        with printed(cdc.rehearsal()) as rehearsal:
            rehearsal.enable_db(database)
        return
    enabled = cdc.enable_db(replace(database, on_wait=print_wait))

    from rowtide.log.postgres.ddl_triggers import Triggers  # with the driver, which `cdc` has asked for

    if enabled.was_enabled:
        changes = ["Its event triggers were missing."] if enabled.triggers is Triggers.MADE else []
        if database.widened is not None:
            changes.append(f"Of tables whose columns get wider types: {enabled.widened}.")
        notes.print(f"RT-22905: the database is enabled already. {' '.join(changes) or 'Nothing was changed.'}")
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


@app.command(
    epilog="Examples: rowtide cdc enable-table public.orders --db postgresql://localhost/shop; "
    "rowtide cdc enable-table 'public.*' --except 'public.tmp_*' --db postgresql://localhost/shop"
)
def enable_table(
    db: Db,
    chosen: ChosenTables,
    truncate: Annotated[
        Truncate, Option(help="Capture a truncate as operation 6, or let the server refuse it.")
    ] = Truncate.CAPTURE,
    wait: Annotated[float, Option("--wait-seconds", min=0, help="How long to wait for tables that are in use.")] = 900,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    instance: InstanceRequest,
    with_new_tables: Annotated[
        bool,
        Option("--with-new-tables", help="Also tables of these patterns that are created later: see table-rules."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Enable a table for capture (SQL Server: sp_cdc_enable_table), or many of them by names and patterns.

    Sets replica identity full, so that updates and deletes log the whole old row. With `--before-images key` the log
    does not grow, but change rows lack the old values that it does not carry.

    The rows that are there already are copied into the lake by `rowtide cdc run`, while changes are captured; SQL
    Server, and `--no-snapshot`, begin with the next change.

    Of many tables those that are enabled already are skipped, and one that fails does not stop the others. Each is
    locked for a moment only; one that is in use is waited for. `--dry-run` lists them.
    """
    request = replace(instance, refuses_truncate=truncate is Truncate.REFUSE)
    patterns, excluding = chosen.collect_patterns(), chosen.excluding or []
    if not patterns:
        raise click.BadParameter("name a table, a --schema or a --file")
    cdc = connect(db).cdc
    if with_new_tables or not _is_one(patterns, excluding):
        of_one = (request.capture_instance, request.index_name, request.columns)
        if any(given is not None for given in of_one):
            raise click.BadParameter("--capture-instance, --index and --columns are options of one table")
        if dry_run:
            list_planned(cdc, patterns, excluding, form, request)
        else:
            enable_all(cdc, patterns, excluding, wait, form, request, with_new_tables=with_new_tables)
        return
    new = request.of(patterns[0])
    if dry_run:
        with printed(cdc.rehearsal()) as rehearsal:
            rehearsal.enable_table(new)
        return
    _enable_one(cdc, new)


def _is_one(patterns: Sequence[str], excluding: Sequence[str]) -> bool:
    """Return whether a single table is named: by its name, without anything else."""
    from rowtide.cdc.enabling.table_sets import is_pattern

    return len(patterns) == 1 and not excluding and not is_pattern(patterns[0])


def _enable_one(cdc: ChangeDataCapture, new: NewInstance) -> None:
    table, name = new.table, cdc.enable_table(new)
    copying = " `rowtide cdc run` copies the rows that are there." if new.snapshot else ""
    notes.print(f"Enabled: capture instance {name}.{copying}", soft_wrap=True)
    print_child_tables(table, cdc.find_child_tables(table), "captured")
    cost = cdc.find_image_cost(table) if new.before_images is BeforeImages.FULL else None
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
    capture_instance: Annotated[str, Option(help="One instance's name, or all.")] = "all",
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


_LISTED_RULE = {
    "rule": "rule_name",
    "except": "excluding",
    "enabled": "enabled",
    "failed": "failed",
    "role": "role_name",
    "before_images": "before_images",
    "created": "created_at",
}
_LISTED_TABLE = {
    "schema": "source_schema",
    "table": "source_table",
    "outcome": "outcome",
    "reason": "reason",
    "considered": "considered_at",
}


@app.command(
    epilog="Examples: rowtide cdc table-rules --db postgresql://localhost/shop; "
    "rowtide cdc table-rules 'public.*' --db postgresql://localhost/shop"
)
def table_rules(
    db: Db,
    rule: Annotated[str | None, Argument(metavar="RULE", help="Its tables; default: list the rules.")] = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """List the rules of `enable-table --with-new-tables`, or the tables that one has considered.

    A table is enabled in the transaction that creates, renames or moves it; where event triggers may not be created,
    and for tables that need a decision, by the process that captures, within seconds.
    """
    from rowtide.cdc.enabling.table_rules import RuledTable, TableRule

    cdc = connect(db).cdc
    if rule is not None:
        print_listed(RuledTable, cdc.list_ruled_tables(rule), form, _LISTED_TABLE, wide=wide)
        return
    print_listed(TableRule, cdc.list_table_rules(), form, _LISTED_RULE, wide=wide)


@app.command(epilog="Example: rowtide cdc drop-table-rule 'public.*' --db postgresql://localhost/shop")
def drop_table_rule(db: Db, rule: Annotated[str, Argument(metavar="RULE", help="Its name: the patterns.")]) -> None:
    """Drop a rule: new tables are no longer enabled; those that it enabled stay enabled."""
    connect(db).cdc.drop_table_rule(rule)
    notes.print("Dropped.")
