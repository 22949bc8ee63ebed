from __future__ import annotations

import shlex

import pytest

from builders.check_facts import database, place, server
from rowtide.monitor.check import require_nothing_stops
from rowtide.monitor.errors import Stopped
from rowtide.monitor.findings import Finding, Severity, Sql, set_and_reload, shell
from rowtide.monitor.postgres.check import find


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


def test_statements_print_on_one_line_with_note_as_comment() -> None:
    assert str(set_and_reload("a", "0")) == "alter system set a = 0; select pg_reload_conf(); -- as a superuser"
    assert str(Sql(("select 1;",))) == "select 1;"


def test_a_command_is_read_by_the_shell_as_it_was_meant() -> None:
    words = ["rowtide", "cdc", "enable-table", '"it\'s"."a b"', "--columns", "$x,`y`"]
    assert shlex.split(str(shell(*words))) == words
