"""A table's columns: Delta's schema (JSON), their names in data files, their Arrow types, and partition columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.values import frozen
from rowtide.delta.replay import Metadata

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
    """A column has a type that Delta does not document."""


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
        """The field in Arrow, as readers see it. It is always nullable, since a file may lack the column."""
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


PARTITION_TYPES = frozenset({"byte", "short", "integer", "long", "boolean", "date", "string"})
"""Delta types whose values have the same text from every writer."""
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The folder name by which Delta in Spark writes null, and which it reads as null."""
UNFIT_TEXT = "an empty text, or one that stands for null, would be read as null"
UNFIT_DATE = "a date is not in the years from 0 to 9999"
UNFIT_LONG = "a text is too long for the name of a folder"
# Only dates of the years 0 to 9999 have this length.
_DATE_CHARACTERS = len("2026-01-01")
_NAME_BYTES = 255
"""The limit of file systems for a name."""

PartitionValues: TypeAlias = Mapping[str, str | None]
"""The texts of a file's values, by the columns' names in files."""


class TextUnfit(ValueError):
    """A value that its text in the log would not reproduce; `column` has it."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason


def find_unreadable_partitions(metadata: Metadata) -> Iterator[str]:
    """Yield the types of partition columns whose texts cannot be parsed here."""
    types = {field["name"]: field["type"] for field in json.loads(metadata.schema_text)["fields"]}
    for name in metadata.partition_columns:
        if types.get(name) not in PARTITION_TYPES:
            yield f"a partition column of type {types.get(name)}"


def constants_of(fields: Sequence[Field], values: PartitionValues) -> dict[str, Any]:
    """Return the values of those columns that a file's partition has, by their names in files.

    An empty text is null. Raises `pa.ArrowInvalid` for a text that is no value of its column.
    """
    found = [(field, values[field.physical_name]) for field in fields if field.physical_name in values]
    return {field.physical_name: pa.scalar(text or None, pa.string()).cast(field.type.arrow) for field, text in found}


def folder_of(values: PartitionValues) -> str:
    """Return the folder for a partition's files, with a slash; empty if its texts are too long for a name.

    Delta reads the values from the log. Polars reads them from the folders, by these names, and null without them.
    """
    folders = [_name_folder(name, text) for name, text in values.items()]
    is_long = any(len(folder.encode()) > _NAME_BYTES for folder in folders)
    return "" if is_long else "".join(f"{folder}/" for folder in folders)


def _name_folder(column: str, text: str | None) -> str:
    """Return the folder's name from column and value: readers decode percent escapes only in the value."""
    return f"{column.replace('/', '%2F')}={quote(text, safe='') if text else NULL_FOLDER}"


def split_rows(rows: pa.Table, fields: Sequence[Field]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each partition that some have, by the partition columns. Raises `TextUnfit`."""
    texts = [_texts_of(field, rows[field.name]) for field in fields]
    numbers: Any = np.zeros(rows.num_rows, np.int64)
    for column in texts:
        encoded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
        combined = numbers * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        # Renumbered after each column, so that the numbers stay small whatever the number of columns.
        numbers = np.unique(combined, return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    # What is before the first part is nothing.
    for places in np.split(order, begins)[1:]:
        first = int(places[0])
        values = {field.physical_name: text[first].as_py() for field, text in zip(fields, texts, strict=True)}
        yield values, rows.take(pa.array(places, pa.int64()))


def _texts_of(field: Field, values: pa.ChunkedArray[Any]) -> Any:
    """Return values in the log's text form."""
    kernels: Any = pc
    texts: Any = values.cast(pa.string())
    if pa.types.is_string(values.type):
        if kernels.any(kernels.is_in(texts, pa.array(["", NULL_FOLDER]))).as_py():
            raise TextUnfit(field.name, UNFIT_TEXT)
        if not all(folder_of({field.physical_name: text}) for text in kernels.unique(texts).to_pylist()):
            raise TextUnfit(field.name, UNFIT_LONG)
    if pa.types.is_date(values.type):
        lengths = kernels.utf8_length(texts)
        if kernels.any(kernels.not_equal(lengths, _DATE_CHARACTERS)).as_py():
            raise TextUnfit(field.name, UNFIT_DATE)
    return texts
