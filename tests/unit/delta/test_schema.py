"""Delta's schema becomes Arrow's, and the one that data files have."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rowtide.delta.schema import TypeUnknown, parse_schema


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
