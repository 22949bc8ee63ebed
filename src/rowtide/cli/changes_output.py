"""Output of changes: whole batches of rows at a time, as `output.print_rows` prints rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TextIO

import pyarrow as pa

from rowtide.cdc.lake_readers.presentation import Kind, PresentedChanges, PresentedColumn
from rowtide.cdc.lake_readers.value_texts import kernels
from rowtide.cli.output import Format, print_rows
from rowtide.cli.tables import Show

_ESCAPED_IN_JSON = r'["\\\x00-\x1f]'
_QUOTED_IN_CSV = r'[",\r\n]|^$|^\\\.$'
"""As `output` has it."""

Lines = Callable[[Sequence[PresentedColumn]], Any]


def print_changes(changes: PresentedChanges, form: Format, out: TextIO, *, show: Show) -> None:
    """Print changes with their column names; batches are written as they arrive."""
    match form:
        case Format.TABLE:
            print_rows(changes.names, changes.rows(), form, out, show=show)
        case Format.JSONL:
            _write(changes.batches, _json_lines, out)
        case Format.CSV:
            print_rows(changes.names, (), form, out)
            _write(changes.batches, _csv_lines, out)


def _write(batches: Iterator[Sequence[PresentedColumn]], lines: Lines, out: TextIO) -> None:
    out.writelines(_joined(lines(columns)) for columns in batches)


def _joined(texts: Any) -> str:
    """Return the texts one after the other: they are so in memory."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("i")
    begin, end = ends[texts.offset], ends[texts.offset + len(texts)]
    return str(memoryview(data)[begin:end], "utf-8") if data is not None else ""


def _json_lines(columns: Sequence[PresentedColumn]) -> Any:
    parts: list[Any] = []
    for place, column in enumerate(columns):
        parts += [f"{', ' if place else '{'}{json.dumps(column.name, ensure_ascii=False)}: ", _as_json(column)]
    return kernels.binary_join_element_wise(*parts, "}\n", "")


def _as_json(column: PresentedColumn) -> Any:
    texts = column.texts
    if column.kind is Kind.TEXT:
        texts = _json_texts(texts)
    elif column.is_text is not None:
        texts = kernels.if_else(column.is_text, _json_texts(texts), texts)
    return kernels.fill_null(texts, "null")


def _json_texts(texts: Any) -> Any:
    escaped = kernels.fill_null(kernels.match_substring_regex(texts, _ESCAPED_IN_JSON), False)  # noqa: FBT003
    quoted = kernels.binary_join_element_wise('"', texts, '"', "")
    if not kernels.any(escaped).as_py():
        return quoted
    odd = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return kernels.replace_with_mask(quoted, escaped, pa.array(odd, pa.string()))


_FLAGS: Mapping[str, str] = {"true": "True", "false": "False"}


def _csv_lines(columns: Sequence[PresentedColumn]) -> Any:
    ends = chain([","] * (len(columns) - 1), ["\n"])
    parts = [part for column, end in zip(columns, ends, strict=True) for part in (_as_csv(column), end)]
    return kernels.binary_join_element_wise(*parts, "")


def _as_csv(column: PresentedColumn) -> Any:
    texts = column.texts
    if column.kind is Kind.FLAG:
        for json_text, text in _FLAGS.items():
            texts = kernels.if_else(kernels.equal(texts, json_text), text, texts)
    if column.kind is Kind.TEXT or column.is_text is not None:
        is_quoted = kernels.match_substring_regex(texts, _QUOTED_IN_CSV)
        doubled = kernels.replace_substring(texts, '"', '""')
        texts = kernels.if_else(is_quoted, kernels.binary_join_element_wise('"', doubled, '"', ""), texts)
    return kernels.fill_null(texts, "")
