"""A table's columns: Delta's schema (JSON) with the names and field ids that data files use, as Arrow types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from rowtide.core.values import frozen

PHYSICAL_NAME, FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"

PARQUET_ID = "PARQUET:field_id"

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


class TypeUnknown(ValueError):
    """A column has a type that is none of Delta's documented ones."""


@frozen(slots=False)
class Primitive:
    """A type without parts."""

    arrow: pa.DataType

    @property
    def in_files(self) -> pa.DataType:
        """The type in data files."""
        return self.arrow


@frozen(slots=False)
class ListOf:
    """An array."""

    element: Field

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type in Arrow."""
        return pa.list_(self.element.arrow)

    @property
    def in_files(self) -> pa.DataType:
        """The type in data files."""
        return pa.list_(self.element.in_files)


@frozen(slots=False)
class MapOf:
    """A map."""

    key: Field
    value: Field

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type in Arrow."""
        return pa.map_(self.key.type.arrow, self.value.type.arrow)

    @property
    def in_files(self) -> pa.DataType:
        """The type in data files."""
        return pa.map_(self.key.type.in_files, self.value.type.in_files)


@frozen(slots=False)
class Struct:
    """Several fields; a table is one."""

    fields: tuple[Field, ...]

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type in Arrow."""
        return pa.struct([field.arrow for field in self.fields])

    @cached_property
    def schema(self) -> pa.Schema:
        """The fields as a table's columns."""
        return pa.schema([field.arrow for field in self.fields])

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The fields as a data file's columns: with physical names and field ids."""
        return pa.schema([field.in_files for field in self.fields])

    @property
    def in_files(self) -> pa.DataType:
        """The type in data files."""
        return pa.struct([field.in_files for field in self.fields])

    def select(self, names: list[str]) -> Struct:
        """Return fields by name. Raises `KeyError`."""
        by_name = {field.name: field for field in self.fields}
        return Struct(tuple(by_name[name] for name in names))

    def retype(self, types: Mapping[str, FieldType]) -> Struct:
        """Return the fields, some of them with other types, given by their names; data files keep theirs."""
        return Struct(tuple(replace(field, type=types.get(field.name, field.type)) for field in self.fields))

    def rename(self, names: Mapping[str, str]) -> Struct:
        """Return the fields, some of them under other names, given by their own; data files keep theirs."""
        return Struct(tuple(replace(field, name=names.get(field.name, field.name)) for field in self.fields))


FieldType: TypeAlias = Primitive | ListOf | MapOf | Struct


@frozen(slots=False)
class Field:
    """A column, or a part of one; data files know it by its physical name or, in mapping mode `id`, by its field id."""

    name: str
    type: FieldType
    is_nullable: bool
    physical_name: str
    field_id: int | None
    metadata: dict[str, Any]

    @cached_property
    def arrow(self) -> pa.Field[Any]:
        """The field in Arrow, as readers see it; always nullable, since a file may lack the column."""
        return pa.field(self.name, self.type.arrow)

    @property
    def in_files(self) -> pa.Field[Any]:
        """The field in data files."""
        known_as = {PARQUET_ID: str(self.field_id)} if self.field_id is not None else None
        return pa.field(self.physical_name, self.type.in_files, metadata=known_as)


def parse_schema(text: str, *, is_mapped: bool) -> Struct:
    """Parse a table's `schemaString`; `is_mapped`: data files have other names than the table.

    Raises `TypeUnknown`, and `ValueError` or `KeyError` if it is no schema.
    """
    return _Parser(is_mapped).parse_struct(json.loads(text))


@frozen
class _Parser:
    is_mapped: bool

    def parse_struct(self, found: dict[str, Any]) -> Struct:
        return Struct(tuple(self._parse_field(field) for field in found["fields"]))

    def _parse_field(self, found: dict[str, Any]) -> Field:
        metadata = found.get("metadata") or {}
        return Field(
            name=found["name"],
            type=self._parse_type(found["type"]),
            is_nullable=found["nullable"],
            physical_name=metadata.get(PHYSICAL_NAME, found["name"]) if self.is_mapped else found["name"],
            field_id=metadata.get(FIELD_ID),
            metadata=metadata,
        )

    def _parse_type(self, found: str | dict[str, Any]) -> FieldType:
        if isinstance(found, str):
            return Primitive(_parse_primitive(found))
        match found["type"]:
            case "struct":
                return self.parse_struct(found)
            case "array":
                return ListOf(self._part("element", found["elementType"]))
            case "map":
                return MapOf(self._part("key", found["keyType"]), self._part("value", found["valueType"]))
            case other:
                raise TypeUnknown(str(other))

    def _part(self, name: str, found: str | dict[str, Any]) -> Field:
        return Field(name, self._parse_type(found), is_nullable=True, physical_name=name, field_id=None, metadata={})


def _parse_primitive(name: str) -> pa.DataType:
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if name not in _PRIMITIVES:
        raise TypeUnknown(name)
    return _PRIMITIVES[name]
