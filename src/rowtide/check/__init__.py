"""The check of a database: every finding, and what of its health is not well."""

from __future__ import annotations

from rowtide.check.checking import check_database, require_nothing_stops
from rowtide.check.errors import LakeNotJudged, NotAPublisher, PurposeUnknown, Stopped
from rowtide.findings.purpose import Purpose

__all__ = [
    "LakeNotJudged",
    "NotAPublisher",
    "Purpose",
    "PurposeUnknown",
    "Stopped",
    "check_database",
    "require_nothing_stops",
]
