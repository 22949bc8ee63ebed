"""The bitmap of an update: which published columns changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt


def bitmap_length(columns: int) -> int:
    """Return the number of bytes of a bitmap over a number of columns."""
    return columns // 8 + 1


def pack_bitmaps(changed: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Pack a matrix, rows by columns, into bitmaps, rows by bytes."""
    rows, columns = changed.shape
    packed = np.zeros((rows, bitmap_length(columns)), dtype=np.uint8)
    bits = np.packbits(changed, axis=1, bitorder="little")
    packed[:, : bits.shape[1]] = bits
    return packed


def bitmap_texts(changed: npt.NDArray[np.bool_]) -> list[bytes]:
    """Return each row's bitmap as PostgreSQL writes bytes, `\\x` and hexadecimal digits."""
    packed = pack_bitmaps(changed)
    patterns: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
    # Of thousands of updates there are few, which a sort would take long to find.
    texts = {pattern: b"\\x" + pattern.hex().encode() for pattern in set(patterns)}
    return [texts[pattern] for pattern in patterns]


@lru_cache
def unite(one: bytes, other: bytes) -> bytes:
    """Return the text of a bitmap with the bits of two texts of the same length."""
    united = bytes(ours | theirs for ours, theirs in zip(_bytes_of(one), _bytes_of(other), strict=True))
    return b"\\x" + united.hex().encode()


@lru_cache
def columns_of(text: bytes) -> Sequence[int]:
    """Return the columns, from 0, whose bits are set in a bitmap's text."""
    bits = np.unpackbits(np.frombuffer(_bytes_of(text), dtype=np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits).tolist())


def _bytes_of(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())
