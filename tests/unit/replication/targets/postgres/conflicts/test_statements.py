"""The statements that look for conflicts and resolve them; `golden/statements.sql` holds what is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable
from rowtide.replication.targets.postgres.conflicts import former_values, released_values, statements
from rowtide.replication.targets.postgres.conflicts.statements import UniqueIndex, UsedColumn

GOLDEN = Path(__file__).with_name("golden") / "statements.sql"
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
LINES = article(
    source_table(
        [("line", "integer"), ("quantity", "numeric(10,2)"), ("of_order", "bigint")],
        schema="sales",
        name="lines",
        key=("of_order", "line"),
    )
)
ODD = article(
    source_table(
        [('it\'s "the" $1', "text"), ("100%", 'public."Größe"')],
        schema="Sales:eu",
        name='"O\'Brien"',
        key=('it\'s "the" $1',),
    )
)
CODE = UniqueIndex(('"quantity"',))
NULLS = UniqueIndex(('"100%"',), nulls_distinct=False)
FEW = UniqueIndex(
    ('lower("it\'s ""the"" $1")', '"100%"'),
    condition='"100%" is not null',
    operators=("operator(pg_catalog.=)", "operator(public.=)"),
    used=(UsedColumn('it\'s "the" $1', 'pg_catalog."C"'), UsedColumn("100%", None)),
)
TABLE = WrittenTable()
CASES: dict[str, Callable[[], str]] = {
    "find, insert": lambda: statements.find(LINES, INSERT, [CODE], TABLE, has_versions=False),
    "find, update": lambda: statements.find(ODD, UPDATE, [NULLS], TABLE, has_versions=True),
    "find, delete": lambda: statements.find(LINES, DELETE, [CODE], TABLE, has_versions=False),
    "find, by a partial index": lambda: statements.find(ODD, INSERT, [FEW], TABLE, has_versions=False),
    "insert": lambda: statements.change(LINES, INSERT, TABLE),
    "update": lambda: statements.change(ODD, UPDATE, TABLE),
    "delete": lambda: statements.change(LINES, DELETE, TABLE),
    "overwrite": lambda: statements.overwrite(LINES, TABLE),
    "delete another row": lambda: statements.delete_row(LINES, TABLE),
    "delete older rows": lambda: statements.delete_older(ODD),
    "truncate": lambda: statements.truncate(ODD),
    "find a deleted key": lambda: former_values.find_deleted(LINES),
    "record a deleted key": lambda: former_values.record_deleted(ODD),
    "find when all was deleted": lambda: former_values.find_all(LINES),
    "record that all was deleted": lambda: former_values.record_all(LINES),
    "triggers": lambda: ";\n".join(former_values.trigger_steps(LINES)),
    "record a row that gave way": lambda: former_values.record_displaced(ODD),
    "find released values": lambda: released_values.find_released(LINES, [CODE]),
    "find released values of a partial index": lambda: released_values.find_released(ODD, [FEW]),
    "record a value of a hidden row": lambda: released_values.record_released(ODD, NULLS),
    "body of the trigger on released values": lambda: released_values.released_body(LINES, [CODE]),
    "body of the trigger on odd values": lambda: released_values.released_body(ODD, [NULLS, FEW]),
    "record a value of a partial index": lambda: released_values.record_released(ODD, FEW),
}


@pytest.mark.parametrize("case", CASES)
def test_the_statement_is_the_golden_one(case: str) -> None:
    assert CASES[case]().strip("\n") == read_sections(GOLDEN)[case]


def test_every_golden_section_is_compared() -> None:
    assert list(read_sections(GOLDEN)) == list(CASES)
