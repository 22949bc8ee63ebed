"""The diagnosis of a database: what is missing, the state of what rowtide does, and remediations.

`check`, `health` and what `status` prints on stderr are views of it. A fact is read by a module of the database's
folder or by the feature's `status`, once per command; what it means is said by pure functions, as `CheckResult`.

A subject is healthy only if its facts were read; an answer that omits something would be read as "healthy". So what
could not be read is unknown, and counts as a warning, and so does a database in which nothing is enabled: a URL of the
wrong database would be green for ever. An error while an area is read is a fact of that area; the others are still
checked. Five minutes are late: short enough for a probe, longer than a restart. Errors count until the log was read on,
so that nobody has to acknowledge them. Subscribers are not asked, because a probe has to answer while they are away.

A result is identified by its code and subject, so messages may improve. A code is no severity, and is never used again
for something else.
"""

from __future__ import annotations

from rowtide.diagnosis.codes import Area, Code
from rowtide.diagnosis.errors import LakeNotChecked, NotAPublisher, Stopped
from rowtide.diagnosis.result import CheckResult, Measure, State, Unit, exit_code, worst
from rowtide.diagnosis.views import check_database, read_health, require_nothing_stops
from rowtide.rights.errors import PurposeUnknown
from rowtide.rights.purpose import Purpose

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
