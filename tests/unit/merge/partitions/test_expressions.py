"""What merge's filters may say, and what is made of it."""

from __future__ import annotations

import pytest

from rowtide.databases.filter_words import FilterUnreadable
from rowtide.merge.partitions.expressions import (
    NameScope,
    ScopeTable,
    SubscriberValue,
    as_sql,
    functions_of,
    literal,
    read_expression,
)
from rowtide.merge.partitions.expressions.tree import TYPES

CUSTOMER = ScopeTable(
    "customer",
    ("id", "region", "Name", "user", 'od"d) or (1', "rowguid"),
    {"id": "integer", "region": "character varying(5)", "Name": "numeric(5,2)"},
)
ORDERS = ScopeTable("Orders", ("id", "customer_id", "rowguid"))
OF_ROW = NameScope((CUSTOMER,))
OF_JOIN = NameScope((ORDERS, CUSTOMER))
NORTH = {SubscriberValue.HOST_NAME: "nor'th", SubscriberValue.SUSER_NAME: ") or true --"}


def written(filter_text: str, scope: NameScope = OF_ROW) -> str:
    return as_sql(read_expression(filter_text, scope), NORTH).replace('"customer".', "")


@pytest.mark.parametrize(
    ("filter_text", "sql"),
    [
        ("region = host_name()", "(\"region\" = 'nor''th')"),
        ("customer.region = HOST_NAME ( )", "(\"region\" = 'nor''th')"),
        ("suser_sname() = name or suser_name()='x'", "((') or true --' = \"Name\") or (') or true --' = 'x'))"),
        ("id = 1 or id = 2 and not id <> 3", '(("id" = 1) or (("id" = 2) and (not ("id" <> 3))))'),
        ("not id in (1, 2) or id not in (3)", '((not ("id" in (1, 2))) or (not ("id" in (3))))'),
        ("id not between 1 and 2 and true", '((not ("id" between 1 and 2)) and true)'),
        ("region like 'n%' and region not like '_'", "((\"region\" like 'n%') and (not (\"region\" like '_')))"),
        ("region is null or not region is not null", '(("region" is null) or (not (not ("region" is null))))'),
        ("(id = 1) is not true", '(not (("id" = 1) is true))'),
        ("id + 1 - 2 * id % 5 > - -3", '((("id" + 1) - ((2 * "id") % 5)) > (- (- 3)))'),
        ("id / 2 || 'x' <> lower(coalesce(region, 'a', name))",
         "(((\"id\" / 2) || 'x') <> lower(coalesce(\"region\", 'a', \"Name\")))"),
        ("id >= date '2024-01-01'", "(\"id\" >= '2024-01-01')"),
        ('user = "user" and "od""d) or (1" is null', '(("user" = "user") and ("od""d) or (1" is null))'),
        ("NAME = 'it''s \\'", "(\"Name\" = 'it''s \\')"),
        ("generated_column = 1", '("generated_column" = 1)'),
        ("rowguid = 'x'", "(\"rowguid\" = 'x')"),
        ("cast(id as text) = CAST(region AS varchar)", '(cast("id" as text) = cast("region" as text))'),
        ("cast(customer.id as bigint) = cast(suser_name() as text)", "(cast(\"id\" as bigint) = ') or true --')"),
        ("id = cast(host_name() as integer)", '("id" = cast(null as bigint))'),
    ],
)  # fmt: skip
def test_a_filter_is_written_from_its_parts_alone(filter_text: str, sql: str) -> None:
    assert written(filter_text) == sql


@pytest.mark.parametrize(
    ("value", "type_name", "sql"),
    [
        ("12", "bigint", "(12)"),
        (" -7 ", "bigint", "(-7)"),
        ("9223372036854775808", "bigint", None),
        ("1_000", "bigint", None),
        ("12.5", "bigint", None),
        ("12.50", "numeric", "(12.50)"),
        ("12", "numeric", "(12.0)"),
        ("nan", "numeric", None),
        ("1e3", "numeric", None),
        ("2024-02-29", "date", "'2024-02-29'"),
        ("2023-02-29", "date", None),
        ("nor'th", "text", "'nor''th'"),
        ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        ("", "bigint", None),
    ],
)
def test_a_converted_value_is_a_literal_of_its_type(value: str, type_name: str, sql: str | None) -> None:
    assert literal(value, type_name) == sql


def test_a_join_says_which_table_a_column_is_of() -> None:
    expression = read_expression("orders.customer_id = customer.id and region <> ''", OF_JOIN)

    assert as_sql(expression, {}) == ('(("Orders"."customer_id" = "customer"."id") and ("customer"."region" <> \'\'))')
    assert functions_of(expression) == frozenset()
    assert functions_of(read_expression("not lower(region) in (host_name())", OF_ROW)) == {SubscriberValue.HOST_NAME}


_FUNCTIONS = (
    "is none of the functions that filters may call: host_name, suser_name, abs, coalesce, length, lower, ltrim, "
    "nullif, replace, rtrim, substr, trim, upper"
)


_FOLLOWED = "rows of other tables are followed by a join filter: add-filter"
_APART = "differently, or may fail to"


@pytest.mark.parametrize(
    ("filter_text", "place", "reason"),
    [
        ("", 1, "a column or a value is expected, not the end"),
        ("region =", 9, "a column or a value is expected, not the end"),
        ("id = 1) or pg_sleep(0) is null or (true", 7, "an operator or the end has to follow, not )"),
        ("(id = 1", 8, ") is expected, not the end"),
        ("id = 1; drop table t", 7, "a row filter is one condition"),
        ("id = 1 -- mine", 8, "comments are not part of row filters"),
        ("id = /* mine */ 1", 6, "comments are not part of row filters"),
        ("region = $$x$$", 10, "parameters are not part of row filters"),
        ("region = $a$x$a$", 10, "parameters are not part of row filters"),
        ("region = e'\\x'", 10, "e is not one of date, timestamp, timestamptz, uuid, which may precede a text"),
        ("region = U&'x'", 11, "& is no comparison of row filters"),
        ("region = 'x", 10, "a text does not end"),
        ('"region = 1', 1, "a name in quotes does not end, or is empty"),
        ("region = 'a\0'", 12, "the character is none that PostgreSQL stores"),
        ("id in (select 1)", 8, f"{_FOLLOWED} CHILD PARENT CONDITION"),
        ("id not in (select owner from t where x = 1)", 12, f'{_FOLLOWED} customer t "customer.id = t.owner"'),
        ("exists (select 1)", 9, f"{_FOLLOWED} CHILD PARENT CONDITION"),
        ("id = (select 1)", 7, f"{_FOLLOWED} CHILD PARENT CONDITION"),
        ("exists (id)", 1, f"exists {_FUNCTIONS}"),
        ("cast(id + 1 as text) = '2'", 9, "as and a type are expected, not +"),
        ("cast(lower(region) as text) = '2'", 6, "cast converts a column, host_name() or suser_name()"),
        ("cast(id as money) = 1", 12, f"money is none of the types of filters, which are {', '.join(TYPES)}"),
        ("cast(region as int) = 1", 6, f"PostgreSQL and SQLite convert character varying(5) to int {_APART}"),
        ("cast(name as text) = 1", 6, f"PostgreSQL and SQLite convert numeric(5,2) to text {_APART}"),
        ("cast(other as text) = 1", 6, f"PostgreSQL and SQLite convert unknown to text {_APART}"),
        ("random() > 0.5", 1, f"random {_FUNCTIONS}"),
        ('"lower"(region) = 1', 1, f"lower {_FUNCTIONS}"),
        ("pg_catalog.lower(region) = 1", 1, "pg_catalog is not a table of this filter, which are customer"),
        ("customer.lower(region) = 1", 1, "a column has its table's name before it, without a schema"),
        ("public.customer.id = 1", 1, "public is not a table of this filter, which are customer"),
        ("host_name(1) = 'x'", 11, ") is expected, not 1"),
        ("lower(region, 'x') = 1", 1, "lower has another number of arguments than 2"),
        ("lower() = 1", 7, "a column or a value is expected, not )"),
        ("current_user = region", 1, "current_user is a word of SQL; quote it if it is a column"),
        ("case when true then 1 end = 1", 1, "case is a word of SQL; quote it if it is a column"),
        ("id::text = '1'", 3, "casts by :: and parameters are not part of row filters"),
        ("id = null", 6, "what is compared with null matches never: write is null"),
        ("id = 1 = 2", 8, "an operator or the end has to follow, not ="),
        ("id / id = 1", 6, "/ is followed by a number other than 0, so that it has a result"),
        ("id % 0 = 1", 6, "% is followed by a number other than 0, so that it has a result"),
        ("id not = 1", 8, "in, like or between has to follow not, not ="),
        ("id is 5", 7, "is has to be followed by null, true or false, not by 5"),
        ("id between 1 or 2", 14, "between has two values with and between them, not or"),
        ("(" * 51 + "id" + ")" * 51, 51, "expressions stand more than 50 deep in each other"),
        ("id" + " + 1 - 1" * 60 + " = 0", 204, "operators change more than 50 times: use parentheses"),
    ],
)  # fmt: skip
def test_text_outside_the_grammar_is_refused_with_its_place(filter_text: str, place: int, reason: str) -> None:
    with pytest.raises(FilterUnreadable) as refused:
        read_expression(filter_text, OF_ROW)

    assert (refused.value.position, refused.value.reason) == (place, reason)


@pytest.mark.parametrize(
    ("filter_text", "reason"),
    [
        ("id = customer_id", "write the table before column id: both tables have one"),
        ("nothing = 1", "write the table before column nothing: none of the tables has one that is published"),
        ('"orders".id = 1', "orders is not a table of this filter, which are Orders or customer"),
    ],
)
def test_a_column_of_a_join_has_one_meaning(filter_text: str, reason: str) -> None:
    with pytest.raises(FilterUnreadable, match=reason):
        read_expression(filter_text, OF_JOIN)


def test_many_operands_of_one_operator_are_no_depth() -> None:
    assert written(" or ".join(["id = 1"] * 5000)).count("=") == 5000
