"""What row filters may not say, and why."""

from __future__ import annotations

import pickle

import pytest

from rowtide.replication.errors.publishing import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters import FilterColumn, parse_filter

TYPES = {
    "i": "integer",
    "s": "smallint",
    "n": "numeric(8,2)",
    "flag": "boolean",
    "id": "uuid",
    "d": "date",
    "ts": "timestamp(3) without time zone",
    "tz": "timestamp with time zone",
    "t": "text",
    "c": "character(4)",
    "größe": "integer",
    "f": "double precision",
    "doc": "jsonb",
    "tags": "text[]",
    "mood": "public.mood",
}
COLUMNS = [
    FilterColumn(place, name, type_text, has_deterministic_collation=True)
    for place, (name, type_text) in enumerate(TYPES.items())
]

_NO_TYPE = "is not one of date, timestamp, timestamptz, uuid, bool, boolean, which may precede a text"
_NOT_EXACT = "only PostgreSQL's numbers, booleans, UUIDs, dates, timestamps and texts compare exactly"
_NOT_ORDERED = "the order of texts is their collation's: they are compared by =, <>, in and is null only"


@pytest.mark.parametrize(
    ("filter_text", "place", "reason"),
    [
        ("", 1, "a condition begins with a column, not with the end"),
        ("  ", 3, "a condition begins with a column, not with the end"),
        ("5 = i", 1, "a condition begins with a column, not with 5"),
        ("i", 2, "i has to be followed by a comparison, in, between or is null, not by the end"),
        ("i like 'x'", 3, "i has to be followed by a comparison, in, between or is null, not by like"),
        ("i not = 5", 7, "i has to be followed by a comparison, in, between or is null, not by ="),
        ("i + 1 > 2", 3, "i has to be followed by a comparison, in, between or is null, not by +"),
        ("(i) = 5", 3, "i has to be followed by a comparison, in, between or is null, not by )"),
        ("i =", 4, "a column is compared with a literal, not with the end"),
        ("i = s", 5, "a column is compared with a literal, not with s"),
        ('i = "s"', 5, "a column is compared with a literal, not with s"),
        ("i = (5)", 5, "a column is compared with a literal, not with ("),
        ("i = - - 5", 5, "a column is compared with a literal, not with -"),
        ("i in (select 1)", 7, "a column is compared with a literal, not with select"),
        ("i in ()", 7, "a column is compared with a literal, not with )"),
        ("i in 5", 6, "( is expected, not 5"),
        ("i in (5", 8, ") is expected, not the end"),
        ("i in (5,)", 9, "a column is compared with a literal, not with )"),
        ("i = null", 5, "what is compared with null matches never: write is null"),
        ("i is true", 6, "is has to be followed by null or not null, not by true"),
        ("i between 1 or 2", 13, "between has two literals with and between them, not or"),
        ("i between symmetric 1 and 2", 11, "a column is compared with a literal, not with symmetric"),
        ("i = 5 i = 6", 7, "and, or or the end has to follow a condition, not i"),
        ("i = 5)", 6, "and, or or the end has to follow a condition, not )"),
        ("(i = 5", 7, ") is expected, not the end"),
        ("i = 5 and", 10, "a condition begins with a column, not with the end"),
        ("lower(t) = 'x'", 1, "functions, here lower, are not part of row filters"),
        ("user = 'x'", 1, "user is a word of SQL; quote it if it is a column"),
        ("exists (select 1)", 1, "functions, here exists, are not part of row filters"),
        ("true", 1, "true is a word of SQL; quote it if it is a column"),
        ("i::text = '5'", 2, "casts by :: and parameters are not part of row filters"),
        ("i = :five", 5, "casts by :: and parameters are not part of row filters"),
        ("i = $1", 5, "parameters are not part of row filters"),
        ("x.i = 5", 2, "a column stands without its table"),
        ("i = 5; drop table x", 6, "a row filter is one condition"),
        ("i = 5 -- mine", 7, "comments are not part of row filters"),
        ("i =--5", 4, "comments are not part of row filters"),
        ("i = 5 /* mine */", 7, "comments are not part of row filters"),
        ("i !=-5", 3, "!=- is no comparison of row filters"),
        ("i => 5", 3, "=> is no comparison of row filters"),
        ("t || 'x' = 'y'", 3, "|| is no comparison of row filters"),
        ("t ~ 'x'", 3, "~ is no comparison of row filters"),
        ("t = e'x'", 5, f"e {_NO_TYPE}"),
        ("i = int '5'", 5, f"int {_NO_TYPE}"),
        ("t = 'x", 5, "a text does not end"),
        ('"i = 5', 1, "a name in quotes does not end, or is empty"),
        ('"" = 5', 1, "a name in quotes does not end, or is empty"),
        ("[i] = 5", 1, "[ is not part of row filters"),
        ("GRÖßE = 5", 1, "servers differ in how they read grÖße: quote it"),
        ("i = 1e5", 5, "the number is not in plain digits, or runs into the next word"),
        ("i = 0x1F", 5, "the number is not in plain digits, or runs into the next word"),
        ("i = 5and s = 5", 5, "the number is not in plain digits, or runs into the next word"),
        ("i = 1.2.3", 5, "the number is not in plain digits, or runs into the next word"),
        ("t = 'a\0'", 7, "the character is none that PostgreSQL stores"),
        ("t = '\ud800'", 6, "the character is none that PostgreSQL stores"),
        ("(" * 51 + "i = 5" + ")" * 51, 51, "conditions stand more than 50 deep in each other"),
        ("not " * 60 + "i = 5", 201, "conditions stand more than 50 deep in each other"),
    ],
)  # fmt: skip
def test_text_outside_the_grammar_is_refused_with_its_place(filter_text: str, place: int, reason: str) -> None:
    with pytest.raises(FilterMalformed) as refused:
        parse_filter(filter_text, COLUMNS)

    assert (refused.value.place, refused.value.reason) == (place, reason)


_PLAIN_MOMENT = "the text is not written as '{}' is, with BC perhaps, nor infinity, -infinity"


@pytest.mark.parametrize(
    ("filter_text", "reason"),
    [
        ("i = 'x'", "i is integer, and the text is not an integer in plain digits"),
        ("i = '1.5'", "i is integer, and the text is not an integer in plain digits"),
        ("i = '0x1F'", "i is integer, and the text is not an integer in plain digits"),
        ("i = '2147483648'", "i is integer, and the text is a number out of the type's range"),
        ("s in (5, '-32769')", "s is smallint, and the text is a number out of the type's range"),
        ("i = true", "i is integer, and it is compared with numbers only"),
        ("n = '1e5'", "n is numeric(8,2), and the text is not a number in plain digits"),
        ("n = " + "9" * 1001, "n is numeric(8,2), and the number has more than 1000 digits"),
        ("flag = 1", "flag is boolean, and it is compared with true and false only"),
        ("flag = 'maybe'", "flag is boolean, and it is compared with true and false only"),
        ("id = ' a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
         "id is uuid, and it is compared with texts of the form 8-4-4-4-12 hexadecimal digits only"),
        ("d = 20240131", "d is date, and it is compared with texts in quotes only"),
        ("d = 'today'", "d is date, and " + _PLAIN_MOMENT.format("2024-01-31")),
        ("d = '31.01.2024'", "d is date, and " + _PLAIN_MOMENT.format("2024-01-31")),
        ("d = '0000-01-01'", "d is date, and " + _PLAIN_MOMENT.format("2024-01-31")),
        ("d = '2023-02-29'", "d is date, and the calendar has no such day"),
        ("d = '4714-11-23 BC'", "d is date, and the text is out of the type's range"),
        ("d = timestamp '2024-01-31'", "d is date, and the literal is a timestamp without time zone"),
        ("ts = date '2024-01-31'", "ts is timestamp(3) without time zone, and the literal is a date"),
        ("ts = '2024-01-31 10:00:00+00'",
         "ts is timestamp(3) without time zone, and " + _PLAIN_MOMENT.format("2024-01-31 23:59:59.999999")),
        ("ts = '294277-01-01'", "ts is timestamp(3) without time zone, and the text is out of the type's range"),
        ("tz = '2024-01-31 10:00:00'",
         "tz is timestamp with time zone, and " + _PLAIN_MOMENT.format("2024-01-31 23:59:59.999999+00")),
        ("t = 5", "t is text, and it is compared with texts in quotes only"),
        ("c = date '2024-01-31'", "c is character(4), and the literal is a date"),
    ],
)  # fmt: skip
def test_literal_refused_or_reinterpreted_by_server_is_refused(filter_text: str, reason: str) -> None:
    with pytest.raises(FilterMalformed) as refused:
        parse_filter(filter_text, COLUMNS)

    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("filter_text", "column", "reason"),
    [
        ("f = 0.1", "f", "a literal is rounded to it before they are compared"),
        ("doc = '{}'", "doc", "documents are not compared by their text"),
        ("tags = '{}'", "tags", _NOT_EXACT),
        ("mood is null", "mood", _NOT_EXACT),
        ("t < 'x'", "t", _NOT_ORDERED),
        ("t between 'a' and 'b'", "t", _NOT_ORDERED),
        ("c >= 'x'", "c", _NOT_ORDERED),
    ],
)  # fmt: skip
def test_type_whose_text_does_not_compare_as_value_is_refused(filter_text: str, column: str, reason: str) -> None:
    with pytest.raises(FilterTypeInexact) as refused:
        parse_filter(f"i = 5 and {filter_text}", COLUMNS)

    assert (refused.value.place, refused.value.column, refused.value.reason) == (11, column, reason)


@pytest.mark.parametrize("type_text", ["text", "character varying(5)", "character(4)"])
def test_nondeterministic_collation_allows_null_tests_only(type_text: str) -> None:
    column = FilterColumn(0, "t", type_text, has_deterministic_collation=False)
    parse_filter("t is not null", [column])

    with pytest.raises(FilterTypeInexact) as refused:
        parse_filter("t in ('x')", [column])

    assert refused.value.reason == "its collation makes different texts equal"


@pytest.mark.parametrize(("filter_text", "name"), [("i = 5 or Missing = 1", "missing"), ('i = 5 or "I" = 1', "I")])
def test_a_column_that_is_not_published_is_refused(filter_text: str, name: str) -> None:
    with pytest.raises(FilterColumnUnpublished) as refused:
        parse_filter(filter_text, COLUMNS)

    assert (refused.value.place, refused.value.column) == (10, name)


def test_refusals_say_where_and_why() -> None:
    with pytest.raises(FilterMalformed) as malformed:
        parse_filter("i = s", COLUMNS)
    with pytest.raises(FilterTypeInexact) as inexact:
        parse_filter("f = 0.1", COLUMNS)
    with pytest.raises(FilterColumnUnpublished) as unpublished:
        parse_filter("x = 5", COLUMNS)

    assert str(malformed.value) == (
        "RT-7121: the row filter i = s is refused at character 5: a column is compared with a literal, not with s. "
        "Compare columns with literals by =, <>, <, <=, >, >=, in, between, is null; combine with and, or, not."
    )
    assert str(inexact.value) == (
        "RT-7122: the row filter f = 0.1 is refused at character 1: f is double precision, and a literal is rounded to "
        "it before they are compared. Filter by a column of an exact type, which a trigger can maintain."
    )
    assert str(unpublished.value) == (
        "RT-7123: the row filter x = 5 names x at character 1, which is not a published column. "
        "Publish the column, or remove it from the filter. Unquoted names are folded to lower case."
    )
    assert str(pickle.loads(pickle.dumps(inexact.value))) == str(inexact.value)
