"""Delta's schema becomes Arrow's, and the one that data files have."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from rowtide.delta.data_files import Between
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import (
    NULL_FOLDER,
    Field,
    Primitive,
    TextUnfit,
    TypeUnknown,
    constants_of,
    folder_of,
    parse_schema,
    split_rows,
)


def field(name: str, kind: Any, number: int | None = None, *, nullable: bool = True) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": mapped if number is not None else {}}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": fields})


NESTED = {"type": "array", "containsNull": True, "elementType": {"type": "struct", "fields": [field("x", "long", 2)]}}
MAP = {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("long", pa.int64()),
        ("byte", pa.int8()),
        ("decimal(38,18)", pa.decimal128(38, 18)),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("void", pa.null()),
    ],
)
def test_a_type_has_its_counterpart(name: str, kind: pa.DataType) -> None:
    assert parse_schema(schema(field("a", name)), is_mapped=False).schema == pa.schema({"a": kind})


def test_names_in_files_count_only_where_columns_are_mapped() -> None:
    text = schema(field("a b", NESTED, 1), field("m", MAP, 3))
    mapped, plain = (parse_schema(text, is_mapped=is_mapped) for is_mapped in (True, False))
    assert mapped.schema == plain.schema
    assert mapped.schema.names == ["a b", "m"]
    assert mapped.file_schema.names == ["col-1", "col-3"]
    assert plain.file_schema.names == ["a b", "m"]
    assert str(mapped.file_schema.field(0).type) == "list<element: struct<col-2: int64>>"
    assert mapped.file_schema.field(1).metadata == {b"PARQUET:field_id": b"3"}


@pytest.mark.parametrize(
    ("kind", "name"), [("variant", "variant"), ("interval day", "interval day"), ({"type": "udt"}, "udt")]
)
def test_an_unknown_type_is_named(kind: Any, name: str) -> None:
    with pytest.raises(TypeUnknown, match=f"^{name}$"):
        parse_schema(schema(field("a", kind)), is_mapped=False)


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("", ValueError, "Expecting value"),
        ("[]", TypeError, "list indices"),
        ("{}", KeyError, "fields"),
        ('{"fields": [{"name": "a"}]}', KeyError, "type"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        parse_schema(text, is_mapped=False)


VALUES: dict[str, tuple[Any, list[Any]]] = {
    "number": (pa.int64(), [-(2**63), 0, 7, None]),
    "small": (pa.int16(), [-1, 300]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(1, 1, 1), date(2026, 11, 29), date(9999, 12, 31), None]),
    "text": (pa.string(), ["a", " ", "null", "a/b=c", "é\n%20", "0", None]),
}


def fields(*kinds: Any) -> list[Field]:
    return [
        Field(f"c {place}", Primitive(kind), is_nullable=True, physical_name=f"f{place}", field_id=None, metadata={})
        for place, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_from_their_texts(name: str) -> None:
    kind, values = VALUES[name]
    rows = pa.table({"c 0": pa.array([*values, *values], kind), "row": list(range(2 * len(values)))})
    wanted = fields(kind)
    found = {}
    for texts, part in split_rows(rows, wanted):
        value = constants_of(wanted, texts)["f0"]
        assert value.type == kind
        assert part["c 0"].to_pylist() == [value.as_py()] * 2
        found[value.as_py()] = part["row"].to_pylist()
    assert found == {value: [place, place + len(values)] for place, value in enumerate(values)}


def test_a_folder_has_the_texts_of_its_partition() -> None:
    values = {"a": "x/y=z%", "b/c": "é .", "d": None, "e": ""}
    assert folder_of(values) == f"a=x%2Fy%3Dz%25/b%2Fc=%C3%A9%20./d={NULL_FOLDER}/e={NULL_FOLDER}/"
    assert folder_of({"a": "x" * 253}) == f"a={'x' * 253}/"
    assert folder_of({"a": "x" * 254}) == ""


def test_partitions_of_two_columns_are_told_apart() -> None:
    rows = pa.table({"c 0": [1, 2, 1, None, 1], "c 1": ["x", "x", "y", "x", "x"], "row": range(5)})
    parts = [
        (*texts.values(), part["row"].to_pylist()) for texts, part in split_rows(rows, fields(pa.int64(), pa.string()))
    ]
    assert sorted(parts, key=repr) == [("1", "x", [0, 4]), ("1", "y", [2]), ("2", "x", [1]), (None, "x", [3])]
    assert list(split_rows(rows.slice(0, 0), fields(pa.int64(), pa.string()))) == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (pa.array(["a", ""]), "an empty text"),
        (pa.array(["a", "é" * 50]), "a text is too long"),
        (pa.array([NULL_FOLDER]), "one that stands for null"),
        (pa.array([3_000_000], pa.date32()), "a date is not in the years from 0 to 9999"),
        (pa.array([-800_000], pa.date32()), "a date is not in the years from 0 to 9999"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(values: Any, problem: str) -> None:
    with pytest.raises(TextUnfit, match=f"column c 0: .*{problem}"):
        list(split_rows(pa.table({"c 0": values}), fields(values.type)))


@pytest.mark.parametrize(
    ("text", "low", "high", "may_be"),
    [("7", 5, 7, True), ("10", 5, 7, False), ("10", 5, None, True), (None, None, 7, False), ("b", "a", "c", True)],
)
def test_a_file_has_rows_of_its_partition_only(text: str | None, low: Any, high: Any, *, may_be: bool) -> None:
    file = AddFile("f", 1, 0, None, {"c": text})
    assert Between("c", low, high).may_be_in(file) == may_be
