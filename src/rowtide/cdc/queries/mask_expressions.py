"""Change tables' masks as Spark SQL text. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.mask import mask_length


def mark_condition(mask: str, ordinal: int, columns: int) -> str:
    """Return whether a mask has an ordinal's bit; a null mask has none."""
    byte = f"substring({mask}, {mask_length(columns) - (ordinal - 1) // 8}, 1)"
    bit = f"shiftright(cast(conv(hex({byte}), 16, 10) as int), {(ordinal - 1) % 8}) % 2 = 1"
    return f"coalesce({bit}, false)"


def mask_of(bits: Sequence[str]) -> str:
    """Return the mask of one condition per ordinal."""
    length = mask_length(len(bits))
    # Ordinal 1 is the lowest bit of the last byte.
    from_the_last = ["false"] * (8 * length - len(bits)) + list(bits[::-1])
    digits = (f"if({bit}, '1', '0')" for bit in from_the_last)
    packed = f"transform(sequence(0, {2 * length - 1}), digit -> conv(substring(bits, 4 * digit + 1, 4), 2, 16))"
    # An array of one, whose element the function names: the bits are made once, not for each digit.
    return f"get(transform(array(concat({', '.join(digits)})), bits -> unhex(array_join({packed}, ''))), 0)"


def null_if_empty(mask: str, columns: int) -> str:
    """Return a mask, null if it has no bit."""
    return f"nullif({mask}, X'{bytes(mask_length(columns)).hex()}')"
