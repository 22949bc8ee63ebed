"""PostgreSQL's text form of values as Arrow arrays of their lake types: what `LakeType.cast` makes in Spark. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.databases.lake_types import LakeType
from rowtide.databases.lake_values.casting import (
    Cast,
    Column,
    Odd,
    Texts,
    arrow_type,
    bytes_of,
    cast_in_pieces,
    dates,
    decimals,
    floats,
    kernels,
    timestamps,
    timestamps_without_zone,
    where,
    whole_numbers,
)
from rowtide.databases.types.registry import find_type

if TYPE_CHECKING:
    import psycopg

_HEX_PREFIX = b"\\x"


def typed_values(texts: Texts, lake_type: LakeType) -> Column:
    """Return values of a lake type; null where the text is null, or does not fit the type."""
    to = arrow_type(lake_type.name)
    if isinstance(to, pa.Decimal128Type):
        return decimals(texts, to)
    return _CASTS[to](texts)


def typed_values_of(texts: Texts, type_code: int, lake_type: LakeType) -> Column:
    """As `typed_values`, of texts that the server printed for a type, given by its oid, that may be another by now.

    A `real` is the number that it prints as only among others: as a `double precision` it has more digits.
    """
    if type_code == _REAL.oid and lake_type.name == "double":
        return typed_values(texts, _REAL.lake(())).cast(pa.float64())
    return typed_values(texts, lake_type)


_REAL = find_type("real").value_type


def _unchanged(texts: Texts) -> Column:
    return texts


def _flags(texts: Texts) -> Column:
    return kernels.equal(texts, "t")


def _dates_of_our_era(texts: Texts) -> Column:
    is_earlier = kernels.ends_with(texts, " BC")
    return dates(where(kernels.invert(is_earlier), texts) if kernels.any(is_earlier).as_py() else texts)


def _binary(texts: Texts) -> Column:
    return cast_in_pieces(texts, _quick_binary, _careful_binary)


def _quick_binary(texts: Texts) -> Column:
    r"""Every text is `\x` and an even number of digits."""
    offsets, data = bytes_of(texts)
    begins, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    if texts.null_count:
        is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
        begins, lengths = begins[is_valid], lengths[is_valid]
    if (lengths < len(_HEX_PREFIX)).any() or (lengths % 2).any():
        raise Odd
    is_digit = np.zeros(len(data), np.bool_)
    is_digit[offsets[0] : offsets[-1]] = True
    for place, character in enumerate(_HEX_PREFIX):
        if (data[begins + place] != character).any():
            raise Odd
        is_digit[begins + place] = False
    return _decode(data[is_digit], texts, len(_HEX_PREFIX))


def _careful_binary(texts: Texts) -> Column:
    """As Spark's `unhex(substring(…, 3))`: a first digit alone is a byte."""
    digits = kernels.utf8_slice_codeunits(texts, len(_HEX_PREFIX))
    digits = where(kernels.match_substring_regex(digits, "^[0-9a-fA-F]*$"), digits)
    is_uneven = kernels.equal(kernels.bit_wise_and(kernels.binary_length(digits), 1), 1)
    even = kernels.if_else(is_uneven, kernels.binary_join_element_wise("0", digits, ""), digits)
    offsets, data = bytes_of(even)
    return _decode(data[offsets[0] : offsets[-1]], even, 0)


def _decode(digits: npt.NDArray[np.uint8], texts: Texts, prefix: int) -> Column:
    """Decode the hexadecimal digits of all texts at once; each text has a prefix that is not among them."""
    lengths = kernels.binary_length(texts).fill_null(prefix).to_numpy()
    offsets = np.concatenate(([0], np.cumsum((lengths - prefix) // 2))).astype(np.int32)
    try:
        decoded = binascii.unhexlify(digits.data)
    except binascii.Error as error:
        raise Odd from error
    valid = kernels.is_valid(texts).buffers()[1] if texts.null_count else None
    return pa.Array.from_buffers(
        pa.binary(), len(texts), [valid, pa.py_buffer(offsets.data), pa.py_buffer(decoded)], texts.null_count
    )


_CASTS: Mapping[pa.DataType, Cast] = {
    **{to: partial(whole_numbers, to=to) for to in (pa.int16(), pa.int32(), pa.int64())},
    **{to: partial(floats, to=to) for to in (pa.float32(), pa.float64())},
    pa.bool_(): _flags,
    pa.string(): _unchanged,
    pa.binary(): _binary,
    pa.date32(): _dates_of_our_era,
    pa.timestamp("us", tz="UTC"): timestamps,
    pa.timestamp("us"): timestamps_without_zone,
}


_NO_LIMIT = ("UTF8", "SQL_ASCII")
"""Encodings with every character; SQL_ASCII stores any bytes, without conversion."""


def server_encoding(session: psycopg.Connection) -> str:
    """Return the server's name of the database's encoding."""
    return session.info.parameter_status("server_encoding") or "UTF8"


def lacks_characters(session: psycopg.Connection) -> bool:
    """Return whether there are characters that the database's encoding does not have."""
    return server_encoding(session) not in _NO_LIMIT


def find_codec(session: psycopg.Connection) -> str | None:
    """Return Python's codec of the database's encoding; None if it has every character."""
    if not lacks_characters(session):
        return None
    encoding = server_encoding(session)
    ours = session.info.parameter_status("client_encoding")
    session.execute("select set_config('client_encoding', %s, false)", [encoding])
    codec = session.info.encoding
    session.execute("select set_config('client_encoding', %s, false)", [ours])
    return codec


def can_encode(codec: str | None, text: str) -> bool:
    """Return whether an encoding has all characters of a text."""
    try:
        text.encode(codec or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


MARKED_HEX = "\0x"
"""The prefix of the hex digits of a value that is not UTF-8. PostgreSQL's text has no NUL, so no value looks like
this.
"""


def is_utf8(values: pa.Array[Any]) -> bool:
    """Return whether all values, texts or bytes, are UTF-8; they are validated in one pass."""
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_marked_texts(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return bytes as texts, those that are not UTF-8 as marked hex, null as null."""
    return pa.array([_carry(value) for value in values.to_pylist()], pa.string())


def _carry(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return MARKED_HEX + value.hex()
