"""Presented values as JSON, by the column. Pure."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from rowtide.cdc.lake_readers.presentation import Kind, PresentedColumn
from rowtide.cdc.lake_readers.value_texts import kernels

_ESCAPED = r'["\\\x00-\x1f]'


def as_json(column: PresentedColumn) -> Any:
    """Return a column's values as JSON: numbers and flags as they are, other values quoted, `null` where it is null."""
    texts = column.texts
    if column.kind is Kind.TEXT:
        texts = quoted(texts)
    elif column.is_text is not None:
        texts = kernels.if_else(column.is_text, quoted(texts), texts)
    return kernels.fill_null(texts, "null")


def quoted(texts: Any) -> Any:
    """Return texts as JSON strings; null stays null."""
    escaped = kernels.fill_null(kernels.match_substring_regex(texts, _ESCAPED), False)  # noqa: FBT003
    found = kernels.binary_join_element_wise('"', texts, '"', "")
    if not kernels.any(escaped).as_py():
        return found
    odd = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return kernels.replace_with_mask(found, escaped, pa.array(odd, pa.string()))


def joined(texts: Any) -> str:
    """Return texts, none of them null, one after the other: they are so in memory."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("i")
    begin, end = ends[texts.offset], ends[texts.offset + len(texts)]
    return str(memoryview(data)[begin:end], "utf-8") if data is not None else ""
