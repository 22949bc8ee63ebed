"""Output of changes: whole batches of rows at a time, as `output.rows.print_rows` prints rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TextIO

import pyarrow as pa

from rowtide.cdc.lake_readers.bits import kernels
from rowtide.cdc.lake_readers.presentation import JsonKind, PresentedChanges, PresentedColumn, as_json, joined, rows_of
from rowtide.cli.output.rows import OutputFormat, print_rows, width_of
from rowtide.cli.output.tables import SAMPLE, ColumnWidths, Show, lay_out, write_table

SHOWN_ONE_BY_ONE = frozenset({"__$start_lsn"})
"""Columns whose values tables show in another form."""
_ODD_IN_TABLES = "[^ -~]"
_QUOTED_IN_CSV = r'[",\r\n]|^$|^\\\.$'
"""See `output.rows.print_rows`."""

Lines = Callable[[Sequence[PresentedColumn]], Any]


def print_changes(changes: PresentedChanges, form: OutputFormat, out: TextIO, *, show: Show) -> None:
    """Print changes with their column names; batches are written as they arrive."""
    match form:
        case OutputFormat.TABLE:
            _write_table(changes, out, show)
        case OutputFormat.JSONL:
            _write(changes.batches, _json_lines, out)
        case OutputFormat.CSV:
            print_rows(changes.names, (), form, out)
            _write(changes.batches, _csv_lines, out)


def _write(batches: Iterable[Sequence[PresentedColumn]], lines: Lines, out: TextIO) -> None:
    out.writelines(joined(lines(columns)) for columns in batches)


def _write_table(changes: PresentedChanges, out: TextIO, show: Show) -> None:
    """Write a table, in the layout of `write_table`."""
    first: list[Sequence[PresentedColumn]] = []
    for columns in changes.batches:
        first.append(columns)
        if sum(len(batch[0].texts) for batch in first) >= SAMPLE:
            break
    sample, width = list(islice(rows_of(first), SAMPLE)), width_of(out)
    layout = lay_out(changes.names, sample, show) if sample else None
    batches = chain(first, changes.batches)
    if layout is None or (width is not None and layout.width > width):
        write_table(changes.names, rows_of(batches), out, width=width, show=show)
        return
    layout.write_header(changes.names, out)
    _write(batches, lambda columns: _table_lines(columns, layout, show), out)


def _table_lines(columns: Sequence[PresentedColumn], layout: ColumnWidths, show: Show) -> Any:
    cells = [_cells(column, place, layout, show) for place, column in enumerate(columns)]
    lines = kernels.binary_join_element_wise(*cells, " | ")
    return kernels.binary_join_element_wise(kernels.utf8_rtrim_whitespace(lines), "\n", "")


def _cells(column: PresentedColumn, place: int, layout: ColumnWidths, show: Show) -> Any:
    texts = _with_python_flags(column)
    if column.name in SHOWN_ONE_BY_ONE:
        # Rows of a transaction have the same value.
        encoded = texts.dictionary_encode()
        shown = pa.array([show(column.name, int(text)) for text in encoded.dictionary.to_pylist()], pa.string())
        texts = shown.take(encoded.indices)
    is_odd = kernels.match_substring_regex(texts, _ODD_IN_TABLES)
    pad = kernels.utf8_lpad if layout.are_numbers[place] else kernels.utf8_rpad
    cells = pad(kernels.fill_null(texts, show(column.name, None)), layout.widths[place])
    if not kernels.any(is_odd).as_py():
        return cells
    odd = [layout.cell(show(column.name, text), place) for text in texts.filter(is_odd).to_pylist()]
    return kernels.replace_with_mask(cells, kernels.fill_null(is_odd, False), pa.array(odd, pa.string()))  # noqa: FBT003


def _json_lines(columns: Sequence[PresentedColumn]) -> Any:
    parts: list[Any] = []
    for place, column in enumerate(columns):
        parts += [f"{', ' if place else '{'}{json.dumps(column.name, ensure_ascii=False)}: ", as_json(column)]
    return kernels.binary_join_element_wise(*parts, "}\n", "")


_FLAGS: Mapping[str, str] = {"true": "True", "false": "False"}


def _csv_lines(columns: Sequence[PresentedColumn]) -> Any:
    ends = chain([","] * (len(columns) - 1), ["\n"])
    parts = [part for column, end in zip(columns, ends, strict=True) for part in (_as_csv(column), end)]
    return kernels.binary_join_element_wise(*parts, "")


def _as_csv(column: PresentedColumn) -> Any:
    texts = _with_python_flags(column)
    if column.kind is JsonKind.TEXT or column.is_text is not None:
        is_quoted = kernels.match_substring_regex(texts, _QUOTED_IN_CSV)
        doubled = kernels.replace_substring(texts, '"', '""')
        texts = kernels.if_else(is_quoted, kernels.binary_join_element_wise('"', doubled, '"', ""), texts)
    return kernels.fill_null(texts, "")


def _with_python_flags(column: PresentedColumn) -> Any:
    texts = column.texts
    if column.kind is JsonKind.FLAG:
        for json_text, text in _FLAGS.items():
            texts = kernels.if_else(kernels.equal(texts, json_text), text, texts)
    return texts
