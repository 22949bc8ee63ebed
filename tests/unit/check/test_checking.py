from __future__ import annotations

import pytest

from builders.commands.check_facts import database, place, server
from rowtide.check import Stopped, require_nothing_stops
from rowtide.check.postgres.checking import find
from rowtide.findings.finding import Finding, Severity


def test_the_worst_comes_first() -> None:
    facts = database(server=server(version=15, wal_level="replica"), places=(place(free_bytes=0),))
    assert [(finding.severity, finding.subject) for finding in find(facts)] == [
        (Severity.STOPS, "server"),
        (Severity.WARNS, "server"),
        (Severity.WARNS, "lake"),
        (Severity.TELLS, "server"),
    ]


def test_only_stopping_findings_raise_with_each_subject_once() -> None:
    findings = [Finding(Severity.WARNS, "lake", "it is nearly full")]
    require_nothing_stops(findings)
    findings += [Finding(Severity.STOPS, subject, "it is not") for subject in ("server", "role app", "server")]
    with pytest.raises(Stopped, match="RT-5101: work is stopped by server, role app"):
        require_nothing_stops(findings)
