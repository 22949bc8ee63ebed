"""`rowtide monitor`: metrics for Prometheus."""

from __future__ import annotations

import os
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import stopping
from rowtide.core.extras import naming_extras
from rowtide.core.options import Option

app = CommandTable()

MonitoredDb = Annotated[
    list[str],
    Option(
        "--db",
        metavar="URL",
        help="A database to be polled; may be repeated. Default: the one in ROWTIDE_DB.",
        show_default=False,
    ),
]


@app.command(epilog="Example: rowtide monitor serve --db postgresql://rowtide_monitor@db1/shop --listen 0.0.0.0:8080")
def serve(
    db: MonitoredDb,
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Where it listens; by default only for this machine.")
    ] = "127.0.0.1:8080",
    *,
    device_series: Annotated[
        bool, Option("--device-series", help="A series for each subscriber of a merge, also for ten thousand.")
    ] = False,
) -> None:
    """Poll databases every 15 seconds, and serve what is found as metrics for Prometheus, until stopped.

    /metrics has the metrics, /healthz answers while the monitor works, /readyz says whether each database was read
    within the last minute. A day of samples, and the counters, are in monitor.db in $STATE_DIRECTORY, by default in
    ~/.local/state/rowtide. Needs no Spark, contacts no subscriber and changes nothing.
    """
    with naming_extras():
        from rowtide.monitor.databases import name_databases
        from rowtide.monitor.ring import Ring, state_folder
        from rowtide.monitor.serving import Address, serving

    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url]
    databases, address = name_databases(given), Address.parse(listen)
    with (
        stopping() as stop,
        Ring.open(state_folder(os.environ)) as ring,
        serving(databases, ring, address, device_series=device_series) as bound,
    ):
        notes.print(f"Serving metrics at http://{bound}/metrics", soft_wrap=True)
        stop.wait()
