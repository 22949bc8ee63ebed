"""Compact-style change tracking: a database's changes since an anchor, without its log and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.core.anchors import Anchor
    from rowtide.tracking.api import ChangeTracking, TrackingRehearsal
    from rowtide.tracking.changes import Change, NetOperation, OwnTransaction, TrackedChanges
    from rowtide.tracking.options import (
        PurgeType,
        StampIndex,
        Storage,
        TrackedTable,
        TrackingKeyType,
        TrackingOptions,
        TrackingRequest,
    )

__all__ = [
    "Anchor",
    "Change",
    "ChangeTracking",
    "NetOperation",
    "OwnTransaction",
    "PurgeType",
    "StampIndex",
    "Storage",
    "TrackedChanges",
    "TrackedTable",
    "TrackingKeyType",
    "TrackingOptions",
    "TrackingRehearsal",
    "TrackingRequest",
]

_HOMES = {
    "Anchor": "rowtide.core.anchors",
    "Change": "rowtide.tracking.changes",
    "ChangeTracking": "rowtide.tracking.api",
    "NetOperation": "rowtide.tracking.changes",
    "OwnTransaction": "rowtide.tracking.changes",
    "PurgeType": "rowtide.tracking.options",
    "StampIndex": "rowtide.tracking.options",
    "Storage": "rowtide.tracking.options",
    "TrackedChanges": "rowtide.tracking.changes",
    "TrackedTable": "rowtide.tracking.options",
    "TrackingKeyType": "rowtide.tracking.options",
    "TrackingOptions": "rowtide.tracking.options",
    "TrackingRehearsal": "rowtide.tracking.api",
    "TrackingRequest": "rowtide.tracking.options",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
