"""One diagnosis of a database: what is missing, how what rowtide does works, and what remedies it.

`check`, `health` and what `status` prints on stderr are views of it. A fact is read by a module of the database's
folder or by the feature's `status`, once per command; what it means is said by pure functions, as `CheckResult`.
"""

from __future__ import annotations

from rowtide.diagnosis.codes import Area, Code
from rowtide.diagnosis.errors import LakeNotChecked, NotAPublisher, PurposeUnknown, Stopped
from rowtide.diagnosis.purpose import Purpose
from rowtide.diagnosis.result import CheckResult, Measure, State, Unit, exit_code, worst
from rowtide.diagnosis.views import check_database, read_health, require_nothing_stops

__all__ = [
    "Area",
    "CheckResult",
    "Code",
    "LakeNotChecked",
    "Measure",
    "NotAPublisher",
    "Purpose",
    "PurposeUnknown",
    "State",
    "Stopped",
    "Unit",
    "check_database",
    "exit_code",
    "read_health",
    "require_nothing_stops",
    "worst",
]
