"""`rowtide cdc`: status."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output import Format, print_rows
from rowtide.core.lsn import Position
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.cdc.status import Status

app = typer.Typer()


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
