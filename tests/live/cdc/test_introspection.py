"""What sp_cdc_help_change_data_capture and sp_cdc_get_captured_columns tell, here without Spark."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.cdc.errors.enabling import TableNameIncomplete
from rowtide.cdc.errors.querying import InstanceNotReadable

TYPES = (
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric",
    "numeric(12,2)",
    "character varying",
    "character varying(20)",
    "character(5)",
    "text",
    "bit(3)",
    "bit varying(7)",
    "boolean",
    "bytea",
    "uuid",
    "date",
    "time(2) without time zone",
    "time with time zone",
    "timestamp without time zone",
    "timestamp(3) with time zone",
    "interval",
    "interval(2)",
    "interval day to second(4)",
    "jsonb",
    '"char"',
)


def test_types_are_described_as_in_the_information_schema(logged: LoggedDatabase) -> None:
    columns = ", ".join(f"c{number} {type_text}" for number, type_text in enumerate(TYPES, 1))
    logged.execute(f"create table item (gone int, {columns})", "alter table item drop column gone")
    logged.enable("item")
    listed = [
        (
            column.column_name,
            column.column_id,
            column.data_type,
            column.character_maximum_length,
            column.numeric_precision,
            column.numeric_precision_radix,
            column.numeric_scale,
            column.datetime_precision,
        )
        for column in logged.cdc.get_captured_columns("public_item")
    ]
    assert listed == logged.execute(
        "select column_name, ordinal_position, data_type, character_maximum_length, numeric_precision, "
        "numeric_precision_radix, numeric_scale, datetime_precision from information_schema.columns "
        "where table_name = 'item' order by ordinal_position"
    )


def test_ordinals_are_those_of_the_column_list(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, left_out text, tags text[])")
    logged.enable()
    logged.cdc.enable_table("item", columns=("tags", "id"))
    columns = logged.cdc.get_captured_columns("public_item")
    assert [(column.column_name, column.column_id, column.column_ordinal) for column in columns] == [
        ("id", 1, 1),
        ("tags", 3, 2),
    ]
    assert columns[1].data_type == "text[]"
    assert [logged.cdc.get_column_ordinal("public_item", name) for name in ("tags", "left_out")] == [2, None]
    with pytest.raises(InstanceNotReadable):
        logged.cdc.get_captured_columns("public_nothing")


def test_instances_are_listed_of_all_tables_or_of_one(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)", "create table other (id int)")
    logged.enable("item", "other")
    logged.cdc.enable_table("item", capture_instance="second")
    names = ["public_item", "public_other", "second"]
    assert [listed.capture_instance for listed in logged.cdc.list_instances()] == names
    of_item = logged.cdc.list_instances("public", "item")
    assert [listed.capture_instance for listed in of_item] == ["public_item", "second"]
    ((oid,),) = logged.execute("select 'item'::regclass::oid::int8")
    assert {listed.source_object_id for listed in of_item} == {oid}
    assert logged.cdc.list_instances("public", "other")[0].index_column_list is None
    for half in (("public", None), (None, "item")):
        with pytest.raises(TableNameIncomplete, match="RT-22972"):
            logged.cdc.list_instances(*half)
