"""Bits of masks as Spark SQL text: the log record's `absent`, and change tables' masks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.mask import mask_length

NO_PLACE = -1
"""The place of a column that the log does not have."""


def is_absent(place: str) -> str:
    """Return whether a log record's `absent`, which is not null, has the bit of a place."""
    byte = f"substring(absent, {place} div 8 + 1, 1)"
    return f"(shiftright(cast(conv(hex({byte}), 16, 10) as int), cast({place} % 8 as int)) % 2 = 1)"


def is_marked(mask: str, ordinal: int, columns: int) -> str:
    """Return whether a change table's mask has an ordinal's bit; a null mask has none."""
    byte = f"substring({mask}, {mask_length(columns) - (ordinal - 1) // 8}, 1)"
    bit = f"shiftright(cast(conv(hex({byte}), 16, 10) as int), {(ordinal - 1) % 8}) % 2 = 1"
    return f"coalesce({bit}, false)"


def mask_over(places: Sequence[int], is_set: str) -> str:
    """Return a change table's mask: a bit per ordinal whose place meets a condition over `place`."""
    ordered = _from_the_last(list(map(str, places)), str(NO_PLACE))
    bits = f"transform(array({', '.join(ordered)}), place -> if({is_set}, '1', '0'))"
    return _packed(f"array_join({bits}, '')", len(places))


def mask_of(bits: Sequence[str]) -> str:
    """Return a change table's mask of one condition per ordinal."""
    digits = (f"if({bit}, '1', '0')" for bit in _from_the_last(bits, "false"))
    return _packed(f"concat({', '.join(digits)})", len(bits))


def null_if_empty(mask: str, columns: int) -> str:
    """Return a mask, null if it has no bit."""
    return f"nullif({mask}, X'{bytes(mask_length(columns)).hex()}')"


def _from_the_last(bits: Sequence[str], padding: str) -> list[str]:
    """Ordinal 1 is the lowest bit of the last byte."""
    return [padding] * (8 * mask_length(len(bits)) - len(bits)) + list(bits[::-1])


def _packed(bits: str, columns: int) -> str:
    digits = f"sequence(0, {2 * mask_length(columns) - 1})"
    # An array of one, whose element the function names: the bits are made once, not for each digit.
    packed = f"transform({digits}, digit -> conv(substring(bits, 4 * digit + 1, 4), 2, 16))"
    return f"get(transform(array({bits}), bits -> unhex(array_join({packed}, ''))), 0)"
