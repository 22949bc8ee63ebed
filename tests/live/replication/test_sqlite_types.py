"""Every type arrives in a SQLite file, each value as it is stored for its type, through inserts and updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from builders.replication.replicated_files import ReplicatedFile, as_printed, declare, is_real
from builders.values.typed_tables import COLUMNS, TABLE, create_typed_table, read_texts, write_typed_table
from rowtide.core.operations import Operation
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types.value_type import Affinity
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.errors.subscribing import ColumnAlters
from rowtide.replication.subscription_settings import SyncType

NONE, SQL = Command(CallFormat.NONE), Command(CallFormat.SQL)
CALLED = {Operation.DELETE: NONE}
STATED = {Operation.INSERT: SQL, Operation.UPDATE: SQL, Operation.DELETE: NONE}
"""Rows stay at the subscriber: the last thing that is delivered of each is its update."""
NAMES = tuple(COLUMNS)
HALF = len(NAMES) // 2


@pytest.mark.parametrize(
    ("names", "commands"), [(NAMES[:HALF], CALLED), (NAMES[HALF:], CALLED), (NAMES, STATED)], ids=["1", "2", "stated"]
)
def test_every_value_of_every_type_is_the_publishers(
    replicated_file: ReplicatedFile, names: Sequence[str], commands: Mapping[Operation, Command]
) -> None:
    create_typed_table(replicated_file.publisher.session)
    articles: dict[str, Any] = {TABLE: {"columns": ("id", *names), "commands": commands}}
    replicated_file.begin(**articles)
    write_typed_table(replicated_file.publisher.session)
    replicated_file.deliver()

    kept = read_texts(replicated_file.publisher.url, "kept", ("version", "id", *names))
    updated = {int(row[1] or 0): row[2:] for row in kept if row[0] == "1"}
    rows = replicated_file.subscriber.execute(f"select id, {', '.join(names)} from {TABLE}")
    assert {row[0] for row in rows} == set(updated)
    for number, *values in rows:
        for name, value, text in zip(names, values, updated[number], strict=True):
            type_text = COLUMNS[name].value_type_text
            expected = float(text) if is_real(type_text) and text not in (None, "NaN") else text
            assert as_printed(value, type_text) == expected, (name, type_text)
    assert len(rows) > 10


def test_types_in_numeric_columns_have_no_number_like_values(replicated_file: ReplicatedFile) -> None:
    create_typed_table(replicated_file.publisher.session)
    write_typed_table(replicated_file.publisher.session)
    taken = [
        name
        for name, samples in COLUMNS.items()
        if stored_type(samples.value_type_text).is_text
        and Affinity.NUMERIC in stored_type(samples.value_type_text).keeping
    ]
    replicated_file.subscriber.execute("create table numbers (v numeric)")
    for row in read_texts(replicated_file.publisher.url, "kept", ("version", "id", *taken)):
        replicated_file.subscriber.program.executemany(
            "insert into numbers values (?)", [(text,) for text in row[2:] if text is not None]
        )

    assert replicated_file.subscriber.execute("select distinct typeof(v) from numbers") == [("text",)]
    assert len(taken) > 10


STORAGE = {
    "smallint": ("5", "integer", 5),
    "bigint": ("9223372036854775807", "integer", 2**63 - 1),
    "real": ("0.1", "real", 0.1),
    "double precision": ("Infinity", "real", float("inf")),
    "float8": ("NaN", "text", "NaN"),
    "numeric(40,2)": ("1.10", "text", "1.10"),
    "boolean": ("true", "integer", 1),
    "bytea": ("\\x00ff", "blob", b"\x00\xff"),
    "text": ("00012", "text", "00012"),
    "char(4)": ("7", "text", "7   "),
    "jsonb": ("1.10", "text", "1.10"),
    "timestamptz": ("2024-02-29 12:00+02", "text", "2024-02-29 10:00:00+00"),
    "date": ("infinity", "text", "infinity"),
    "interval": ("1 day 2 hours", "text", "P1DT2H"),
    "int[]": ("{1,2}", "text", "{1,2}"),
    "uuid": ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "text", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
}


def test_values_are_stored_conventionally_and_found_as_keys(
    replicated_file: ReplicatedFile,
) -> None:
    tables = {f"t{place}": type_text for place, type_text in enumerate(known for known in STORAGE if known != "jsonb")}
    definitions = [
        *(f"create table {name} (k {type_text} primary key, v int)" for name, type_text in tables.items()),
        "create table j (k int primary key, v jsonb)",
    ]
    articles: dict[str, Any] = {name: {} for name in (*tables, "j")}
    replicated_file.begin(*definitions, **articles)
    for name, type_text in tables.items():
        replicated_file.publisher.execute(
            f"insert into {name} values ('{STORAGE[type_text][0]}', 1)", f"update {name} set v = 2"
        )
    replicated_file.publisher.execute("insert into j values (1, '1.10')")
    replicated_file.deliver()

    for name, type_text in tables.items():
        (row,) = replicated_file.subscriber.execute(f"select typeof(k), k, v from {name}")
        assert row == (*STORAGE[type_text][1:], 2), type_text
    assert replicated_file.subscriber.execute("select typeof(v), v from j") == [STORAGE["jsonb"][1:]]


DECLARED = ("", "integer", "text", "blob", "real", "numeric", "timestamp", "varchar(20)", "decimal(10, 2)")
NUMBERS = {"integer", "real", "numeric", "timestamp", "decimal(10, 2)"}
"""Declarations by which SQLite takes a text that looks like a number for one."""


@pytest.mark.parametrize(
    ("type_text", "samples", "refused"),
    [
        ("bigint", ("9007199254740993",), {"real"}),
        ("double precision", ("0.30000000000000004", "NaN", "-Infinity"), {"text", "varchar(20)"}),
        ("boolean", ("true", "false"), {"real"}),
        ("bytea", ("\\x3132",), set()),
        ("numeric", ("1.10", "123456789012345678901234567890.5"), NUMBERS),
        ("text", ("00012", "1e5"), NUMBERS),
        ("timestamp", ("2024-02-29 00:00", "-infinity"), set()),
        ("jsonb", ("1.10", '"1"'), NUMBERS),
        ("uuid", ("12345678-1234-1234-1234-123456789012",), set()),
    ],
)
def test_column_declaration_preserves_values_or_is_refused(
    replicated_file: ReplicatedFile, type_text: str, samples: Sequence[str], refused: set[str]
) -> None:
    """For each declaration: either every value of the type survives, or subscribing is refused."""
    replicated_file.publisher.enable()
    taken, found = [], set()
    for place, column in enumerate(DECLARED):
        name = f"t{place}"
        replicated_file.publisher.execute(f"create table {name} (id serial primary key, v {type_text})")
        replicated_file.replication.add_publication(name)
        replicated_file.replication.add_article(name, name)
        replicated_file.subscriber.execute(f"create table {name} (id integer primary key, v {column})")
        try:
            replicated_file.replication.add_subscription(
                name, replicated_file.subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY
            )
        except ColumnAlters:
            found.add(column)
        else:
            taken.append(name)
            values = ", ".join(f"('{value}')" for value in samples)
            replicated_file.publisher.execute(f"insert into {name} (v) values {values}")
    replicated_file.deliver()

    replicated_file.require_equal(*taken)
    assert found == refused


@pytest.mark.parametrize(
    ("type_text", "taking"),
    [
        ("bigint", {"int", "integer", "text", "any"}),
        ("real", {"real", "any"}),
        ("boolean", {"int", "integer", "text", "any"}),
        ("bytea", {"blob", "any"}),
        ("numeric", {"text", "any"}),
        ("timestamp", {"text", "any"}),
    ],
)
def test_a_strict_table_takes_what_its_columns_store_unaltered(
    replicated_file: ReplicatedFile, type_text: str, taking: set[str]
) -> None:
    replicated_file.publish(f"create table things (id int primary key, v {type_text})", things={})
    taken = set()
    for column in ("int", "integer", "real", "text", "blob", "any"):
        replicated_file.subscriber.execute(
            "drop table if exists things", f"create table things (id integer primary key, v {column}) strict"
        )
        try:
            replicated_file.subscribe()
        except ColumnAlters:
            continue
        replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url)
        taken.add(column)

    assert taken == taking


def test_nan_is_refused_by_a_strict_table_with_the_reason(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish("create table things (id int primary key, v real)", things={})
    replicated_file.subscriber.execute(declare(replicated_file.table("things"), suffix=" strict"))
    replicated_file.subscribe()
    replicated_file.publisher.execute("insert into things values (1, 'NaN')")

    with pytest.raises(CommandRefused, match="cannot store TEXT value in REAL column things.v"):
        replicated_file.deliver()


@pytest.mark.exhaustive
def test_a_wide_table_is_delivered_with_statements(replicated_file: ReplicatedFile) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1, 1600))
    commands = dict.fromkeys((Operation.INSERT, Operation.UPDATE, Operation.DELETE), SQL)
    replicated_file.begin(f"create table wide (id int primary key, {columns})", wide={"commands": commands})
    replicated_file.publisher.execute(
        "insert into wide (id, c1, c1599) values (1, 1, 1599), (2, null, 2)",
        "update wide set c800 = 800 where id = 1",
        "delete from wide where id = 2",
    )
    replicated_file.deliver()

    rows = replicated_file.subscriber.execute("select id, c1, c800, c1599 from wide")
    assert rows == [(1, 1, 800, 1599)]
    assert quote("wide") in declare(replicated_file.table("wide"))
