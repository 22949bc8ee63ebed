"""Which statements that rewrite a table leave every value as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.capture.capture_instances import alteration_of, instance, source_table
from rowtide.cdc.ddl.widenings import only_widens
from rowtide.cdc.instances import Instance
from rowtide.log.alterations import LONGEST_STATEMENT, Alteration

CODES = {
    "smallint": 21,
    "integer": 23,
    "bigint": 20,
    "real": 700,
    "double precision": 701,
    "text": 25,
    "oid": 26,
    "date": 1082,
    "timestamp without time zone": 1114,
}
STATEMENT = "alter table t1 alter value type wider"


def stated(statement: str) -> Alteration:
    return alteration_of(source_table([("id", "integer")]), statement=statement, rewrites_values=True)


def with_type(type_text: str) -> Instance:
    made = instance(table=source_table([("id", "integer"), ("value", "integer")]))
    # Only their differences count.
    modifier = sum(type_text.encode()) if "(" in type_text else -1
    identifier, value = made.columns
    new = replace(value, type_text=type_text, type_code=CODES.get(type_text, 1700), type_modifier=modifier)
    return replace(made, columns=(identifier, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("smallint", "integer"),
        ("smallint", "bigint"),
        ("integer", "bigint"),
        ("integer", "double precision"),
        ("integer", "numeric(12,2)"),
        ("real", "double precision"),
        ("numeric(4,1)", "numeric(9,2)"),
        ("integer", "integer"),
    ],
)
def test_numbers_in_wider_types_are_as_they_were(old: str, new: str) -> None:
    assert only_widens(with_type(old), with_type(new), stated(STATEMENT))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "integer"),
        ("bigint", "double precision"),
        ("integer", "real"),
        ("integer", "numeric(9,2)"),
        ("integer", "numeric"),
        ("integer", "oid"),
        ("integer", "text"),
        ("text", "integer"),
        ("double precision", "real"),
        ("numeric(9,2)", "numeric(9,3)"),
        ("numeric(9,2)", "numeric(12,1)"),
        ("date", "timestamp without time zone"),
    ],
)
def test_other_changes_of_types_may_change_values(old: str, new: str) -> None:
    assert not only_widens(with_type(old), with_type(new), stated(STATEMENT))


@pytest.mark.parametrize(
    ("statement", "says_all"),
    [
        (" ALTER TABLE t1 ALTER value TYPE bigint ; ", True),
        ("alter table t1\n  alter value set data type bigint, add column more int", True),
        ("alter table t1 alter value type bigint using value * 2", False),
        ("alter table t1 alter value type bigint USING(value)", False),
        ("alter table t1 alter id type int; alter table t1 alter value type bigint", False),
        ("select widen()", False),
        ("do $$ begin alter table t1 alter value type bigint; end $$", False),
        ("alter table t1 alter value type bigint --" + LONGEST_STATEMENT * "-", False),
    ],
)
def test_only_a_statement_by_itself_says_all_that_ran(statement: str, *, says_all: bool) -> None:
    assert only_widens(with_type("integer"), with_type("bigint"), stated(statement)) is says_all
