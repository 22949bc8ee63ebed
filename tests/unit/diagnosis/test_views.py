from __future__ import annotations

import pytest

from builders.commands.check_facts import database, place, server
from rowtide.diagnosis import CheckResult, Code, State, Stopped, require_nothing_stops
from rowtide.diagnosis.postgres.views import find


def test_the_worst_comes_first() -> None:
    facts = database(server=server(version=15, wal_level="replica"), places=(place(free_bytes=0),))
    assert [(finding.state, finding.subject) for finding in find(facts)] == [
        (State.FAILING, "server"),
        (State.WARNING, "server"),
        (State.WARNING, "lake"),
        (State.HEALTHY, "server"),
    ]


def test_only_stopping_findings_raise_with_each_subject_once() -> None:
    findings = [CheckResult(Code.DISK_FULL_SOON, State.WARNING, "lake", "it is nearly full")]
    require_nothing_stops(findings)
    failing = ("server", "role app", "server")
    findings += [CheckResult(Code.WAL_LEVEL_LOW, State.FAILING, subject, "it is not") for subject in failing]
    with pytest.raises(Stopped, match="RT-5101: work is stopped by server, role app"):
        require_nothing_stops(findings)
