"""Casts a column at once, and only the pieces of it that hold odd texts with care.

Arrow's casts fail as a whole. Most columns have no text that they refuse; in others such texts are few, and their
neighbours are still cast at full speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

Column: TypeAlias = Any
"""An Arrow array whose type is known at run time only: pyarrow's stubs cannot say so."""
Texts: TypeAlias = Any
"""An Arrow array of strings."""
Cast = Callable[[Texts], Column]
kernels: Any = pyarrow.compute

_SMALL_PIECE = 512
_HIGHEST_DIGIT = ord("9")


class Odd(ValueError):
    """A quick cast may not be right for these texts."""


def cast_in_pieces(
    texts: Texts, quick: Cast, careful: Cast, *, never: Cast | None = None, smallest: int = _SMALL_PIECE
) -> Column:
    """Cast texts by `quick`, which raises `Odd` or Arrow's error; the smallest pieces that it refuses by `careful`.

    `careful` takes every text that `quick` takes, with the same result. `never` says which texts neither takes: they
    are known cheaply, and omitted if `quick` refuses the column.
    """
    try:
        return quick(texts)
    except (Odd, pa.ArrowInvalid):
        likely = texts if never is None else where(kernels.invert(never(texts)), texts)
        pieces = list(_cast_pieces(likely, quick, careful, smallest))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _cast_pieces(texts: Texts, quick: Cast, careful: Cast, smallest: int) -> Iterator[Column]:
    try:
        yield quick(texts)
    except (Odd, pa.ArrowInvalid):
        if len(texts) <= smallest:
            yield careful(texts)
        else:
            half = len(texts) // 2
            yield from _cast_pieces(texts[:half], quick, careful, smallest)
            yield from _cast_pieces(texts[half:], quick, careful, smallest)


def bytes_of(texts: Texts) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets of strings or binary values, and the bytes that they point into; a null is of any length."""
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return offsets, data


def require_no_letters(texts: Texts) -> None:
    """Raise `Odd` if there is a character above the digits: Arrow takes hexadecimal numbers, Spark does not."""
    offsets, data = bytes_of(texts)
    if (data[offsets[0] : offsets[-1]] > _HIGHEST_DIGIT).any():
        raise Odd


def fields_of(texts: Texts, pattern: str) -> dict[str, Texts]:
    """Return the named groups of a pattern that matches a whole text; null where it does not, empty where a group is
    omitted.
    """
    found = kernels.extract_regex(texts, f"^(?:{pattern})$")
    return {field.name: kernels.struct_field(found, field.name) for field in found.type}


def where(condition: Column, values: Column) -> Column:
    """Return the values that meet a condition; null in place of others."""
    return kernels.if_else(condition, values, pa.scalar(None, values.type))
