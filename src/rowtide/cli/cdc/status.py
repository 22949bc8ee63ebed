"""`rowtide cdc`: status."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output.rows import OutputFormat, print_facts

app = CommandTable()


@app.command(epilog="Example: rowtide cdc status --format jsonl --db postgresql://localhost/shop")
def status(db: Db, form: ListingFormat = OutputFormat.TABLE) -> None:
    """Print the progress of reading and capture, and what the server retains for them: a line per fact, or one object.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    # Not by the handle: it imports what reads the lake's changes.
    from rowtide.cdc.status import read_status
    from rowtide.databases.postgres.connect import open_engine
    from rowtide.databases.postgres.read_once import reading_once
    from rowtide.databases.urls import parse_url
    from rowtide.diagnosis import Area, read_health

    with reading_once():
        print_facts(read_status(open_engine(db), parse_url(db).name), form)
        print_unhealthy(read_health(db, [Area.LOG, Area.CAPTURE]))
