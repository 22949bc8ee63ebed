"""`rowtide top`: the monitor's first page in a terminal."""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory

from rowtide.cli.configured import configuration, database_url
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import MonitoredDb
from rowtide.core.exports import naming_extras

app = CommandTable()


@app.command(epilog="Example: rowtide top --db postgresql://rowtide_monitor@db1/shop")
def top(db: MonitoredDb) -> None:
    """Show databases in this terminal, the worst first, polled every 15 seconds, until q is pressed.

    It polls by itself, beside a monitor that runs, needs no Spark, contacts no subscriber and changes nothing. The
    arrow keys choose a database, whose subjects are shown below.
    """
    with naming_extras():
        from rowtide.monitor.terminal import Top
    from pathlib import Path

    from rowtide.monitor.databases import name_databases
    from rowtide.monitor.errors import NoDatabaseGiven, TerminalMissing
    from rowtide.monitor.polling import Polling
    from rowtide.monitor.ring import Ring

    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url] or [*configuration().databases]
    databases = name_databases(given, database_url)
    if not databases:
        raise NoDatabaseGiven
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalMissing
    # The monitor's own file has one process at a time, and what is shown here needs no history.
    with (
        TemporaryDirectory(prefix="rowtide-top-") as folder,
        Ring.open(Path(folder)) as ring,
        Polling(databases, ring) as polling,
    ):
        Top(polling).run()
