"""The SQL that makes and ends members, as a DBA reads it; `golden/membership_statements.sql` holds what is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Executable
from sqlalchemy.dialects import postgresql

from rowtide.core.tables import BeforeImages
from rowtide.databases.source_table import SourceTable, TableKind, TablePartition
from rowtide.log.membership import Member
from rowtide.log.postgres.membership import (
    FULL_IDENTITY,
    EarlierIdentity,
    announce_disabled,
    announce_enabled,
    join_steps,
    leave_steps,
    lock_steps,
    unregister_step,
)
from rowtide.log.postgres.table_publications import PublicationCreation, Publishing
from rowtide.log.source_definition import SourceDefinition

GOLDEN = Path(__file__).with_name("golden") / "membership_statements.sql"
HEADING = "-- "

SOURCE = SourceDefinition(
    source_id="s1",
    system_identifier="7001",
    publication='Rowtide "5"',
    publication_id=99,
    slot="rowtide_5",
    log_store="/log",
    lake="/lake",
)


def table(schema: str, name: str, identity: str = "d", identity_index: str | None = None) -> SourceTable:
    return SourceTable(16385, schema, name, TableKind.ORDINARY, identity, identity_index, "pk", ())


def member_of(table: SourceTable) -> Member:
    columns = ("id", "it's 5%: :b\\")
    return Member("m1", "cdc", "sales_orders", table.source_id, table.schema, table.name, columns, '{"role": null}')


UNPUBLISHED = Publishing(with_others=False, making=PublicationCreation(18))
PUBLISHED = Publishing(with_others=True, making=None)
PLAIN = table("sales", "orders")
ODD = table("Sales:eu", '100% "O\'Brien"::Orders')
INDEXED = table("sales", "orders", "i", "orders_code_key")
FULL = table("sales", "orders", FULL_IDENTITY)
PARTITIONED = replace(
    PLAIN,
    kind=TableKind.PARTITIONED,
    partitions=(
        TablePartition(16390, "sales", "inner", TableKind.PARTITIONED, "d", None),
        TablePartition(16391, "sales", "orders_1", TableKind.ORDINARY, "n", None),
        TablePartition(16392, "sales", "orders_2", TableKind.ORDINARY, FULL_IDENTITY, None),
    ),
)
CASES: dict[str, Sequence[Executable]] = {
    "lock": lock_steps(PLAIN),
    "lock, odd name": lock_steps(ODD),
    "join the first time": join_steps(SOURCE, PLAIN, member_of(PLAIN), BeforeImages.FULL, publishing=UNPUBLISHED),
    "join the first time, odd name": join_steps(SOURCE, ODD, member_of(ODD), BeforeImages.FULL, publishing=UNPUBLISHED),
    "join with an index as identity": join_steps(
        SOURCE, INDEXED, member_of(INDEXED), BeforeImages.FULL, publishing=UNPUBLISHED
    ),
    "join beside another member": join_steps(SOURCE, FULL, member_of(FULL), BeforeImages.FULL, publishing=PUBLISHED),
    "join where others dropped its own publication": join_steps(
        SOURCE,
        FULL,
        member_of(FULL),
        BeforeImages.FULL,
        publishing=replace(PUBLISHED, making=PublicationCreation(18, "O'Brien")),
    ),
    "join on PostgreSQL 16": join_steps(
        SOURCE,
        FULL,
        member_of(FULL),
        BeforeImages.FULL,
        publishing=replace(UNPUBLISHED, making=PublicationCreation(16)),
    ),
    "join for keys": join_steps(SOURCE, PLAIN, member_of(PLAIN), BeforeImages.KEY, publishing=PUBLISHED),
    "join for keys with an index as identity": join_steps(
        SOURCE, INDEXED, member_of(INDEXED), BeforeImages.KEY, publishing=PUBLISHED
    ),
    "join for keys of an index": join_steps(
        SOURCE, PLAIN, member_of(PLAIN), BeforeImages.KEY, publishing=PUBLISHED, key_index='by "code"'
    ),
    "join for keys of the index that is the identity": join_steps(
        SOURCE, INDEXED, member_of(INDEXED), BeforeImages.KEY, publishing=PUBLISHED, key_index="orders_code_key"
    ),
    "join for keys beside full images": join_steps(
        SOURCE, FULL, member_of(FULL), BeforeImages.KEY, publishing=PUBLISHED
    ),
    "join as a partitioned table": join_steps(
        SOURCE, PARTITIONED, member_of(PARTITIONED), BeforeImages.FULL, publishing=UNPUBLISHED
    ),
    "leave": leave_steps(SOURCE, PLAIN, [EarlierIdentity("sales", "orders", "default")], 16385),
    "leave, odd name": leave_steps(
        SOURCE, ODD, [EarlierIdentity("Sales:eu", '100% "O\'Brien"::Orders', "using index k")], 16385
    ),
    "leave, identity never changed": leave_steps(SOURCE, PLAIN, [], 16385),
    "leave a dropped table": leave_steps(SOURCE, None, [EarlierIdentity("sales", "detached", "nothing")], 16385),
    "unregister": [unregister_step("it's m1")],
    "announce enabled": [announce_enabled(member_of(PLAIN))],
    "announce enabled, odd name": [announce_enabled(member_of(ODD))],
    "announce disabled": [announce_disabled("it's m1")],
}


def printed(steps: Sequence[Executable]) -> str:
    return "".join(f"{_compiled(step)};\n" for step in steps)


def _compiled(step: Executable) -> str:
    # A parameter style without percent signs: with "pyformat" a name's own would be doubled.
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    text = str(cast("Any", step).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return "\n".join(line.rstrip() for line in text.splitlines())


def expected() -> dict[str, str]:
    """Return the golden file's sections by their headings."""
    sections = ("\n" + GOLDEN.read_text()).split("\n" + HEADING)[1:]
    split = (section.partition("\n") for section in sections)
    return {heading: statements.strip("\n") + "\n" for heading, _, statements in split}


@pytest.mark.parametrize("case", CASES)
def test_the_statements_are_the_golden_ones(case: str) -> None:
    assert printed(CASES[case]) == expected()[case]


def test_every_golden_section_is_compared() -> None:
    assert list(expected()) == list(CASES)
