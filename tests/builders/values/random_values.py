"""Random values of PostgreSQL's types, as text that a cast takes."""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable, Mapping

from builders.values.type_catalogue import SAMPLES, TypeSamples

_LETTERS = "abcXYZ 019'\"\\,;{}()%\t\näßЖ漢🙂é\u00a0"


def _integer(bits: int) -> Callable[[random.Random], str]:
    return lambda chosen: str(chosen.randint(-(1 << bits - 1), (1 << bits - 1) - 1) >> chosen.randrange(bits))


def _float(pattern: str, size: int) -> Callable[[random.Random], str]:
    return lambda chosen: repr(struct.unpack(pattern, chosen.randbytes(size))[0])


def _decimal(digits: int, scale: int) -> Callable[[random.Random], str]:
    def make(chosen: random.Random) -> str:
        number = str(chosen.randrange(10 ** chosen.randint(1, digits))).rjust(scale + 1, "0")
        return chosen.choice(("", "-")) + f"{number[:-scale]}.{number[-scale:]}"

    return make


def _text(chosen: random.Random, longest: int = 15) -> str:
    return "".join(chosen.choice(_LETTERS) for _ in range(chosen.randint(0, longest)))


def _date(chosen: random.Random) -> str:
    year = chosen.choice((chosen.randint(1, 9999), chosen.randint(1900, 2100), chosen.randint(10000, 90000)))
    era = chosen.choice(("", "", "", " BC")) if year < 4000 else ""
    return f"{year:04}-{chosen.randint(1, 12):02}-{chosen.randint(1, 28):02}{era}"


def _time(chosen: random.Random) -> str:
    fraction = chosen.choice(("", f".{chosen.randrange(10**6):06}"))
    return f"{chosen.randrange(24):02}:{chosen.randrange(60):02}:{chosen.randrange(60):02}{fraction}"


def _timestamp(chosen: random.Random) -> str:
    day, _, era = _date(chosen).partition(" ")
    return f"{day} {_time(chosen)} {era}"


def _interval(chosen: random.Random) -> str:
    parts = ((unit, chosen.randint(-99, 99)) for unit in ("year", "day", "hour", "second"))
    return " ".join(f"{number} {unit}" for unit, number in parts)


def _document(chosen: random.Random) -> str:
    return json.dumps({_text(chosen): [chosen.random(), None, _text(chosen)], "n": chosen.randrange(10**20)})


def _array(chosen: random.Random) -> str:
    texts = (_text(chosen).replace("\\", "\\\\").replace('"', '\\"') for _ in range(chosen.randint(0, 3)))
    return "{" + ",".join(f'"{text}"' for text in texts) + "}"


def _bits(longest: int, shortest: int = 0) -> Callable[[random.Random], str]:
    return lambda chosen: "".join(chosen.choice("01") for _ in range(chosen.randint(shortest, longest)))


MAKERS: Mapping[str, Callable[[random.Random], str]] = {
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "oid": lambda chosen: str(chosen.randrange(1 << 32)),
    "real": _float("f", 4),
    "double precision": _float("d", 8),
    "numeric": _decimal(60, 20),
    "numeric(8,2)": _decimal(8, 2),
    "numeric(38,10)": _decimal(38, 10),
    "numeric(3,-2)": lambda chosen: str(chosen.randrange(99_900)),
    "public.price": _decimal(8, 2),
    "boolean": lambda chosen: chosen.choice("tf"),
    "text": _text,
    "character varying(20)": _text,
    "character(7)": lambda chosen: _text(chosen, 7),
    "bytea": lambda chosen: "\\x" + chosen.randbytes(chosen.randrange(9)).hex(),
    "date": _date,
    "timestamp without time zone": _timestamp,
    "timestamp(3) without time zone": _timestamp,
    "timestamp with time zone": _timestamp,
    "time without time zone": _time,
    "interval": _interval,
    "uuid": lambda chosen: str(uuid.UUID(int=chosen.getrandbits(128))),
    "json": _document,
    "jsonb": _document,
    "text[]": _array,
    "bit(5)": _bits(5, 5),
    "bit varying": _bits(20),
    "point": lambda chosen: f"({chosen.random()},{chosen.random()})",
}
"""Makers of values, for types of the catalogue."""

RANDOM_SAMPLES = tuple(samples for samples in SAMPLES if samples.type_text in MAKERS)


def choose(samples: TypeSamples, chosen: random.Random) -> str | None:
    """Return a value, now and then an edge, now and then null."""
    kind = chosen.random()
    if kind < 0.1:
        return None
    return chosen.choice(samples.for_server(16)) if kind < 0.4 else MAKERS[samples.type_text](chosen)
