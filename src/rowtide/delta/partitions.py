"""Partition columns: their values are texts of the log, for each data file, and not in the files. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.delta.actions import Metadata
from rowtide.delta.schema import Field

PARTITION_TYPES = frozenset({"byte", "short", "integer", "long", "boolean", "date", "string"})
"""Types, in Delta's words, whose values every writer gives the same text."""
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""What Delta in Spark writes for null, and reads as null."""
UNFIT_TEXT = "an empty text, or one that stands for null, would be read as null"
UNFIT_DATE = "a date is not in the years from 0 to 9999"
UNFIT_LONG = "a text is too long for the name of a folder"
_DATE_CHARACTERS = len("2026-01-01")
_NAME_BYTES = 255
"""What a file system takes for a name."""

PartitionValues: TypeAlias = Mapping[str, str | None]
"""The texts of a file's values, by the columns' names in files."""


class TextUnfit(ValueError):
    """A value that a text of the log would not give back; `column` is where."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason


def find_unreadable_partitions(metadata: Metadata) -> Iterator[str]:
    """Yield the types of partition columns whose texts are not read here."""
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
    """Return the folder for a partition's files, with a slash, empty for one whose texts are too long.

    Delta reads the values from the log. Polars reads them from the folders, by these names, and null without them.
    """
    folders = [_name_folder(name, text) for name, text in values.items()]
    is_long = any(len(folder.encode()) > _NAME_BYTES for folder in folders)
    return "" if is_long else "".join(f"{folder}/" for folder in folders)


def _name_folder(column: str, text: str | None) -> str:
    """Return the name by column and value: readers decode percents in the value alone."""
    return f"{column.replace('/', '%2F')}={quote(text, safe='') if text else NULL_FOLDER}"


def split_rows(rows: pa.Table, fields: Sequence[Field]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each partition that some have, by the partition columns. Raises `TextUnfit`."""
    texts = [_texts_of(field, rows[field.name]) for field in fields]
    numbers: Any = np.zeros(rows.num_rows, np.int64)
    for column in texts:
        encoded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
        combined = numbers * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        # Numbered again, so that they stay small whatever the number of columns.
        numbers = np.unique(combined, return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    # What is before the first part is nothing.
    for places in np.split(order, begins)[1:]:
        first = int(places[0])
        values = {field.physical_name: text[first].as_py() for field, text in zip(fields, texts, strict=True)}
        yield values, rows.take(pa.array(places, pa.int64()))


def _texts_of(field: Field, values: pa.ChunkedArray[Any]) -> Any:
    """Return values as the log has them."""
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
