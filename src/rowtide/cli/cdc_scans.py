"""`rowtide cdc`: the last scans and their errors."""

from __future__ import annotations

import typer

from rowtide.cli.cdc_listings import print_listed
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output import Format
from rowtide.handle import connect

app = typer.Typer()


@app.command(epilog="Example: rowtide cdc sessions --format csv --db postgresql://localhost/shop")
def sessions(db: Db, form: ListingFormat = Format.TABLE) -> None:
    """List the last 32 scans, their sum first, then the newest (SQL Server: sys.dm_cdc_log_scan_sessions).

    Capture writes them at most every ten seconds.
    """
    from rowtide.cdc.scans.sessions import ScanSession

    print_listed(ScanSession, connect(db).cdc.log_scan_sessions(), form)


@app.command(epilog="Example: rowtide cdc errors --db postgresql://localhost/shop")
def errors(db: Db, form: ListingFormat = Format.TABLE) -> None:
    """List the errors of the last 32 scans, the newest first (SQL Server: sys.dm_cdc_errors)."""
    from rowtide.cdc.scans.sessions import ScanError

    print_listed(ScanError, connect(db).cdc.log_scan_errors(), form)
