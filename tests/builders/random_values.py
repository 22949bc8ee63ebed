"""Values of PostgreSQL's types, as text that a cast takes: their edges, and random ones."""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass

SETUP = """
create type mood as enum ('sad', 'so, so', 'very "happy"');
create domain short as text check (length(value) < 20);
"""
_LETTERS = "abcXYZ 019'\"\\,;{}()%\t\näßЖ漢🙂é\u00a0"


@dataclass(frozen=True, slots=True)
class Samples:
    """A type's edge values and a maker of others."""

    type_text: str
    edges: tuple[str, ...]
    make: Callable[[random.Random], str]

    def choose(self, chosen: random.Random) -> str | None:
        """Return a value, now and then an edge, now and then null."""
        kind = chosen.random()
        if kind < 0.1:
            return None
        return chosen.choice(self.edges) if kind < 0.4 else self.make(chosen)


def _integers(bits: int) -> tuple[str, ...]:
    return str(-(1 << bits - 1)), str((1 << bits - 1) - 1), "0", "-1"


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


_INFINITIES = ("infinity", "-infinity")
_SPECIAL_FLOATS = ("NaN", "Infinity", "-Infinity", "-0", "0", "0.1")
_EDGE_DATES = ("0001-01-01", "9999-12-31", "10000-01-01", "0001-12-31 BC", "4713-01-01 BC", "1582-10-10", *_INFINITIES)

SAMPLES = (
    Samples("smallint", _integers(16), _integer(16)),
    Samples("integer", _integers(32), _integer(32)),
    Samples("bigint", (*_integers(64), str(2**53), str(2**53 + 1)), _integer(64)),
    Samples("oid", ("0", "4294967295"), lambda chosen: str(chosen.randrange(1 << 32))),
    Samples("real", (*_SPECIAL_FLOATS, "1e-45", "3.4028235e38", "16777217"), _float("f", 4)),
    Samples("double precision", (*_SPECIAL_FLOATS, "5e-324", "1.7976931348623157e308"), _float("d", 8)),
    Samples("numeric", ("NaN", "Infinity", "-Infinity", "0.00", "1e-30", "1e100"), _decimal(60, 20)),
    Samples("numeric(8,2)", ("NaN", "999999.99", "-0.01"), _decimal(8, 2)),
    Samples("numeric(38,10)", ("NaN", "9" * 28 + ".9999999999"), _decimal(38, 10)),
    Samples("numeric(50,5)", ("NaN", "9" * 45 + ".99999"), _decimal(50, 5)),
    Samples("numeric(5,-2)", ("1234500", "NaN"), lambda chosen: str(chosen.randrange(10**6))),
    Samples("boolean", ("true", "false"), lambda chosen: chosen.choice("tf")),
    Samples("text", ("", " ", "NULL", "\\N", "\\x00", "null"), _text),
    Samples("character varying(20)", ("", " "), _text),
    Samples("character(7)", ("", "a", "ü      "), lambda chosen: _text(chosen, 7)),
    Samples("short", ("", "short"), _text),
    Samples("bytea", ("\\x", "\\x00", "\\xff00"), lambda chosen: "\\x" + chosen.randbytes(chosen.randrange(9)).hex()),
    Samples("date", (*_EDGE_DATES, "5874897-12-31"), _date),
    Samples(
        "timestamp without time zone",
        (*_EDGE_DATES, "294276-12-31 23:59:59.999999", "2024-02-29 00:00:00.000001"),
        _timestamp,
    ),
    Samples("timestamp(0) without time zone", _EDGE_DATES, _timestamp),
    Samples(
        "timestamp with time zone",
        ("infinity", "-infinity", "0001-01-01+00", "9999-12-31 23:59:59.999999+00", "294276-12-31+00", "1900-01-01+00"),
        _timestamp,
    ),
    Samples("time without time zone", ("00:00:00", "24:00:00"), _time),
    Samples("time with time zone", ("00:00:00+15", "24:00:00-15:59"), _time),
    Samples("interval", ("0", "1 month", "178000000 years", "-0.000001 s"), _interval),
    Samples(
        "uuid", ("00000000-0000-0000-0000-000000000000",), lambda chosen: str(uuid.UUID(int=chosen.getrandbits(128)))
    ),
    Samples("json", ("null", '{"a" :  1}', '""'), _document),
    Samples("jsonb", ("null", '{"a" :  1}', '""'), _document),
    Samples(
        "integer[]", ("{}", "{NULL,1}", "{{1,2},{3,4}}", "[2:3]={1,2}"), lambda chosen: f"{{{chosen.randrange(9)}}}"
    ),
    Samples("text[]", ("{}", "{NULL}", '{"NULL",""}'), _array),
    Samples("mood", ("sad", "so, so"), lambda chosen: chosen.choice(("sad", "so, so", 'very "happy"'))),
    Samples("int4range", ("empty", "(,)", "[1,)"), lambda chosen: f"[{chosen.randrange(5)},{chosen.randrange(5, 9)})"),
    Samples("inet", ("::1/64", "10.0.0.1/8"), lambda chosen: f"10.0.0.{chosen.randrange(256)}"),
    Samples("bit(5)", ("00000", "11111"), _bits(5, 5)),
    Samples("bit varying", ("",), _bits(20)),
    Samples("point", ("(0,0)", "(NaN,Infinity)"), lambda chosen: f"({chosen.random()},{chosen.random()})"),
)
