"""`rowtide cdc`: the last scans and their errors."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db
from rowtide.handle import connect

app = CommandTable()


@listing(
    app,
    epilog="Example: rowtide cdc sessions --format csv --db postgresql://localhost/shop",
    columns="start_time, duration as seconds, tran_count as transactions, command_count as commands, "
    "latency as latency_s, error_count as errors",
)
def sessions(db: Db) -> Listed:
    """List the last 32 scans, newest first, after their total (SQL Server: sys.dm_cdc_log_scan_sessions).

    Capture writes them at most every ten seconds.
    """
    from rowtide.cdc.scans.sessions import ScanSession

    return ScanSession, connect(db).cdc.list_scan_sessions()


@listing(
    app,
    epilog="Example: rowtide cdc errors --db postgresql://localhost/shop",
    columns="session_id as session, entry_time, error_number as number, error_message as error",
)
def errors(db: Db) -> Listed:
    """List the errors of the last 32 scans, newest first (SQL Server: sys.dm_cdc_errors)."""
    from rowtide.cdc.scans.sessions import ScanError

    return ScanError, connect(db).cdc.list_scan_errors()
