"""Compact-style change tracking: what changed in a database since an anchor, without a log and without Spark."""

from rowtide.core.anchors import Anchor
from rowtide.tracking.api import ChangeTracking
from rowtide.tracking.changes import Change, Changes, Operation
from rowtide.tracking.options import PurgeType, StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

__all__ = [
    "Anchor",
    "Change",
    "ChangeTracking",
    "Changes",
    "Operation",
    "PurgeType",
    "StampIndex",
    "Storage",
    "TrackedTable",
    "TrackingKeyType",
    "TrackingOptions",
]
