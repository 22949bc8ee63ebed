"""JSON of events, built by the column: objects, and the rows before and after a change. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.following.row_events import RowValues
from rowtide.cdc.following.transactions import Integers
from rowtide.cdc.lake_readers.value_texts import kernels

Texts = Any
"""A column of texts, or one text for all rows."""


def constant(value: str) -> str:
    """Return a text as JSON."""
    return json.dumps(value, ensure_ascii=False)


def make_object(members: Mapping[str, Texts], more: Texts = "", *, end: str = "}") -> Any:
    """Return objects with these members, whose values are JSON; `more` is JSON behind the last of them."""
    parts: list[Texts] = []
    for place, (name, value) in enumerate(members.items()):
        parts += [f"{', ' if place else '{'}{constant(name)}: ", value]
    return kernels.binary_join_element_wise(*parts, more, end, "")


def make_images(names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return each row as an object of all its columns."""
    return make_object(dict(zip(names, values, strict=True)))


def make_partial_images(names: Sequence[str], values: Sequence[Any], rows: RowValues) -> Any:
    """Return each row as an object of the columns whose values are there."""
    if rows.absent is None:
        return make_images(names, values)
    members = [
        kernels.binary_join_element_wise(f", {constant(name)}: ", value, "")
        for name, value in zip(names, values, strict=True)
    ]
    there = [kernels.if_else(pa.array(absent), "", member) for absent, member in zip(rows.absent, members, strict=True)]
    return _enclosed("{", there, "}")


def list_absent(names: Sequence[str], rows: RowValues) -> Any:
    """Return the names of each row's absent columns behind `, "absent": `; empty where every value is there."""
    assert rows.absent is not None
    listed = [
        kernels.if_else(pa.array(absent), f", {constant(name)}", "")
        for absent, name in zip(rows.absent, names, strict=True)
    ]
    has_absent = pa.array(np.logical_or.reduce(rows.absent))
    return kernels.if_else(has_absent, _enclosed(', "absent": [', listed, "]"), "")


def _enclosed(begin: str, members: Sequence[Any], end: str) -> Any:
    """Join members, each of which begins with a comma and a space or is empty, without the first comma."""
    joined = kernels.utf8_slice_codeunits(kernels.binary_join_element_wise(*members, ""), 2)
    return kernels.binary_join_element_wise(begin, joined, end, "")


def take(images: Any, places: Integers) -> Any:
    """Return the images at places, `null` where a place is negative."""
    found = images.take(pa.array(places, mask=places < 0))
    return kernels.fill_null(found, "null")
