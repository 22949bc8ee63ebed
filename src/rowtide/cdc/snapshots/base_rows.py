"""Rows of base tables, converted from the lines of COPY that have them at the source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from rowtide.cdc.instances import INSERT, CapturedColumn, Instance, change_columns, column_type, pack_mask
from rowtide.cdc.rows.conversion import TYPED_VALUES, ExactValues
from rowtide.cdc.system_tables import SEQVAL
from rowtide.core.lsn import CommitLsn
from rowtide.databases.lake_types import LakeType
from rowtide.databases.lake_values.casting import Column, Texts, arrow_schema, arrow_type, kernels, where
from rowtide.databases.lake_values.texts import as_texts
from rowtide.databases.postgres.typed_values import as_marked_texts, is_utf8

_LARGEST_TEXT = 1 << 31
_READ_AS_THEY_ARE = (pa.int16(), pa.int32(), pa.int64())
"""Types of which the reader of CSV takes exactly the texts that the server writes."""


@dataclass(slots=True)
class BaseRows:
    """Converts the rows of one copy; `copied` are the columns that it has, in its order.

    `types` are those of the columns in the lake, by captured name: by default the instance's. Columns that are
    `retyped` have another type there once capture has come so far: until then values that would have another text are
    exact texts.
    """

    instance: Instance
    copied: Sequence[CapturedColumn]
    begin: CommitLsn
    types: Mapping[str, LakeType] = field(default_factory=dict)
    retyped: frozenset[str] = frozenset()
    is_utf8: bool = True
    _schema: pa.Schema = field(init=False)
    _types: Mapping[str, LakeType] = field(init=False)
    _is_quick: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        own = {column.name: column_type(self.instance, column) for column in self.instance.columns}
        self._types = {**own, **self.types}
        names = {column.lake_name: self._types[column.name].name for column in self.instance.columns}
        columns = change_columns(self.instance)
        self._schema = arrow_schema([(one.name, names.get(one.name, one.type_name)) for one in columns])

    def convert(self, lines: bytes, lacking: Collection[str] = ()) -> pa.RecordBatch:
        """Return the rows of whole lines of CSV, with the instance's `change_schema`.

        Captured columns that are `lacking` have been omitted, and are marked as absent.
        """
        copied = self._read(lines)
        rows = len(next(iter(copied.values())))
        exact = ExactValues(rows)
        typed_values = TYPED_VALUES[self.instance.database_kind]
        values: list[Column] = []
        for ordinal, column in enumerate(self.instance.columns, 1):
            lake_type, found = self._types[column.name], copied.get(column.name)
            if found is None:
                values.append(kernels.cast(pa.nulls(rows), arrow_type(lake_type.name)))
            elif column.name in self.retyped:
                typed = typed_values(found, lake_type)
                values.append(where(kernels.equal(as_texts(typed), found), typed))
                exact.add(ordinal, found, values[-1])
            elif pa.types.is_string(found.type):
                values.append(typed_values(found, lake_type))
                exact.add(ordinal, found, values[-1])
            else:
                values.append(found)
        begins = [
            pa.repeat(pa.scalar(self.begin.value, pa.int64()), rows),
            pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar(SEQVAL, pa.int64()), rows),
            pa.repeat(pa.scalar(INSERT, pa.int32()), rows),
            pa.nulls(rows, pa.binary()),
        ]
        columns = [*begins, *values, self._absent(rows, lacking), exact.as_maps()]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _absent(self, rows: int, lacking: Collection[str]) -> Column:
        if not lacking:
            return pa.nulls(rows, pa.binary())
        ordinals = [ordinal for ordinal, column in enumerate(self.instance.columns, 1) if column.name in lacking]
        return pa.repeat(pa.scalar(pack_mask(ordinals, len(self.instance.columns)), pa.binary()), rows)

    def _read(self, lines: bytes) -> dict[str, Column]:
        """Return the copied columns by their captured names: texts, or values of their types."""
        quick = {name: kind for name, kind in self._quick_types().items() if self._is_quick}
        try:
            table = _read_csv(lines, self._kinds(quick), check_utf8=not self.is_utf8)
        except pa.ArrowInvalid:
            if quick:
                # Some value is not of its type, as far as the reader of CSV knows.
                self._is_quick = False
                return self._read(lines)
            table = _read_csv(lines, self._kinds({}), check_utf8=False)
            return {name: _carried(column) for name, column in table.items()}
        return table

    def _quick_types(self) -> dict[str, pa.DataType]:
        types = {column.name: arrow_type(self._types[column.name].name) for column in self.copied}
        return {name: kind for name, kind in types.items() if kind in _READ_AS_THEY_ARE and name not in self.retyped}

    def _kinds(self, quick: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        return {column.name: quick.get(column.name, pa.string()) for column in self.copied}


def _read_csv(lines: bytes, kinds: Mapping[str, pa.DataType], *, check_utf8: bool) -> dict[str, Column]:
    names = [str(place) for place in range(len(kinds))]
    types: Any = dict(zip(names, kinds.values(), strict=True))
    file: Any = pa.BufferReader(lines)
    table = pa_csv.read_csv(
        file,
        pa_csv.ReadOptions(use_threads=False, block_size=min(len(lines) + 1, _LARGEST_TEXT - 1), column_names=names),
        pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            check_utf8=check_utf8,
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = (column.combine_chunks() for column in table.columns)
    return dict(zip(kinds, map(_only_chunk, columns), strict=True))


def _only_chunk(column: Column) -> Column:
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _carried(texts: Texts) -> Texts:
    """Return texts as captured rows have them: marked hexadecimal digits where a text is not UTF-8."""
    return texts if is_utf8(texts) else as_marked_texts(texts.cast(pa.binary()))
