"""Scripts of several statements for SQLite."""

from __future__ import annotations

import pytest

from rowtide.replication.targets.sqlite.delivery.scripts import split

TRIGGER = "create trigger t after insert on a begin insert into b values (';'); select 1; end"


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("select 1", ["select 1"]),
        ("select 1;;\n;select ';'; ", ["select 1", "select ';'"]),
        (f"select 1; {TRIGGER}; select 2", ["select 1", TRIGGER, "select 2"]),
        ("select 1; -- nothing; more\n", ["select 1", "-- nothing; more"]),
        ("", []),
    ],
)
def test_semicolons_within_a_statement_do_not_end_it(script: str, statements: list[str]) -> None:
    assert [statement.strip() for statement in split(script)] == statements
