"""Dataclasses as JSON, by the types of their fields.

LSNs and positions are strings (`X/Y`, `epoch:X/Y`), times are in UTC. Strict: numbers and strings are not converted
into each other. Fields that have a default may be missing, and unknown ones are ignored, unless the JSON has to be
exact. A type's codec is built at its first use: building all of them beforehand would take a fifth of a command's
start.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache, cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen

_Record = TypeVar("_Record")


class JsonInvalid(ValueError):
    """A text is not the JSON of a record. The message names the path to the value, but never a value."""

    def __init__(self, expected: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)} is not {expected}" if path else f"not {expected}")
        self._expected = expected
        self._path = path

    def below(self, key: str) -> JsonInvalid:
        """Return the error with the key or index of the enclosing object prepended."""
        return JsonInvalid(self._expected, (key, *self._path))


@frozen
class Key:
    """Annotation of a field: its name in JSON."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Tagged:
    """Annotation of a union of dataclasses: the JSON key that distinguishes them, and their names under it."""

    key: str
    kinds: Mapping[str, type]

    def codec(self, *, is_exact: bool) -> _Codec:
        names = {kind: name for name, kind in self.kinds.items()}

        def encode(value: Any) -> Any:
            kind: Any = type(value)
            return {self.key: names[kind], **_codec(kind, is_exact).encode(value)}

        def decode(found: Any) -> Any:
            name = found.get(self.key) if type(found) is dict else None
            if type(name) is not str or name not in self.kinds:
                raise JsonInvalid(f"one of {', '.join(self.kinds)}", (self.key,))
            return _codec_below(self.key, self.kinds[name], is_exact).decode(found)

        return _Codec(encode, decode)


class JsonOf(Generic[_Record]):
    """The JSON of one type."""

    def __init__(self, kind: Any, *, is_exact: bool = False) -> None:
        """With `is_exact`, a record that is read must have all fields and no others."""
        self._kind, self._is_exact = kind, is_exact

    def encode(self, record: _Record) -> str:
        """Return the record's JSON, in one line."""
        return json.dumps(self._codec.encode(record), ensure_ascii=False, separators=(",", ":"))

    def decode(self, data: bytes | str) -> _Record:
        """Read a record's JSON. Raises `JsonInvalid`."""
        return self.decode_loaded(load_json(data))

    def decode_loaded(self, found: Any) -> _Record:
        """Read what `load_json` returned. Raises `JsonInvalid`."""
        record: _Record = self._codec.decode(found)
        return record

    @cached_property
    def _codec(self) -> _Codec:
        return _codec(self._kind, self._is_exact)


def load_json(data: bytes | str) -> Any:
    """Return the JSON value in a text. Raises `JsonInvalid`."""
    try:
        text = data if isinstance(data, str) else data.decode()
        found = json.loads(text)
        if "\\u" in text:
            # JSON escapes can express lone surrogates, which can be neither printed nor stored.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise JsonInvalid("JSON") from error
    return found


@frozen
class _Codec:
    """Converts values of a type to JSON values, and back."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _as_is(value: Any) -> Any:
    return value


def _exactly(kind: type, expected: str) -> _Codec:
    def decode(found: Any) -> Any:
        if type(found) is not kind:
            raise JsonInvalid(expected)
        return found

    return _Codec(_as_is, decode)


def _encode_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _decode_time(found: Any) -> datetime:
    try:
        time = datetime.fromisoformat(found)
    except (TypeError, ValueError) as error:
        raise JsonInvalid("a time") from error
    if time.tzinfo is None:
        raise JsonInvalid("a time with its zone")
    return time.astimezone(UTC)


def _decode_float(found: Any) -> float:
    if type(found) not in (int, float):
        raise JsonInvalid("a number")
    return float(found)


def _decode_lsn(found: Any) -> CommitLsn:
    if type(found) is not str:
        raise JsonInvalid("an LSN")
    try:
        return CommitLsn.parse(found)
    except InvalidLsn as error:
        raise JsonInvalid("an LSN") from error


_SCALARS: Mapping[Any, _Codec] = {
    str: _exactly(str, "a text"),
    int: _exactly(int, "a whole number"),
    bool: _exactly(bool, "true or false"),
    float: _Codec(_as_is, _decode_float),
    datetime: _Codec(_encode_time, _decode_time),
    CommitLsn: _Codec(str, _decode_lsn),
    Position: _Codec(str, lambda found: Position(_decode_lsn(found).value)),
    Any: _Codec(_as_is, _as_is),
}


@cache
def _codec(kind: Any, is_exact: bool) -> _Codec:  # noqa: FBT001 - a key of the cache
    """Return the codec of a type. Raises `TypeError` for a type that has none."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        tagged = next((known for known in kind.__metadata__ if isinstance(known, Tagged)), None)
        return tagged.codec(is_exact=is_exact) if tagged is not None else _codec(arguments[0], is_exact)
    if origin in (Union, types.UnionType):
        return _codec_of_union(kind, is_exact=is_exact)
    if origin is Literal:
        return _codec_of_choices({value: value for value in arguments}, _as_is)
    if origin is tuple:
        return _codec_of_tuple(arguments, is_exact=is_exact)
    if origin is Mapping:
        return _codec_of_mapping(*arguments, is_exact=is_exact)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _codec_of_choices({member.value: member for member in kind}, lambda member: member.value)
    if is_dataclass(kind):
        return _codec_of_dataclass(kind, is_exact=is_exact)
    raise TypeError(f"{kind} has no JSON here")


@cache
def _codec_below(key: str, kind: Any, is_exact: bool) -> _Codec:  # noqa: FBT001 - a key of the cache
    """Return the codec of one dataclass of a union. `key` distinguishes the dataclasses, and may be one of their
    fields.
    """
    codec = _codec(kind, is_exact)
    if not is_exact or key in (field.name for field in fields(kind)):
        return codec
    return _Codec(
        codec.encode, lambda found: codec.decode({name: value for name, value in found.items() if name != key})
    )


def kinds_of(union: Any) -> Mapping[str, type]:
    """Return the dataclasses of a union by their literal fields `kind`."""
    return {get_args(get_type_hints(kind)["kind"])[0]: kind for kind in get_args(union)}


def _codec_of_union(union: Any, *, is_exact: bool) -> _Codec:
    """Return the codec of an optional type, or of dataclasses that a literal field `kind` distinguishes."""
    kinds = get_args(union)
    if type(None) not in kinds:
        return Tagged("kind", kinds_of(union)).codec(is_exact=is_exact)
    (present,) = (kind for kind in kinds if kind is not type(None))
    encode, decode = _codec(present, is_exact).encode, _codec(present, is_exact).decode
    return _Codec(
        _as_is if encode is _as_is else lambda value: None if value is None else encode(value),
        lambda found: None if found is None else decode(found),
    )


def _codec_of_choices(choices: Mapping[Any, Any], encode: Callable[[Any], Any]) -> _Codec:
    kinds = {type(value) for value in choices}

    def decode(found: Any) -> Any:
        if type(found) not in kinds or found not in choices:
            raise JsonInvalid(f"one of {', '.join(map(str, choices))}")
        return choices[found]

    return _Codec(encode, decode)


def _codec_of_tuple(arguments: tuple[Any, ...], *, is_exact: bool) -> _Codec:
    if arguments[-1] is not ...:
        return _codec_of_fixed_tuple([_codec(argument, is_exact) for argument in arguments])
    item = _codec(arguments[0], is_exact)
    encode_item, decode_item = item.encode, item.decode

    def decode(found: Any) -> Any:
        if type(found) is not list:
            raise JsonInvalid("a list")
        items: list[Any] = []
        try:
            items.extend(map(decode_item, found))
        except JsonInvalid as error:
            raise error.below(str(len(items))) from error
        return tuple(items)

    return _Codec(list if encode_item is _as_is else lambda value: [encode_item(one) for one in value], decode)


def _codec_of_fixed_tuple(items: list[_Codec]) -> _Codec:
    def decode(found: Any) -> Any:
        if type(found) is not list or len(found) != len(items):
            raise JsonInvalid(f"a list of {len(items)}")
        return tuple(item.decode(one) for item, one in zip(items, found, strict=True))

    return _Codec(lambda value: [item.encode(one) for item, one in zip(items, value, strict=True)], decode)


def _codec_of_mapping(key: Any, value: Any, *, is_exact: bool) -> _Codec:
    inner = _codec(value, is_exact)
    decode_key = _decode_number if key is int else _codec(key, is_exact).decode

    def decode(found: Any) -> Any:
        if type(found) is not dict:
            raise JsonInvalid("an object")
        return {decode_key(name): _decode_at(inner.decode, one, name) for name, one in found.items()}

    return _Codec(lambda values: {str(name): inner.encode(one) for name, one in values.items()}, decode)


def _decode_number(found: str) -> int:
    try:
        return int(found)
    except ValueError as error:
        raise JsonInvalid("a whole number") from error


def _codec_of_dataclass(kind: Any, *, is_exact: bool) -> _Codec:
    hints = get_type_hints(kind, include_extras=True)
    known = [
        (_key_of(hints[field.name], field.name), field.name, _codec(hints[field.name], is_exact))
        for field in fields(kind)
    ]
    keys = {key for key, _, _ in known}

    def encode(value: Any) -> Any:
        return {key: codec.encode(getattr(value, name)) for key, name, codec in known}

    def decode(found: Any) -> Any:
        if type(found) is not dict:
            raise JsonInvalid("an object")
        if is_exact and found.keys() != keys:
            name = min(found.keys() ^ keys)
            raise JsonInvalid(f"a field of {kind.__name__}" if name in found else "there", (name,))
        values = {}
        for key, name, codec in known:
            if key in found:
                values[name] = _decode_at(codec.decode, found[key], key)
        try:
            return kind(**values)
        except (TypeError, InvalidLsn) as error:
            raise JsonInvalid(f"the record {kind.__name__}") from error

    return _Codec(encode, decode)


def _key_of(hint: Any, name: str) -> str:
    return next((known.name for known in getattr(hint, "__metadata__", ()) if isinstance(known, Key)), name)


def _decode_at(decode: Callable[[Any], Any], found: Any, path: str) -> Any:
    try:
        return decode(found)
    except JsonInvalid as error:
        raise error.below(path) from error
