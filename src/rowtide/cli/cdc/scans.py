"""`rowtide cdc`: the last scans and their errors."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, print_listed
from rowtide.handle import connect

app = CommandTable()

_SCAN_SESSION = {
    "start_time": "start_time",
    "seconds": "duration",
    "transactions": "tran_count",
    "commands": "command_count",
    "latency_s": "latency",
    "errors": "error_count",
}
_SCAN_ERROR = {"session": "session_id", "entry_time": "entry_time", "number": "error_number", "error": "error_message"}


@app.command(epilog="Example: rowtide cdc sessions --format csv --db postgresql://localhost/shop")
def sessions(db: Db, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False) -> None:
    """List the last 32 scans, newest first, after their total (SQL Server: sys.dm_cdc_log_scan_sessions).

    Capture writes them at most every ten seconds.
    """
    from rowtide.cdc.scans.sessions import ScanSession

    print_listed(ScanSession, connect(db).cdc.list_scan_sessions(), form, _SCAN_SESSION, wide=wide)


@app.command(epilog="Example: rowtide cdc errors --db postgresql://localhost/shop")
def errors(db: Db, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False) -> None:
    """List the errors of the last 32 scans, newest first (SQL Server: sys.dm_cdc_errors)."""
    from rowtide.cdc.scans.sessions import ScanError

    print_listed(ScanError, connect(db).cdc.list_scan_errors(), form, _SCAN_ERROR, wide=wide)
