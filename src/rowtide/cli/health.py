"""`rowtide health` and `rowtide check`: the state of what rowtide does in a database, and what is missing."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output.rows import OutputFormat, as_json, notes, print_rows
from rowtide.core.errors import RowtideError
from rowtide.core.options import Argument, Option
from rowtide.core.redaction import redact
from rowtide.handle import connect
from rowtide.rights.purpose import Purpose

if TYPE_CHECKING:
    from rowtide.diagnosis import CheckResult
    from rowtide.diagnosis.result import Remediation


app = CommandTable()

COLUMNS = ("state", "code", "area", "subject", "message", "measures", "remediation")
"""A result as it is printed for programs."""
_UNREACHABLE = 2
_WIDTH = 80
_INDENT = " " * 4


class HealthFormat(StrEnum):
    """Output formats of health."""

    TABLE = "table"
    JSON = "json"


@app.command(epilog="Example: rowtide health --format json --db postgresql://localhost/shop")
def health(
    db: AnyDb,
    form: Annotated[HealthFormat, Option("--format", help="json: one object.")] = HealthFormat.TABLE,
) -> None:
    """Check everything that rowtide does in a database: log reader, slot, capture, cleanup, subscriptions, disks.

    Exit code 0: everything is healthy; 1: a warning, or something is unknown; 2: a failure, or the database cannot be
    reached. Needs no Spark, contacts no subscriber and changes nothing.
    """
    try:
        results = connect(db).health()
    except RowtideError as error:
        # 1 would be a warning.
        print(error, file=sys.stderr)
        raise click.exceptions.Exit(_UNREACHABLE) from error

    from rowtide.diagnosis import exit_code

    _PRINTERS[form](results)
    raise click.exceptions.Exit(exit_code(results))


def print_unhealthy(results: Iterable[CheckResult]) -> None:
    """Print on standard error what is not healthy, with remedies."""
    from rowtide.diagnosis import State
    from rowtide.diagnosis.result import by_state

    for result in by_state(results):
        if result.state is not State.HEALTHY:
            notes.print(describe(result), soft_wrap=True)


def describe(result: CheckResult) -> str:
    """Return a result in lines of 80 columns; remedies are never broken, so that they can be copied."""
    wrapped = textwrap.fill(
        redact(result.message),
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [f"{result.state.upper()}  {result.subject}", wrapped, *_describe_remediation(result.remediation)]
    return redact("\n".join(lines))


def fields_of(result: CheckResult) -> tuple[object, ...]:
    """Return the columns of a result."""
    remediation = redact(str(result.remediation)) if result.remediation is not None else None
    measures = {one.name: one.value for one in result.measures}
    return (
        str(result.state),
        str(result.code),
        str(result.area),
        result.subject,
        redact(result.message),
        measures,
        remediation,
    )


def _describe_remediation(remediation: Remediation | None) -> Iterator[str]:
    from rowtide.diagnosis.result import Advice

    if isinstance(remediation, Advice):
        yield textwrap.fill(remediation.text, _WIDTH, initial_indent=f"{_INDENT}> ", subsequent_indent=f"{_INDENT}  ")
    elif remediation is not None:
        yield f"{_INDENT}> {remediation}"


def _print_table(results: Sequence[CheckResult]) -> None:
    for result in results:
        print(describe(result))


def _print_json(results: Sequence[CheckResult]) -> None:
    from rowtide.diagnosis import worst

    listed = [dict(zip(COLUMNS, fields_of(result), strict=True)) for result in results]
    print(json.dumps({"state": worst(results), "results": listed}, ensure_ascii=False))


_PRINTERS = {HealthFormat.TABLE: _print_table, HealthFormat.JSON: _print_json}


@app.command(epilog="Example: rowtide check --as monitor --db postgresql://watcher@localhost/shop")
def check(
    db: AnyDb,
    tables: Annotated[
        list[str] | None,
        Argument(metavar="TABLE", help="Tables to look at; default: captured and tracked ones, before enabling all."),
    ] = None,
    lake: Annotated[
        str | None, Option(help="Before enabling capture: where the lake will be.", from_file=False)
    ] = None,
    purpose: Annotated[
        Purpose | None,
        Option("--as", help="Check only what a role for this needs; default: to enable and run what there is."),
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Report what prevents rowtide from working, or is worth knowing, each with the statement or command to run.

    Changes nothing. Works before and after enabling. Exit code 1 if anything prevents it; `rowtide health` checks what
    is enabled, with exit codes for programs.
    """
    from rowtide.diagnosis import require_nothing_stops

    results = connect(db).check(tables or (), lake=lake, purpose=purpose)
    if form is OutputFormat.TABLE:
        for result in results:
            print(describe(result))
    else:
        print_rows(COLUMNS, ([as_json(value, form) for value in fields_of(result)] for result in results), form)
    require_nothing_stops(results)
