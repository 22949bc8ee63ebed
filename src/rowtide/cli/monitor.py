"""`rowtide monitor`: metrics for Prometheus, alerts on them, and a dashboard."""

from __future__ import annotations

import os
from typing import Annotated

from rowtide.cli.configured import configuration, database_url
from rowtide.cli.groups import CommandTable
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import watching
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.events.configuration import LogOptions
from rowtide.monitor.web.access import AccessOptions
from rowtide.systemd.notifying import ServiceManager

app = CommandTable()
_BEAT_S = 1.0

MonitoredDb = Annotated[
    list[str],
    Option(
        "--db",
        metavar="URL",
        help="A database to be polled, or its name in the configuration file; may be repeated. Default: the one in "
        "ROWTIDE_DB, else all databases of the file.",
        show_default=False,
    ),
]


@app.command(
    epilog="Example: rowtide monitor serve --db postgresql://rowtide_monitor@db1/shop --token-file /etc/rowtide/tokens"
)
def serve(
    db: MonitoredDb,
    listen: Annotated[
        str | None,
        Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where it listens; by default only for this machine.",
            show_default="127.0.0.1:8080, or what the configuration file says",
        ),
    ] = None,
    *,
    device_series: Annotated[
        bool, Option("--device-series", help="A series for each subscriber of a merge, also for ten thousand.")
    ] = False,
    access: AccessOptions,
    log: LogOptions,
) -> None:
    """Poll databases every 15 seconds, and serve what is found as pages and as metrics for Prometheus, until stopped.

    / is the first page, /metrics has the metrics, /healthz answers while the monitor works, /readyz says whether each
    database was read within the last minute. A day of samples, and the counters, are in monitor.db in
    $STATE_DIRECTORY, by default in ~/.local/state/rowtide. Needs no Spark, contacts no subscriber and changes nothing.
    """
    with naming_extras():
        # Pages say what any error means, also one that nothing here raises.
        import rowtide.errors  # noqa: F401
        from rowtide.listening import Address
        from rowtide.monitor.databases import name_databases
        from rowtide.monitor.ring import Ring, state_folder
        from rowtide.monitor.serving import serving
        from rowtide.monitor.web.tokens import make_access

    read = configuration()
    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url] or [*read.databases]
    databases = name_databases(given, database_url)
    manager = ServiceManager.from_environment(os.environ, os.getpid())
    with (
        watching("Polling ...", log, "", "monitor", manager=manager) as stop,
        Ring.open(state_folder(os.environ)) as ring,
        serving(
            databases,
            ring,
            Address.parse(listen or read.monitor.listen),
            device_series=device_series,
            access=make_access(access, read.monitor.auth),
        ) as served,
    ):
        status = f"Serving the monitor at http://{served.address}/"
        notes.print(status, soft_wrap=True)
        manager.report_status(status)
        while not stop.wait(_BEAT_S):
            if served.is_alive():
                manager.beat()


@app.command(epilog="Example: rowtide monitor alerts > /etc/prometheus/rowtide.yml")
def alerts(
    docs: Annotated[
        str,
        Option("--docs", metavar="URL", help="Where rowtide's folder docs is published: runbook_url begins with it."),
    ] = "docs",
) -> None:
    """Print alerts for `rule_files` of Prometheus 2.42 or newer."""
    from rowtide.monitor.provided import read_alerts

    print(read_alerts(docs), end="")


@app.command(epilog="Example: rowtide monitor dashboard > rowtide.json")
def dashboard() -> None:
    """Print a dashboard to be imported into Grafana 10 or newer, with Prometheus as its source."""
    from rowtide.monitor.provided import read_dashboard

    print(read_dashboard(), end="")
