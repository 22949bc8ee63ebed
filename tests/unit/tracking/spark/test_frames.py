"""The columns of a DataFrame over tables that differ."""

from __future__ import annotations

from rowtide.databases.urls import DatabaseKind
from rowtide.tracking.changes import DeclaredColumn
from rowtide.tracking.spark.frames import FrameColumn, select_list, unite
from rowtide.tracking.spark.tasks import DeviceOutcome, TrackedColumns, read_outcome


def shape(*columns: str, kind: DatabaseKind = DatabaseKind.SQLITE) -> TrackedColumns:
    """Return a shape of columns that are written `name type`."""
    return TrackedColumns(0, kind, tuple(DeclaredColumn(*column.split(" ", 1)) for column in columns))


def names(columns: tuple[FrameColumn, ...]) -> list[str]:
    return [f"{column.name} {column.type_name}" for column in columns]


def test_the_columns_of_most_devices_come_first_in_their_order() -> None:
    few, most = shape("id int", "new text", "name text"), shape("id int", "old blob", "name text")
    assert names(unite({few: 1, most: 2})) == ["id bigint", "old binary", "name string", "new string"]


def test_most_declared_type_wins_and_a_tie_goes_by_name() -> None:
    assert names(unite({shape("v int"): 2, shape("v text", "a int"): 2, shape("v int", "a int"): 1})) == [
        "v bigint",
        "a bigint",
    ]
    assert names(unite({shape("v text"): 1, shape("v int"): 1})) == ["v bigint"]


def test_names_differing_in_case_merge_unless_a_device_has_both() -> None:
    assert names(unite({shape("Qty int"): 2, shape("qty int"): 1})) == ["Qty bigint"]
    most_by_two_shapes = {shape("Qty int"): 2, shape("qty int"): 1, shape("qty int", "id int"): 2}
    assert names(unite(most_by_two_shapes))[0] == "qty bigint"
    both = shape("qty integer", "Qty integer", kind=DatabaseKind.POSTGRESQL)
    assert names(unite({both: 1})) == ["qty int", "Qty int"]
    assert names(unite({shape("QTY int"): 2, both: 1})) == ["QTY bigint", "Qty int"]


def test_a_column_that_a_device_does_not_have_is_null() -> None:
    columns = unite({shape("id int", "name text"): 2, shape("name text"): 1})
    assert select_list(shape("name text"), columns)[2:4] == [
        "cast(null as bigint) as `id`",
        f"{select_list(shape('id int', 'name text'), columns)[3].replace('texts[1]', 'texts[0]')}",
    ]


def test_devices_of_two_kinds_share_a_type_of_equal_name() -> None:
    sqlite, postgres = shape("v text"), shape("v text", kind=DatabaseKind.POSTGRESQL)
    columns = unite({sqlite: 1, postgres: 1})
    assert names(columns) == ["v string"]
    assert select_list(postgres, columns)[2:] == ["texts[0] as `v`", "cast(null as map<string,string>) as `__$exact`"]
    assert "chr(39)" in select_list(sqlite, columns)[2]


def test_an_outcome_is_read_as_it_was_written() -> None:
    outcome = DeviceOutcome('a "device"', "1-00", None, (shape("id int", "näme text"),), (7,))
    assert read_outcome(outcome.as_record()[-1] or "") == outcome
    assert read_outcome(outcome.as_record()[-1] or "").shapes[0].part == outcome.shapes[0].part
