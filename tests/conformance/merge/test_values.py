"""SymmetricDS's scenarios of values and names (SDS-09 to SDS-27): what is written at one node is read at all."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
import pytest

from builders.merge.merged_databases import FileMember, Member, Merge
from rowtide.databases.sqlite.values import to_text
from rowtide.merge.errors.publishing import MergeKeyMissing

BYTES = bytes(range(256)).hex()


@dataclass(frozen=True)
class Values:
    """Values of a type, as SQL; `only_server` are those that only a server writes.

    `exact` are those of them that a file keeps unless its program declared the column: `numeric` has 15 digits there.
    """

    number: str
    type: str
    values: tuple[str, ...]
    only_server: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()

    def type_at(self, hub: Member) -> str:
        return "blob" if self.type == "bytea" and isinstance(hub, FileMember) else self.type

    def of(self, member: Member, hub: Member) -> tuple[str, ...]:
        """Return what a member can write, and the hub keep."""
        if isinstance(member, FileMember):
            return self.values
        return self.values + self.only_server + (() if isinstance(hub, FileMember) else self.exact)


VALUES = [
    Values("09 bytes", "bytea", ("X'00'", "X'5c'", "X'27'", "X'0d0a'")),
    Values("10 empty and null bytes", "bytea", ("X''", "null")),
    Values("10 empty and null texts", "text", ("''", "null")),
    Values("11 large text", "text", (f"'{'x€' * 400_000}'",)),
    Values("12 not a number", "double precision", ("1.5",), ("'NaN'", "'Infinity'", "'-Infinity'")),
    Values(
        "13 large and small numbers",
        "double precision",
        (
            "1.7976931348623157e308",
            "4.9e-324",
            "1e15",
            "1e14",
            "1.0",
            "100000.5",
            "1e-4",
            "-1e-5",
            "0.1 + 0.2",
            "1e15 + 0.3",
        ),
    ),
    Values("13 large integers", "bigint", ("9223372036854775807", "-9223372036854775808", "0")),
    Values(
        "14 decimals", "numeric", ("1234567.25", "-0.5", "12"), ("'NaN'",), ("1.10", "99999999999999999999.0000000001")
    ),
    Values(
        "15 quotes and spaces",
        "text",
        ("'it''s'", "'\"'", "' a '", "' '", "'\\'", "'\\N'", "'\\.'", "'a\tb'", "'a\nb'"),
    ),
    Values("15 other scripts", "text", ("'Ünïcödé €'", "'日本語'", "'🙂'", "'e\u0301'", "'Ж'")),
    Values("16 all bytes", "bytea", (f"X'{BYTES}'",)),
    Values("booleans", "boolean", ("true", "false", "null")),
    Values(
        "times",
        "timestamp",
        ("'2026-11-23 19:44:00.000001'", "'0001-01-01 00:00:00'"),
        ("'infinity'", "'0044-03-15 12:00:00 BC'"),
    ),
]


def literal(member: Member, value: str) -> str:
    """Return a value as a member's SQL writes it."""
    if value.startswith("X'") and not isinstance(member, FileMember):
        return f"'\\x{value[2:-1]}'"
    return value


def require_equal_checksums(merged: Merge) -> None:
    for subscriber in merged.subscribers:
        compared = merged.merge.validate("shop", subscriber.url, checksum=True)
        assert all(row.is_equal for row in compared), compared


def test_values_travel_unaltered(merged: Merge) -> None:
    """SDS-09 to SDS-16, a table for each of them."""
    tables = {f"thing_{place}": case for place, case in enumerate(VALUES)}
    definitions = (
        f"create table {table} (id integer primary key, v {case.type_at(merged.hub)}, w varchar(9))"
        for table, case in tables.items()
    )
    articles: dict[str, Any] = {table: {} for table in tables}
    merged.begin(*definitions, **articles)
    written: list[tuple[str, int, Member, str]] = []
    for table, case in tables.items():
        for member in merged.members:
            for value in case.of(member, merged.hub):
                written.append((table, len(written), member, literal(member, value)))
                member.execute(f"insert into {table} (id, v) values ({written[-1][1]}, {written[-1][3]})")
    merged.settle()
    require_equal_checksums(merged)
    # What comes back to where it was written is what it was.
    merged.subscribers[1].execute(*(f"update {table} set w = 'seen'" for table in tables))
    merged.settle()
    require_equal_checksums(merged)

    for table, key, member, value in written:
        same = "is" if isinstance(member, FileMember) else "is not distinct from"
        found = member.execute(f"select w from {table} where id = {key} and v {same} {value}")
        assert found == [("seen",)], (tables[table].number, value)


@pytest.mark.parametrize("name", ["ALL_CAPS", "MixedCase", "with space", "table", "a" * 40, 'quo"te', "Ünïcödé"])
def test_sds_17_tables_may_have_any_name(merged: Merge, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    articles: dict[str, Any] = {name: {}}
    merged.begin(f"create table {quoted} (id integer primary key, name varchar(9))", **articles)
    for number, member in enumerate(merged.members):
        member.execute(f"insert into {quoted} (id, name) values ({number}, 'a')")
    merged.settle()
    merged.subscribers[0].execute(f"update {quoted} set name = 'b'", f"delete from {quoted} where id = 0")
    merged.settle()

    merged.require_equal(quoted, columns="id, name")
    assert merged.hub.rows(quoted, "id, name") == [(1, "b"), (2, "b")]


@pytest.mark.parametrize("options", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_sds_18_columns_may_be_called_as_words_of_sql_are(merged: Merge, options: dict[str, bool]) -> None:
    names = ("order", "select", "from", "user", "Group", "with space", "new", "old", "n", "tablenick", "kind", "stamp")
    columns = ", ".join(f'"{name}"' for name in names)
    merged.begin(
        f'create table thing ("key" integer primary key, {columns.replace(",", " integer,")} integer)', thing=options
    )
    merged.hub.execute(f'insert into thing ("key", {columns}) values (1, {", ".join(["1"] * len(names))})')
    merged.settle()
    for number, subscriber in enumerate(merged.subscribers):
        subscriber.execute(
            *(f'update thing set "{name}" = {place}' for place, name in enumerate(names) if place % 2 == number)
        )
        merged.settle()

    merged.require_equal("thing", columns=f'"key", {columns}')
    assert merged.hub.rows("thing", columns) == [tuple(range(len(names)))]


def test_names_may_have_percent_signs(merged: Merge) -> None:
    options: dict[str, Any] = {"50 %s": {}, "of %": {}}
    merged.begin(
        'create table "50 %s" ("a %" integer primary key, "b %s" text)',
        'create table "of %" ("id %" integer primary key, "a %" integer references "50 %s")',
        **options,
    )
    merged.hub.execute('insert into "50 %s" ("a %", "b %s") values (1, \'hub\')')
    first, second = merged.subscribers
    for number, subscriber in enumerate((first, second), 2):
        subscriber.execute('insert into "50 %s" ("a %", "b %s") values (7, \'x\')')
        subscriber.execute(f'insert into "of %" ("id %", "a %") values ({number}, 7)')
    merged.settle()

    merged.require_equal('"50 %s"', columns='"a %", "b %s"')
    merged.require_equal('"of %"', columns='"id %", "a %"')


@pytest.mark.parametrize("options", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_sds_19_a_table_of_one_column_whose_key_changes(merged: Merge, options: dict[str, bool]) -> None:
    merged.begin("create table thing (id integer primary key)", "insert into thing values (1), (2)", thing=options)
    merged.subscribers[0].execute("update thing set id = 5 where id = 1")
    merged.hub.execute("update thing set id = 6 where id = 2")
    merged.settle()

    assert [member.rows("thing", "id") for member in merged.members] == [[(5,), (6,)]] * 3


def test_sds_20_a_table_without_a_key_is_refused(merged: Merge) -> None:
    merged.hub.execute("create table thing (id integer)")
    merged.merge.add_publication("shop")

    with pytest.raises(MergeKeyMissing):
        merged.merge.add_article("shop", "thing")


def test_sds_23_an_update_that_changes_nothing_is_no_conflict(merged: Merge) -> None:
    rows = ("create table thing (id integer primary key, v integer)", "insert into thing values (1, 1)")
    merged.begin(*rows, thing={"column_tracking": True})
    merged.hub.execute("update thing set v = v")
    merged.subscribers[0].execute("update thing set v = 2")
    merged.settle()

    assert [member.rows("thing", "v") for member in merged.members] == [[(2,)]] * 3
    assert merged.conflicts() == []


@pytest.mark.parametrize("options", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_sds_27_nulls_come_and_go(merged: Merge, options: dict[str, bool]) -> None:
    rows = (
        "create table thing (id integer primary key, v integer, w integer)",
        "insert into thing values (1, 1, null)",
    )
    merged.begin(*rows, thing=options)
    merged.subscribers[0].execute("update thing set v = null")
    merged.settle()
    merged.subscribers[1].execute("update thing set w = 1")
    merged.settle()

    assert [member.rows("thing", "v, w") for member in merged.members] == [[(None, 1)]] * 3


@pytest.mark.live
@pytest.mark.parametrize("type_text", ["double precision", "real"])
def test_a_file_writes_floating_point_numbers_as_the_server_does(database: str, type_text: str) -> None:
    chance = Random(20260)
    digits = [
        f"{chance.choice(['', '-'])}{chance.randrange(1, 10**17)}e{chance.randrange(-30, 20)}" for _ in range(20_000)
    ]
    powers = [f"{digit}e{exponent}" for digit in (1, 9, 123) for exponent in range(-20, 20)]
    with psycopg.connect(database) as server:
        query = f"select v::{type_text}::text from unnest(%s::text[]) v"
        written = [text for (text,) in server.execute(query.encode(), [digits + powers])]

    assert [to_text(float(text), type_text) for text in written] == written
