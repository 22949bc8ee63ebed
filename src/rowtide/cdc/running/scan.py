"""A scan by hand (SQL Server: sp_cdc_scan)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowtide.cdc.errors import ScanRunning
from rowtide.cdc.jobs.parameters import JobParameters, JobType, new_parameters
from rowtide.cdc.running.capture_run import Watchers, run_capture
from rowtide.cdc.scans.pace import ScanLimits
from rowtide.log.errors import LeaseHeld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def scan(
    url: str,
    make_spark: Callable[[], SparkSession],
    maxtrans: int | None,
    maxscans: int | None,
    stop: threading.Event,
    watchers: Watchers,
) -> None:
    """Scan in one round, until all that was committed before is published, or `maxscans` have been.

    Raises `ScanRunning`, the errors of `new_parameters`, and what `run_capture` raises.
    """
    new_parameters(JobType.CAPTURE, JobParameters(maxtrans=maxtrans, maxscans=maxscans))
    limits = ScanLimits(maxtrans, maxscans, is_continuous=False)
    try:
        run_capture(url, make_spark, stop=stop, watchers=watchers, choose_limits=lambda _of_job: limits)
    except LeaseHeld as held:
        raise ScanRunning(held.holder) from held
