"""Bodies of requests and answers: gzip both ways, unpacked up to a limit. Pure."""

from __future__ import annotations

import zlib

from rowtide.core.values import frozen

_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 6
SHORTEST_PACKED = 200
"""A shorter body does not get smaller."""


@frozen
class Unfit:
    """Why a body cannot be unpacked; `is_too_large`: it would exceed the limit."""

    reason: str
    is_too_large: bool = False


def pack(body: bytes) -> tuple[bytes, bool]:
    """Return a body as it is sent, and whether it is compressed."""
    if len(body) < SHORTEST_PACKED:
        return body, False
    # The time in gzip's header is left out: a repeated request has the same bytes.
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packing.compress(body) + packing.flush(), True


def unpack(body: bytes, most: int) -> bytes | Unfit:
    """Return what a compressed body unpacks to, at most so many bytes: no more are made of a bomb."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        found = unpacking.decompress(body, most + 1)
    except zlib.error as error:
        return Unfit(f"it is no gzip ({error})")
    if len(found) > most:
        return Unfit(f"{most:,} bytes unpacked", is_too_large=True)
    if not unpacking.eof:
        return Unfit("its gzip ends early")
    if unpacking.unused_data:
        return Unfit("bytes follow its gzip")
    return found
