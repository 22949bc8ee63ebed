"""The frames of PostgreSQL's protocol: a kind byte, then the length of what follows with its own four bytes. Pure."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from rowtide.core.errors import DecodeError
from rowtide.log.postgres.stream.xlog_data import XLOG_DATA

Ints = npt.NDArray[np.int64]

FRAME_HEAD = struct.Struct(">cI")
COPY_DATA = ord("d")
_KIND_BYTES = 1
_LENGTH_BYTES = 4
_MOST_BYTES = 1 << 30
"""The server has no message of a gigabyte."""


def find_frames(octets: npt.NDArray[np.uint8]) -> Ints:
    """Return where each whole frame begins, and where the last one ends. Raises `DecodeError`.

    XLogData frames are found together: each place that looks like the head of one is, if the one before ends there.
    """
    if len(octets) < FRAME_HEAD.size:
        return np.zeros(1, np.int64)
    heads, nexts = _like_xlog_data(octets)
    breaks = np.flatnonzero(nexts[:-1] != heads[1:])
    found: list[Ints] = []
    place = 0
    while place + FRAME_HEAD.size <= len(octets):
        first = int(np.searchsorted(heads, place))
        if first < len(heads) and heads[first] == place:
            index = int(np.searchsorted(breaks, first))
            last = int(breaks[index]) if index < len(breaks) else len(heads) - 1
            found.append(heads[first : last + 1])
            place = int(nexts[last])
        else:
            found.append(np.array([place]))
            place += frame_bytes(octets.data, place)
    ends = np.concatenate((*found, [place]))
    return ends if place <= len(octets) else ends[:-1]


def frame_bytes(data: bytearray | memoryview, place: int) -> int:
    """Return the size of a frame whose head is there. Raises `DecodeError`."""
    kind, length = FRAME_HEAD.unpack_from(data, place)
    if not _LENGTH_BYTES <= length <= _MOST_BYTES:
        raise DecodeError(place, repr(kind), "no frame of the protocol")
    return _KIND_BYTES + int(length)


def _like_xlog_data(octets: npt.NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Return the places of what may be XLogData frames shorter than 16 MiB, and where each of them ends."""
    size = FRAME_HEAD.size
    # The first byte of their length is 0.
    heads = np.flatnonzero((octets[:-size] == COPY_DATA) & (octets[1 : 1 - size] == 0) & (octets[size:] == XLOG_DATA))
    view: npt.NDArray[np.uint32] = np.ndarray((len(octets) - _LENGTH_BYTES,), ">u4", octets, _KIND_BYTES, (1,))
    lengths = view[heads].astype(np.int64)
    has_content = lengths > _LENGTH_BYTES
    if not has_content.all():
        heads, lengths = heads[has_content], lengths[has_content]
    return heads, heads + _KIND_BYTES + lengths
