"""`rowtide monitor`: metrics for Prometheus, alerts on them, and a dashboard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

from rowtide.cli.active_configuration import ChangingFile, configuration, database_url
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import MonitoredDb
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import watching
from rowtide.configuration.settings import Configuration, MonitorValues
from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.events.catalogue import ConfigurationNotReadAgain
from rowtide.events.configuration import LogOptions
from rowtide.events.event import emit
from rowtide.monitor.web.access import AccessOptions
from rowtide.systemd import ServiceManager

app = CommandTable()
_BEAT_S = 1.0


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
        bool, Option("--device-series", help="A series for each subscriber of a merge, however many there are.")
    ] = False,
    access: AccessOptions,
    log: LogOptions,
) -> None:
    """Poll databases every 15 seconds, and serve the results as pages and as metrics for Prometheus, until stopped.

    / is the first page, /metrics has the metrics, /healthz answers while the monitor works, /readyz says whether each
    database was read within the last minute. A day of samples, and the counters, are in monitor.db in $STATE_DIRECTORY,
    by default in ~/.local/state/rowtide. Needs no Spark, contacts no subscriber and changes nothing.
    """
    with naming_extras():
        # Pages say what any error means, also one that nothing here raises.
        import rowtide.errors
        import rowtide.monitor.serving  # noqa: F401
    read = configuration()
    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url] or [*read.databases]
    _serve(given, read, Address.parse(listen or read.monitor.listen), access, log, device_series=device_series)


def _serve(
    given: Sequence[str],
    read: Configuration,
    address: Address,
    access: AccessOptions,
    log: LogOptions,
    *,
    device_series: bool,
) -> None:
    from rowtide.monitor.databases import OperatorUrls, find_audit_days, find_operator_urls, name_databases
    from rowtide.monitor.ring import Ring, state_folder
    from rowtide.monitor.serving import serving
    from rowtide.monitor.web.access import Operating, make_access

    databases = name_databases(given, database_url)
    changing = ChangingFile()
    operator_urls = OperatorUrls(find_operator_urls(databases, read.databases))
    audit_days = find_audit_days(databases, read.databases)
    operating = Operating(
        urls=operator_urls,
        audit_days=audit_days,
        allows_actions=access.allow_actions,
        shows_values=access.show_values or read.monitor.values is MonitorValues.OPERATORS,
    )
    manager = ServiceManager.from_environment(os.environ, os.getpid())
    with (
        watching("Polling ...", log, "", "monitor", manager=manager) as stop,
        Ring.open(state_folder(os.environ)) as ring,
        serving(
            databases,
            ring,
            address,
            device_series=device_series,
            access=make_access(access, read.monitor.auth),
            operating=operating,
        ) as served,
    ):
        status = f"Serving the monitor at http://{served.address}/"
        notes.print(status, soft_wrap=True)
        manager.report_status(status)
        while not stop.wait(_BEAT_S):
            # If a poll has ended, the watchdog is not notified, and restarts the monitor: its pages would be stale.
            if served.is_alive():
                manager.beat()
            found = _read_again(changing)
            if found is not None:
                operator_urls.replace(find_operator_urls(databases, found.databases))
                audit_days.update(find_audit_days(databases, found.databases))


def _read_again(changing: ChangingFile) -> Configuration | None:
    """Return the configuration if the file has changed; one that cannot be read leaves the present one in force."""
    try:
        return changing.read_again()
    except RowtideError as error:
        emit(ConfigurationNotReadAgain(error))
        return None


@app.command(epilog="Example: rowtide monitor alerts > /etc/prometheus/rowtide.yml")
def alerts(
    docs: Annotated[
        str,
        Option("--docs", metavar="URL", help="Where rowtide's folder docs is published: runbook_url begins with it."),
    ] = "docs",
) -> None:
    """Print alerts for `rule_files` of Prometheus 2.42 or newer."""
    from rowtide.monitor.provided_files import read_alerts

    print(read_alerts(docs), end="")


@app.command(epilog="Example: rowtide monitor dashboard > rowtide.json")
def dashboard() -> None:
    """Print a dashboard to be imported into Grafana 10 or newer, with Prometheus as its source."""
    from rowtide.monitor.provided_files import read_dashboard

    print(read_dashboard(), end="")
