"""Every type that a column can have, with values at its edges: what the type tests write and the type page lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SETUP = """
create extension vector;
create type mood as enum ('sad', 'so, so', 'very "happy"');
create type place as (street text, number int, seen timestamptz);
create type floats as range (subtype = float8, multirange_type_name = many_floats);
create domain small as smallint check (value < 30000);
create domain price as numeric(8,2);
create domain reduced as price check (value > 0 or value = 'NaN');
create domain short as character varying(20);
create domain moment as timestamp with time zone;
create domain moment_today as timestamp(0) with time zone;
create domain day as date;
create domain flag as boolean;
create domain blob as bytea;
create domain numbers as integer[];
create domain feeling as mood;
create domain address as place;
"""


@dataclass(frozen=True, slots=True)
class TypeSamples:
    """A type, with values as text that a cast takes.

    `values` fit the type in the lake; those in `misfits` do not, and stand there by the words that say what they are.
    `base` is what the values of a domain are, `since_17` what only PostgreSQL 17 and later take.
    """

    type_text: str
    values: tuple[str, ...]
    misfits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since_17: tuple[str, ...] = ()
    base: str | None = None
    note: str = ""

    @property
    def value_type_text(self) -> str:
        return self.base or self.type_text

    @property
    def all_misfits(self) -> tuple[str, ...]:
        return tuple(value for values in self.misfits.values() for value in values)

    def for_server(self, version: int) -> tuple[str, ...]:
        """Return every value that a server of this version takes."""
        return (*self.values, *self.all_misfits, *(self.since_17 if version >= 17 else ()))


def _integers(bits: int) -> tuple[str, ...]:
    return str(-(1 << bits - 1)), str((1 << bits - 1) - 1), "0", "-1"


_INFINITIES = ("infinity", "-infinity")
_NOT_A_NUMBER = {"NaN": ("NaN",)}
_FLOATS = ("NaN", "Infinity", "-Infinity", "-0", "0", "0.1", "16777217", "9007199254740993")
_DAYS = ("0001-01-01", "0999-12-31", "1582-10-04", "1582-10-10", "1900-02-28", "1970-01-01", "2024-02-29", "9999-12-31")
_EARLY = {"infinity, -infinity": _INFINITIES, "years before 1": ("0001-12-31 BC", "4713-01-01 BC")}
_EARLY_IN_UTC = {**_EARLY, "years before 1": ("0001-01-01 00:00:00+15:59", "4713-01-01 BC")}
_LAST = {"after 294247-01-10 04:00:54.775807": ("294247-01-10 04:00:54.775808+00", "294276-12-31 23:59:59.999999+00")}
_TIMES = (
    *_DAYS,
    "10000-01-01",
    "1969-12-31 23:59:59.999999",
    "2024-02-29 00:00:00.000001",
    "2016-12-31 23:59:60",
    "2024-01-01 24:00:00",
    "294247-01-10 04:00:54.775807+00",
)
_ZONED = (
    *_TIMES,
    "1883-11-18 12:03:57.999999 America/New_York",
    "2024-10-27 02:30:00 Europe/Berlin",
    "1900-01-01 00:00:00+05:53:28",
    "0001-01-01 00:00:00-15:59",
)
_TEXTS = (
    *("", " ", "NULL", "null", "\\N", "\\.", "\\x00", "infinity", "NaN", "t", "00012", "trailing  "),
    *("line\nbreak", "carriage\rreturn", 'tab\t"quoted", it\'s', "äßЖ漢🙂e\u0301\u00a0", "\u0001\u007f\u2028\ufeff"),
)

NUMBERS = (
    TypeSamples("smallint", _integers(16)),
    TypeSamples("integer", _integers(32)),
    TypeSamples("bigint", (*_integers(64), str(2**53), str(2**53 + 1), str(-(2**53) - 1))),
    TypeSamples("real", (*_FLOATS, "1e-45", "-1.1754942e-38", "3.4028235e38", "-3.4028235e38")),
    TypeSamples(
        "double precision",
        (*_FLOATS, "5e-324", "-2.225073858507201e-308", "1.7976931348623157e308", "0.30000000000000004"),
    ),
    TypeSamples("numeric(8,2)", ("0", "999999.99", "-999999.99", "-0.01"), _NOT_A_NUMBER),
    TypeSamples("numeric(10,0)", ("0", "9999999999", "-1"), _NOT_A_NUMBER),
    TypeSamples("numeric(38,10)", ("0", "0.0000000001", "9" * 28 + ".9999999999", "-1"), _NOT_A_NUMBER),
    TypeSamples("numeric(38,38)", ("0", "0." + "9" * 38, "-1e-38"), _NOT_A_NUMBER),
    TypeSamples(
        "numeric(3,-2)",
        ("0", "99900", "-149"),
        _NOT_A_NUMBER,
        note="a negative scale adds digits: decimal(p - s, 0), up to 38",
    ),
    TypeSamples(
        "numeric(2,5)",
        ("0", "0.00099", "-0.00001"),
        _NOT_A_NUMBER,
        note="a scale above the precision counts as precision: decimal(s, s), up to 38",
    ),
    TypeSamples("numeric(39,2)", ("NaN", "9" * 37 + ".99", "-0.01"), note="Spark's decimal has 38 digits at most"),
    TypeSamples("numeric(30,-9)", ("NaN", "9" * 30 + "0" * 9)),
    TypeSamples(
        "numeric",
        ("NaN", "Infinity", "-Infinity", "0.00", "1.10", "-1e-400", "1e400", "9" * 400 + "." + "9" * 400),
        note="each value has a scale of its own",
    ),
    TypeSamples(
        "money",
        ("0", "-0.01", "-92233720368547758.08", "92233720368547758.07"),
        note="as with `lc_monetary` C, `$1,234.50`: two decimals, also where a currency has none",
    ),
    TypeSamples("oid", ("0", "4294967295")),
)

TEXTS = (
    TypeSamples("text", _TEXTS),
    TypeSamples("character varying", _TEXTS),
    TypeSamples("character varying(20)", _TEXTS),
    TypeSamples("character(7)", ("", "a", "ü      ", "1234567"), note="with its padding"),
    TypeSamples('"char"', ("", "a", '"', "\\377"), note="a byte above 127 as `\\377`"),
    TypeSamples("name", ("", "n" * 63, "a b")),
    TypeSamples("boolean", ("true", "false")),
    TypeSamples("bytea", ("\\x", "\\x00", "\\xff00", "\\x5c78", "\\x" + bytes(range(256)).hex())),
    TypeSamples("bit(5)", ("00000", "11111")),
    TypeSamples("bit varying", ("", "1", "0" * 65)),
    TypeSamples("uuid", ("00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF")),
)

TIMES = (
    TypeSamples("date", (*_DAYS, "10000-01-01", "5874897-12-31"), _EARLY),
    TypeSamples("timestamp without time zone", _TIMES, _EARLY | _LAST),
    TypeSamples("timestamp(3) without time zone", ("2024-02-29 23:59:59.999", "1900-01-01"), _EARLY),
    TypeSamples("timestamp with time zone", _ZONED, _EARLY_IN_UTC | _LAST, note="the moment, in UTC"),
    TypeSamples("timestamp(0) with time zone", ("2024-02-29 23:59:59+14", "1900-01-01+00"), _EARLY),
    TypeSamples("time without time zone", ("00:00:00", "24:00:00", "23:59:60", "23:59:59.999999", "12:00:00.5")),
    TypeSamples("time(3) without time zone", ("00:00:00.001", "24:00:00")),
    TypeSamples(
        "time with time zone", ("00:00:00+15:59:59", "24:00:00-15:59", "12:00:00.000001+05:45"), note="in its own zone"
    ),
    TypeSamples("time(0) with time zone", ("12:00:00+05:45",)),
    TypeSamples(
        "interval",
        (
            *("0", "1 month", "30 days", "-1 mons +1 day -00:00:00.000001", "1 year 2 mons -3 days 04:05:06.789"),
            *("178000000 years", "-178000000 years", "2562047788:00:54.775807", "-0.000001 s"),
        ),
        since_17=_INFINITIES,
        note="ISO 8601: `P1Y2M-3DT4H5M6.789S`",
    ),
    TypeSamples("interval day to second(3)", ("1 day 00:00:00.001", "0")),
)

DOCUMENTS = (
    TypeSamples("json", ("null", '{"a" :  1, "a": 1e400}', '""', '"\\u0000"', "[1.10, -0]"), note="letter by letter"),
    TypeSamples(
        "jsonb", ("null", '{"b": 1, "a": [1.10, -0]}', '""', "1e400", '"äЖ漢🙂\\n"'), note="as the server prints it"
    ),
    TypeSamples("jsonpath", ("$.a[*] ? (@ > 1)", "strict $")),
    TypeSamples("tsvector", ("", "'a':1A,2 'it''s':3")),
    TypeSamples("tsquery", ("", "'a':*B & !'b c' <-> 'd'")),
    TypeSamples("int4range", ("empty", "(,)", "[1,)", "[1,5]", "[-2147483648,2147483646]")),
    TypeSamples("int8range", ("empty", "(,)", "[1,5]")),
    TypeSamples("numrange", ("empty", "(,)", "[1.10,2.00]", "[-Infinity,Infinity]")),
    TypeSamples("daterange", ("empty", "[-infinity,infinity]", "[0044-03-15 BC,2024-02-29)")),
    TypeSamples("tsrange", ("empty", '[-infinity,"2024-02-29 00:00:00.000001")')),
    TypeSamples("tstzrange", ("empty", '["0044-03-15 00:00:00+00 BC","2024-02-29 12:00:00+05:45")')),
    TypeSamples("int4multirange", ("{}", "{[1,3),[5,)}")),
    TypeSamples("int8multirange", ("{}", "{(,)}")),
    TypeSamples("nummultirange", ("{}", "{[1.10,2.00]}")),
    TypeSamples("datemultirange", ("{}", "{[2024-02-29,infinity)}")),
    TypeSamples("tsmultirange", ("{}", "{[2024-02-29,infinity)}")),
    TypeSamples("tstzmultirange", ("{}", "{[2024-02-29 12:00+05:45,infinity)}")),
    TypeSamples("integer[]", ("{}", "{NULL,1}", "{{1,2},{3,4}}", "[2:3]={1,2}", "[-1:0][1:1]={{1},{2}}")),
    TypeSamples("text[]", ("{}", "{NULL}", '{"NULL",""," ","a\\"b\\\\c,{}"}')),
    TypeSamples("double precision[]", ("{NaN,-0,5e-324,0.1}",)),
    TypeSamples("timestamp with time zone[]", ("{infinity,0044-03-15 00:00:00+00 BC}",)),
    TypeSamples("bytea[]", ('{"\\\\x00ff",NULL}',)),
)

PLACES = (
    TypeSamples("inet", ("::1/64", "10.0.0.1/8", "0.0.0.0", "::ffff:1.2.3.4")),
    TypeSamples("cidr", ("10.0.0.0/8", "::/0", "192.168.1")),
    TypeSamples("macaddr", ("08:00:2b:01:02:03", "ffff.ffff.ffff")),
    TypeSamples("macaddr8", ("08:00:2b:01:02:03:04:05", "08-00-2b-01-02-03")),
    TypeSamples("point", ("(0,0)", "(NaN,Infinity)", "(-0,0.1)", "(5e-324,1.7976931348623157e308)")),
    TypeSamples("line", ("{1,2,3}", "{-1,0.1,-0}")),
    TypeSamples("lseg", ("[(0,0),(0.1,-1e300)]",)),
    TypeSamples("box", ("(1,1),(0,-0.1)",)),
    TypeSamples("path", ("[(0,0),(1,0.1)]", "((0,0),(1,0.1))")),
    TypeSamples("polygon", ("((0,0),(1,0.1),(2,0))",)),
    TypeSamples("circle", ("<(0,0.1),1e-300>", "<(0,0),0>")),
)

SERVER = (
    TypeSamples("xid", ("0", "4294967295")),
    TypeSamples("xid8", ("0", "18446744073709551615")),
    TypeSamples("cid", ("0", "4294967295")),
    TypeSamples("tid", ("(0,1)", "(4294967295,65535)")),
    TypeSamples("pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF")),
    TypeSamples("pg_snapshot", ("10:20:10,14,15", "1:1:")),
    TypeSamples("txid_snapshot", ("10:20:10,14,15",)),
    TypeSamples("int2vector", ("", "1 -2 3")),
    TypeSamples("oidvector", ("", "1 4294967295")),
    TypeSamples("refcursor", ("", "a cursor")),
    TypeSamples("aclitem", ("=r/postgres", "postgres=arw*/postgres")),
    TypeSamples(
        "regclass", ("pg_class", "kept", "0", "4294967295"), note="names with their schema, as when it was committed"
    ),
    TypeSamples("regcollation", ('"C"',)),
    TypeSamples("regconfig", ("simple",)),
    TypeSamples("regdictionary", ("simple",)),
    TypeSamples("regnamespace", ("public",)),
    TypeSamples("regoper", ("|/", "0")),
    TypeSamples("regoperator", ("+(integer,integer)",)),
    TypeSamples("regproc", ("now",)),
    TypeSamples("regprocedure", ("sum(integer)",)),
    TypeSamples("regrole", ("postgres",)),
    TypeSamples("regtype", ("integer", "mood", "place[]", '"char"')),
)

OWN = (
    TypeSamples("public.mood", ("sad", "so, so", 'very "happy"'), note="an enum: its label"),
    TypeSamples("public.mood[]", ('{sad,"so, so"}',)),
    TypeSamples(
        "public.place",
        ('("a ""b"", c\\\\d",1,2024-02-29)', "(,,)", '("",-1,infinity)'),
        note="a composite type: `(Main St,1,)`",
    ),
    TypeSamples("public.place[]", ('{"(a,1,)",NULL}',)),
    TypeSamples("public.floats", ("[-0,0.1)", "empty"), note="a range"),
    TypeSamples("public.many_floats", ("{[-0,0.1)}",)),
    TypeSamples("public.vector(3)", ("[1,2.5,-0]",), note="of an extension"),
    TypeSamples("public.small", _integers(15), base="smallint", note="a domain: as what it is over"),
    TypeSamples("public.price", ("999999.99", "-0.01"), _NOT_A_NUMBER, base="numeric(8,2)"),
    TypeSamples("public.reduced", ("0.01",), _NOT_A_NUMBER, base="numeric(8,2)", note="a domain over a domain"),
    TypeSamples("public.short", ("", "NULL", " a "), base="character varying(20)"),
    TypeSamples("public.moment", _ZONED, _EARLY_IN_UTC | _LAST, base="timestamp with time zone"),
    TypeSamples("public.moment_today", ("2024-02-29 23:59:59+14",), _EARLY, base="timestamp(0) with time zone"),
    TypeSamples("public.day", _DAYS, _EARLY, base="date"),
    TypeSamples("public.flag", ("true", "false"), base="boolean"),
    TypeSamples("public.blob", ("\\x", "\\x00ff"), base="bytea"),
    TypeSamples("public.numbers", ("{1,NULL}", "[0:0]={1}"), base="integer[]"),
    TypeSamples("public.feeling", ("so, so",), base="public.mood"),
    TypeSamples("public.address", ("(,1,infinity)",), base="public.place"),
)

CATALOGUE: Mapping[str, Sequence[TypeSamples]] = {
    "Numbers": NUMBERS,
    "Text, binary, boolean": TEXTS,
    "Dates and times": TIMES,
    "Documents, ranges, arrays": DOCUMENTS,
    "Network and geometry": PLACES,
    "The server's own": SERVER,
    "Types that users make": OWN,
}
"""The samples by what their types are for."""

SAMPLES = tuple(samples for group in CATALOGUE.values() for samples in group)
