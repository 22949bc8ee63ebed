"""Enabling many tables: which ones a command names, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.cli.output.rows import OutputFormat, notes, print_child_tables, print_listed
from rowtide.cli.output.watching import progress
from rowtide.core.errors import FileNotReadable

if TYPE_CHECKING:
    from rowtide.cdc.api import ChangeDataCapture
    from rowtide.cdc.enabling.requests import SharedRequest
    from rowtide.cdc.enabling.table_sets import TableOutcome
    from rowtide.databases.postgres.rounds import Rounds

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


def collect_patterns(names: Sequence[str], schemas: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Return the names and patterns of arguments, schemas and a file. Raises `FileNotReadable`."""
    return (*names, *(f"{schema}.*" for schema in schemas), *(_read_lines(file) if file is not None else ()))


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
    """Enable the tables, and list what became of them. Raises the first table's error, after all were tried."""
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


def _describe(reports: Sequence[Rounds]) -> Sequence[str]:
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
