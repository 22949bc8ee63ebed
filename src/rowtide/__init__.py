"""rowtide: SQL Server's change-data family for PostgreSQL and SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.cdc.consumers.consuming import Window
    from rowtide.cdc.queries.windows import ValidityInterval
    from rowtide.core.anchors import Anchor
    from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError
    from rowtide.core.lsn import CommitLsn, Position
    from rowtide.diagnosis import CheckResult, Code, Measure, Purpose, State
    from rowtide.diagnosis.result import Remediation
    from rowtide.handle import (
        Database,
        DatabaseRehearsal,
        connect,
        copy_lake,
        device,
        open_lake,
        register,
        register_source,
    )
    from rowtide.lake.session import build_session
    from rowtide.relocation.adopting import Adoption
    from rowtide.relocation.copying import Copied, CopyProgress

__all__ = [
    "Adoption",
    "AlreadyExists",
    "Anchor",
    "CheckResult",
    "Code",
    "CommitLsn",
    "Copied",
    "CopyProgress",
    "DataLoss",
    "Database",
    "DatabaseRehearsal",
    "Denied",
    "Invalid",
    "Measure",
    "NotFound",
    "Position",
    "Purpose",
    "Remediation",
    "Retryable",
    "RowtideError",
    "State",
    "ValidityInterval",
    "Window",
    "build_session",
    "connect",
    "copy_lake",
    "device",
    "open_lake",
    "register",
    "register_source",
]

_HOMES = {
    "Adoption": "rowtide.relocation.adopting",
    "AlreadyExists": "rowtide.core.errors",
    "Anchor": "rowtide.core.anchors",
    "CheckResult": "rowtide.diagnosis",
    "Code": "rowtide.diagnosis",
    "CommitLsn": "rowtide.core.lsn",
    "Copied": "rowtide.relocation.copying",
    "CopyProgress": "rowtide.relocation.copying",
    "DataLoss": "rowtide.core.errors",
    "Database": "rowtide.handle",
    "DatabaseRehearsal": "rowtide.handle",
    "Denied": "rowtide.core.errors",
    "Invalid": "rowtide.core.errors",
    "Measure": "rowtide.diagnosis",
    "NotFound": "rowtide.core.errors",
    "Position": "rowtide.core.lsn",
    "Purpose": "rowtide.diagnosis",
    "Remediation": "rowtide.diagnosis.result",
    "Retryable": "rowtide.core.errors",
    "RowtideError": "rowtide.core.errors",
    "State": "rowtide.diagnosis",
    "ValidityInterval": "rowtide.cdc.queries.windows",
    "Window": "rowtide.cdc.consumers.consuming",
    "build_session": "rowtide.lake.session",
    "connect": "rowtide.handle",
    "copy_lake": "rowtide.handle",
    "device": "rowtide.handle",
    "open_lake": "rowtide.handle",
    "register": "rowtide.handle",
    "register_source": "rowtide.handle",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
