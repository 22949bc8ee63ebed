"""A scan by hand (SQL Server: sp_cdc_scan)."""

from __future__ import annotations

from rowtide.cdc.errors import ScanRunning
from rowtide.cdc.jobs.parameters import JobParameters, JobType, new_parameters
from rowtide.cdc.running.capture_run import run_capture
from rowtide.cdc.running.context import CaptureContext
from rowtide.cdc.scans.pace import ScanLimits
from rowtide.log.errors import LeaseHeld


def scan(context: CaptureContext, maxtrans: int | None, maxscans: int | None) -> None:
    """Scan in one round, until all that was committed before is published, or `maxscans` have been.

    Raises `ScanRunning`, the errors of `new_parameters`, and what `run_capture` raises.
    """
    new_parameters(JobType.CAPTURE, JobParameters(maxtrans=maxtrans, maxscans=maxscans))
    limits = ScanLimits(maxtrans, maxscans, is_continuous=False)
    try:
        run_capture(context, lambda _of_job: limits)
    except LeaseHeld as held:
        raise ScanRunning(held.holder) from held
