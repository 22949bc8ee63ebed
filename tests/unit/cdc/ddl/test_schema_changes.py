from __future__ import annotations

from dataclasses import replace

import pytest

from builders.capture.capture_instances import alteration_of, instance, shape_of, source_table
from rowtide.cdc.change_columns import find_indexes
from rowtide.cdc.ddl.schema_changes import InstanceSchemaChange, follow_alteration, follow_shape, only_widens
from rowtide.cdc.instances import Instance
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import ColumnShape, ImageKind, TableShape
from rowtide.databases.source_table import SourceColumn, SourceTable
from rowtide.log.membership import LONGEST_STATEMENT, Alteration

LSN = CommitLsn(500)
TABLE = source_table([("id", "integer"), ("name", "text")])
M1 = instance(table=TABLE)


def renumbered(table: SourceTable, *numbers: int) -> SourceTable:
    columns = (replace(column, number=number) for column, number in zip(table.columns, numbers, strict=True))
    return replace(table, columns=tuple(columns))


def named_types(made: Instance) -> list[tuple[str, str]]:
    return [(column.name, column.type_text) for column in made.columns]


def followed(made: Instance, alteration: Alteration) -> InstanceSchemaChange:
    change = follow_alteration(made, LSN, alteration)
    assert change is not None
    return change


def inferred(made: Instance, shape: TableShape) -> list[str]:
    return [change.command for change in follow_shape(made, LSN, shape)]


@pytest.mark.parametrize(
    "table",
    [
        renumbered(source_table([("id", "integer"), ("label", "text")]), 1, 2),
        source_table([("id", "integer"), ("name", "text"), ("more", "integer")]),
        renumbered(source_table([("id", "integer"), ("name", "bigint")]), 1, 5),
        source_table([("id", "integer")]),
    ],
    ids=["renamed", "added", "dropped and made again", "dropped"],
)
def test_captured_columns_keep_names_and_types_through_ddl(table: SourceTable) -> None:
    change = followed(M1, alteration_of(table, statement="alter", rewrites_values=True))
    assert named_types(change.instance) == [("id", "integer"), ("name", "text")]
    assert (change.command, change.is_inferred, change.rewrites_values) == ("alter", False, True)
    assert not change.required_column_update


def test_type_change_needs_new_column_only_if_lake_type_differs() -> None:
    wider = followed(M1, alteration_of(source_table([("id", "bigint"), ("name", "text")])))
    assert named_types(wider.instance) == [("id", "bigint"), ("name", "text")]
    assert wider.required_column_update
    shorter = source_table([("id", "integer"), ("name", "character varying(9)")])
    told = followed(M1, alteration_of(shorter))
    assert named_types(told.instance) == [("id", "integer"), ("name", "character varying(9)")]
    assert not told.required_column_update


def test_a_domain_is_held_as_what_it_is_over() -> None:
    column = replace(TABLE.columns[0], type_code=90001, type_text="public.key", base_type_text="bigint")
    altered = replace(TABLE, columns=(column, *TABLE.columns[1:]))
    assert followed(M1, alteration_of(altered)).required_column_update


@pytest.mark.parametrize(
    ("table", "statements"),
    [
        (TABLE, []),
        (source_table([("name", "text"), ("id", "integer")]), []),
        (source_table(name="t2"), ['alter table "public"."t1" rename to "public"."t2"']),
        (source_table([("id", "integer")]), ['alter table "public"."t1" drop column "name"']),
        (
            source_table([("id", "integer"), ("label", "text")]),
            ['alter table "public"."t1" drop column "name"', 'alter table "public"."t1" add column "label" text'],
        ),
        (
            source_table([("id", "bigint"), ("name", "text")]),
            ['alter table "public"."t1" alter column "id" type bigint'],
        ),
    ],
)
def test_without_a_trigger_the_difference_is_reported_by_name(table: SourceTable, statements: list[str]) -> None:
    shape = shape_of(table)
    assert inferred(M1, shape) == statements
    assert all(change.is_inferred and change.lsn == LSN for change in follow_shape(M1, LSN, shape))


def test_what_was_inferred_once_is_not_inferred_again() -> None:
    shape = shape_of(source_table([("id", "bigint"), ("label", "text")], name="t2"))
    *_, last = follow_shape(M1, LSN, shape)
    assert inferred(last.instance, shape) == []
    assert named_types(last.instance) == [("id", "bigint"), ("name", "text")]


def test_reported_ddl_is_not_inferred_again_from_later_rows() -> None:
    altered = renumbered(source_table([("id", "bigint"), ("label", "text"), ("more", "text")], name="t2"), 1, 2, 3)
    told = followed(M1, alteration_of(altered)).instance
    assert inferred(told, shape_of(altered)) == []


def test_generated_columns_may_or_may_not_be_in_the_log() -> None:
    column = SourceColumn(3, "twice", 23, -1, "integer", is_nullable=True, is_generated=True, key_ordinal=None)
    made = instance(table=replace(TABLE, columns=(*TABLE.columns, column)))
    assert inferred(made, shape_of(TABLE)) == []
    assert inferred(made, shape_of(replace(TABLE, columns=(*TABLE.columns, column)))) == []


def test_generated_column_made_ordinary_is_captured_from_then_on() -> None:
    column = SourceColumn(3, "twice", 23, -1, "integer", is_nullable=True, is_generated=True, key_ordinal=None)
    made = instance(table=replace(TABLE, columns=(*TABLE.columns, column)))
    ordinary = replace(TABLE, columns=(*TABLE.columns, replace(column, is_generated=False)))
    assert find_indexes(made, numbered_shape((1, "id"), (2, "name"), (3, "twice"))) == {"id": 0, "name": 1}
    after = followed(made, alteration_of(ordinary)).instance
    assert find_indexes(after, numbered_shape((1, "id"), (2, "name"), (3, "twice")))["twice"] == 2


def test_uninherited_parent_ddl_is_not_history_of_the_child() -> None:
    renamed_parent = replace(alteration_of(TABLE), is_inherited=True)
    assert follow_alteration(M1, LSN, renamed_parent) is None
    assert follow_alteration(M1, LSN, replace(renamed_parent, rewrites_values=True)) is not None
    more = source_table([("id", "integer"), ("name", "text"), ("more", "integer")])
    assert follow_alteration(M1, LSN, replace(alteration_of(more), is_inherited=True)) is not None


def test_uncaptured_columns_are_compared_only_if_recorded() -> None:
    made = instance(
        table=source_table([("id", "integer"), ("name", "text"), ("spare", "text")]), columns=("id", "name")
    )
    shape = replace(shape_of(TABLE), others=(ColumnShape("more", 90001, -1, is_key=False),))
    assert inferred(made, shape) == [
        'alter table "public"."t1" drop column "spare"',
        'alter table "public"."t1" add column "more" type 90001',
    ]
    assert inferred(made, replace(shape, others=None)) == []


def numbered_shape(*columns: tuple[int | None, str]) -> TableShape:
    described = tuple(ColumnShape(name, 25, -1, is_key=True, number=number) for number, name in columns)
    return TableShape(TABLE.source_id, "public", "t1", ImageKind.FULL, described)


def test_columns_match_by_number_or_by_name_without_numbers() -> None:
    assert find_indexes(M1, numbered_shape((2, "label"), (1, "name"))) == {"name": 0, "id": 1}
    assert find_indexes(M1, numbered_shape((1, "id"), (7, "name"))) == {"id": 0}
    assert find_indexes(M1, numbered_shape((None, "name"), (None, "id"))) == {"name": 0, "id": 1}


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
