"""The update mask: one bit per captured column, in SQL Server's byte order.

Ordinal 1 is the least significant bit of the *last* byte, so nine captured columns that all changed
read 0x01FF. Inserts and deletes carry all ones; updates the columns that changed.
"""

from __future__ import annotations

from collections.abc import Iterable


def mask_length(columns: int) -> int:
    """Return the mask's length in bytes for a number of captured columns."""
    return (columns + 7) // 8


def full_mask(columns: int) -> bytes:
    """Return the mask with every captured column's bit set."""
    return pack_mask(range(1, columns + 1), columns)


def pack_mask(ordinals: Iterable[int], columns: int) -> bytes:
    """Set the bits of the given 1-based ordinals."""
    bits = 0
    for ordinal in ordinals:
        bits |= 1 << (ordinal - 1)
    return bits.to_bytes(mask_length(columns), "big")


def is_bit_set(position: int, mask: bytes) -> bool:
    """Return whether the column with a 1-based ordinal changed (SQL Server: fn_cdc_is_bit_set)."""
    byte, bit = divmod(position - 1, 8)
    return 0 <= byte < len(mask) and bool(mask[-1 - byte] >> bit & 1)
