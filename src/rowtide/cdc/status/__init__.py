"""How change data capture stands in a database: read without Spark, changing nothing.

Commands print it, `rowtide.diagnosis` checks it.
"""

from __future__ import annotations

from rowtide.cdc.status.capture import CaptureStatus, CleanupStatus, read_capture_status, read_cleanup_status
from rowtide.cdc.status.database import Status, capture_lag_s, read_status, unpublished_segments

__all__ = [
    "CaptureStatus",
    "CleanupStatus",
    "Status",
    "capture_lag_s",
    "read_capture_status",
    "read_cleanup_status",
    "read_status",
    "unpublished_segments",
]
