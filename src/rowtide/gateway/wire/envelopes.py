"""The bodies of the wire protocol: a version, a message, and batches of rows; compressed. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rowtide.core.values import frozen
from rowtide.gateway.errors import MessageMalformed, ProtocolUnknown
from rowtide.gateway.wire import row_batches
from rowtide.gateway.wire.typed_json import Misfit, from_json, to_json
from rowtide.merge.session.messages import RowBatch

VERSION = 1
SPOKEN: tuple[int, ...] = (VERSION,)
"""The versions of the protocol that this build supports."""
SPOKEN_TEXT = ", ".join(map(str, SPOKEN))
CONTENT_TYPE = "application/vnd.rowtide+json"
_FIELDS = {"protocol", "message", "batches", "is_last"}


@frozen
class Envelope:
    """A message with batches of rows; `is_last`: no further batches follow."""

    message: Any
    batches: Sequence[RowBatch] = ()
    is_last: bool = True


def write(envelope: Envelope) -> bytes:
    """Return the body of an envelope."""
    document = {
        "protocol": VERSION,
        "message": to_json(type(envelope.message), envelope.message),
        "batches": [row_batches.encode_batch(one) for one in envelope.batches],
        "is_last": envelope.is_last,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def read(body: bytes, kind: type[Any], spoken: Sequence[int] = SPOKEN) -> Envelope:
    """Decode a body whose message is of the given kind. Raises `ProtocolUnknown`, `MessageMalformed`."""
    shown = ", ".join(map(str, spoken))
    try:
        document = parse(body)
        _require_version(document, spoken)
        _require_fields(document)
        return Envelope(
            from_json(kind, document["message"], "message"),
            from_json(Sequence[RowBatch], document["batches"], "batches"),
            from_json(bool, document["is_last"], "is_last"),
        )
    except Misfit as misfit:
        raise MessageMalformed(misfit.place, misfit.reason, shown) from misfit


def parse(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a body. Raises `Misfit`."""
    try:
        document = json.loads(body.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Misfit("/", f"byte {error.start} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise Misfit("/", f"it is no JSON ({type(error).__name__})") from error
    if not isinstance(document, dict):
        raise Misfit("/", "it is no object")
    return document


def _require_version(document: Mapping[str, Any], spoken: Sequence[int]) -> None:
    given = document.get("protocol")
    if type(given) is not int:
        raise Misfit("protocol", "it is no version")
    if given not in spoken:
        raise ProtocolUnknown(str(given), ", ".join(map(str, spoken)))


def _require_fields(document: Mapping[str, Any]) -> None:
    if unknown := document.keys() - _FIELDS:
        raise Misfit("/", f"it has an unknown field {min(unknown)!a}")
    if missing := _FIELDS - document.keys():
        raise Misfit("/", f"it has no field {min(missing)}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Misfit("/", "an object has a field twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise Misfit("/", f"{name} is no number of JSON")


_GZIP = 16 + zlib.MAX_WBITS
_LEVEL, _MEMORY = 6, 8
SHORTEST_PACKED = 200
"""Shorter bodies are not compressed: they would not get smaller."""


@frozen
class Unfit:
    """A body cannot be unpacked; `is_too_large`: it would exceed the limit."""

    reason: str
    is_too_large: bool = False


def pack(body: bytes) -> tuple[bytes, bool]:
    """Return a body as it is sent, and whether that is compressed."""
    if len(body) < SHORTEST_PACKED:
        return body, False
    # gzip's header has no time: a repeated request has the same bytes.
    # Short matches are not used: in random digits they cost more than the digits.
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP, _MEMORY, zlib.Z_FILTERED)
    return packing.compress(body) + packing.flush(), True


def unpack(body: bytes, most: int) -> bytes | Unfit:
    """Unpack a compressed body up to a limit of bytes, against decompression bombs."""
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
