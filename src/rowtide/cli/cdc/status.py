"""`rowtide cdc`: status."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output.rows import Format, print_facts
from rowtide.handle import connect

app = CommandTable()


@app.command(epilog="Example: rowtide cdc status --format jsonl --db postgresql://localhost/shop")
def status(db: Db, form: ListingFormat = Format.TABLE) -> None:
    """Print the progress of reading and capture, and what the server retains for them: a line per fact, or one object.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    from rowtide.databases.postgres.read_once import reading_once
    from rowtide.diagnosis import Area, read_health

    with reading_once():
        print_facts(connect(db).cdc.status(), form)
        print_unhealthy(read_health(db, [Area.LOG, Area.CAPTURE]))
