"""Dataclasses as JSON, with an exact round trip and nothing else accepted. Pure.

Encoding and validation follow from the types of the fields: a message needs no code of its own. JavaScript's numbers
end at 2^53: integers beyond are texts. Bytes are base64, enumerations the values of their members.
"""

from __future__ import annotations

import math
import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from rowtide.merge.articles import Article

_MOST_EXACT = (1 << 53) - 1
_MOST_INTEGER = 1 << 63
_MOST_DIGITS = 20


class Misfit(Exception):
    """A document is not of its type; `place` is the path to the faulty part."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason


Encoder = Callable[[Any], Any]
Decoder = Callable[[Any, str], Any]
_ENCODERS: dict[Any, Encoder] = {}
_DECODERS: dict[Any, Decoder] = {}


def treat(kind: type, encode: Encoder, decode: Decoder) -> None:
    """Register functions that encode and decode a type."""
    _ENCODERS[kind], _DECODERS[kind] = encode, decode


def to_json(kind: Any, value: Any) -> Any:
    """Return a value of a type as a document for `json`."""
    return _encoder(kind)(value)


def from_json(kind: Any, document: Any, place: str = "") -> Any:
    """Decode a document as a value of a type. Raises `Misfit`."""
    return _decoder(kind)(document, place or "/")


@cache
def fields_of(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Return the types of a dataclass's fields, and whether a message may omit them."""
    hints = get_type_hints(kind)
    return {
        one.name: (hints[one.name], one.default is not MISSING or one.default_factory is not MISSING)
        for one in fields(kind)
    }


def alternatives_of(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it has None."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    left = [one for one in get_args(kind) if one is not types.NoneType]
    assert len(left) == 1, f"{kind} is no type with or without None"
    return left[0], True


@cache
def _encoder(kind: Any) -> Encoder:
    kind, has_none = alternatives_of(kind)
    encode = _plain_encoder(kind)
    return (lambda value: None if value is None else encode(value)) if has_none else encode


def _plain_encoder(kind: Any) -> Encoder:
    if kind in _ENCODERS:
        return _ENCODERS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and arguments[-1] is not ...:
        each = [_encoder(one) for one in arguments]
        return lambda value: [encode(one) for encode, one in zip(each, value, strict=True)]
    if origin in (tuple, Sequence):
        encode = _encoder(arguments[0])
        return lambda value: [encode(one) for one in value]
    if origin is Mapping:
        encode = _encoder(arguments[1])
        return lambda value: {str(name): encode(one) for name, one in value.items()}
    if kind in _PLAIN_ENCODERS:
        return _PLAIN_ENCODERS[kind]
    if is_dataclass(kind):
        return _encode_fields(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    raise TypeError(f"messages have no {kind}")


def _encode_fields(kind: Any) -> Encoder:
    def encode(value: Any) -> Any:
        return {name: to_json(of_field, getattr(value, name)) for name, (of_field, _) in fields_of(kind).items()}

    return encode


def _encode_integer(value: int) -> int | str:
    return int(value) if -_MOST_EXACT <= value <= _MOST_EXACT else str(int(value))


_PLAIN_ENCODERS: Mapping[Any, Encoder] = {
    str: lambda value: value,
    bool: lambda value: value,
    int: _encode_integer,
    float: float,
    bytes: lambda value: b64encode(value).decode(),
    Article: lambda value: value.encode(),
}


@cache
def _decoder(kind: Any) -> Decoder:
    kind, has_none = alternatives_of(kind)
    decode = _plain_decoder(kind)
    return (lambda given, place: None if given is None else decode(given, place)) if has_none else decode


def _plain_decoder(kind: Any) -> Decoder:
    if kind in _DECODERS:
        return _DECODERS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and arguments[-1] is not ...:
        return _decode_tuple([_decoder(one) for one in arguments])
    if origin in (tuple, Sequence):
        return _decode_list(_decoder(arguments[0]))
    if origin is Mapping:
        return _decode_mapping(*arguments)
    if kind in _PLAIN_DECODERS:
        return _PLAIN_DECODERS[kind]
    if is_dataclass(kind):
        return _decode_fields(kind)
    if issubclass(kind, Enum):
        return _decode_member(kind)
    raise TypeError(f"messages have no {kind}")


def _decode_tuple(each: Sequence[Decoder]) -> Decoder:
    def decode(given: Any, place: str) -> Any:
        if not isinstance(given, list) or len(given) != len(each):
            raise Misfit(place, f"it is no list of {len(each)}")
        return tuple(one(element, f"{place}[{at}]") for at, (one, element) in enumerate(zip(each, given, strict=True)))

    return decode


def _decode_list(each: Decoder) -> Decoder:
    def decode(given: Any, place: str) -> Any:
        if not isinstance(given, list):
            raise Misfit(place, "it is no list")
        return tuple(each(element, f"{place}[{at}]") for at, element in enumerate(given))

    return decode


def _decode_mapping(key: Any, of_values: Any) -> Decoder:
    decode_value = _decoder(of_values)

    def decode(given: Any, place: str) -> Any:
        if not isinstance(given, dict):
            raise Misfit(place, "it is no object")
        return {
            _decode_integer(name, place) if key is int else name: decode_value(value, f"{place}.{name}")
            for name, value in given.items()
        }

    return decode


def _decode_fields(kind: Any) -> Decoder:
    def decode(given: Any, place: str) -> Any:
        if not isinstance(given, dict):
            raise Misfit(place, "it is no object")
        known = fields_of(kind)
        if unknown := given.keys() - known.keys():
            raise Misfit(place, f"it has an unknown field {min(unknown)!a}")
        if missing := [name for name, (_, may_lack) in known.items() if name not in given and not may_lack]:
            raise Misfit(place, f"it has no field {missing[0]}")
        return kind(**{name: from_json(known[name][0], value, _join(place, name)) for name, value in given.items()})

    return decode


def _join(place: str, name: str) -> str:
    return f"{place}{name}" if place == "/" else f"{place}.{name}"


def _decode_member(kind: Any) -> Decoder:
    values = {type(one.value) for one in kind}

    def decode(given: Any, place: str) -> Any:
        if type(given) in values and given in [one.value for one in kind]:
            return kind(given)
        raise Misfit(place, f"it is none of {', '.join(str(one.value) for one in kind)}")

    return decode


def _decode_integer(given: Any, place: str) -> int:
    if isinstance(given, str) and len(given) <= _MOST_DIGITS and given.removeprefix("-").isascii():
        given = int(given) if given.removeprefix("-").isdigit() else given
    if type(given) is not int or not -_MOST_INTEGER <= given < _MOST_INTEGER:
        raise Misfit(place, "it is no integer of 64 bits")
    return given


def _decode_number(given: Any, place: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise Misfit(place, "it is no number")
    return float(given)


def _decode_text(given: Any, place: str) -> str:
    if not isinstance(given, str):
        raise Misfit(place, "it is no text")
    return given


def _decode_bool(given: Any, place: str) -> bool:
    if not isinstance(given, bool):
        raise Misfit(place, "it is neither true nor false")
    return given


def decode_bytes(given: Any, place: str) -> bytes:
    """Decode base64. Raises `Misfit`."""
    try:
        return b64decode(_decode_text(given, place), validate=True)
    except ValueError as error:
        raise Misfit(place, "it is no base64") from error


def _decode_article(given: Any, place: str) -> Article:
    try:
        return Article.decode(_decode_text(given, place))
    except Misfit:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Misfit(place, "it is no definition of an article") from error


_PLAIN_DECODERS: Mapping[Any, Decoder] = {
    str: _decode_text,
    bool: _decode_bool,
    int: _decode_integer,
    float: _decode_number,
    bytes: decode_bytes,
    Article: _decode_article,
}
