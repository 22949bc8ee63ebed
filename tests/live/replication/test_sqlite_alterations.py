"""Columns of a file's unique indexes and keys are altered as the publisher's; what the file has of its own stays."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import PUBLICATION
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.subscription_settings import SyncType

TABLE = """
create table t (
    id int primary key, u int unique, v text not null unique, x int, y int, price numeric(12,3) not null default 1.5,
    unique (x, y), unique (v, price))
"""
ROWS = "insert into t (id, u, v, x, y) select g, g, 'v' || g, g, g from generate_series(1, 3) g"
ALTERED = {
    "another type of a unique column": "alter table t alter u type text",
    "another type in a unique pair": "alter table t alter x type text using x * 2",
    "another type of the key": "alter table t alter id type text",
    "a wider key": "alter table t alter id type bigint",
    "another scale": "alter table t alter price type numeric(20,5)",
    "a unique column is dropped": "alter table t drop u",
    "one of a unique pair is dropped": "alter table t drop x",
    "nulls in a unique column": "alter table t alter v drop not null",
    "several at once": "alter table t alter u type text, alter y type bigint, drop v, alter price drop not null",
    "a name that another had": "alter table t drop x; alter table t rename y to x; alter table t alter x type text",
}
OWN = (
    """
    create table T (
        ID int primary key, U int unique on conflict fail default (-1), v text not null constraint named unique,
        x integer, [y] integer check (y > 0),
        price text constraint "not null" not null default '1.5', own text default 'own',
        unique (x, y), unique (v, price), check (x <> 9), foreign key (u) references other (u))
    """,
    "create table log (id integer)",
    "create trigger written after insert on t begin insert into log values (new.id); end",
    "create view shown as select id, own, price from t",
    "create index own_index on t (own, price) where own is not null",
)
"""The file's own table for that."""


@pytest.mark.parametrize("change", ALTERED)
def test_a_copied_table_is_altered_with_its_keys(replicated_file: ReplicatedFile, change: str) -> None:
    statements = ALTERED[change]
    replicated_file.publish(TABLE, t={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.publisher.execute(*statements.split(";"))
    wanted = replicated_file.publisher.execute(
        "select count(*) from pg_index where indrelid = 't'::regclass and indisunique and not indisprimary"
    )
    replicated_file.publisher.execute("delete from t where id = '3'")
    replicated_file.deliver()

    (validated,) = replicated_file.replication.validate(PUBLICATION, checksum=True)
    assert (validated.result, validated.left_out) == ("passed", ())
    replicated_file.require_equal("t")
    made = "select count(*) from pragma_index_list('t') where \"unique\" and origin <> 'pk'"
    assert replicated_file.subscriber.execute(made) == wanted


def test_a_column_that_differs_in_case_alone_is_left_out(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish("create table t (id int primary key, a int)", t={})
    replicated_file.publisher.execute("insert into t values (1, 1)")
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.publisher.execute(
        'alter table t add "A" int default 7',
        "insert into t values (2, 2, 3)",
        "alter table t rename a to b",
        'alter table t add "B" int default 8',
        "insert into t values (3, 3, 4, 5)",
    )
    replicated_file.deliver()

    (validated,) = replicated_file.replication.validate(PUBLICATION, checksum=True)
    assert (validated.result, validated.left_out) == ("passed", ("A", "B"))
    assert replicated_file.subscriber.execute("select * from t order by id") == [(1, 1), (2, 2), (3, 3)]


def test_letters_beyond_ascii_differ_in_case(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish('create table t (id int primary key, "ä" numeric(5,2) unique, "Ä" int unique)', t={})
    replicated_file.publisher.execute("insert into t values (1, 1.5, 2)")
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.publisher.execute(
        'alter table t alter "Ä" type text',
        "insert into t values (2, 2.5, '007')",
        'alter table t add "Ö" int default 3',
        'alter table t add "ö" int default 4',
        'alter table t drop "Ä"',
        "insert into t values (4, 4.5, 5, 6)",
    )
    replicated_file.deliver()

    replicated_file.require_equal("t")
    assert replicated_file.subscriber.execute('select "ä", "Ö", "ö" from t where id = 2') == [("2.50", 3, 4)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", ALTERED)
def test_an_own_table_is_altered_and_keeps_what_is_its_own(replicated_file: ReplicatedFile, change: str) -> None:
    statements = ALTERED[change]
    replicated_file.begin(TABLE, at_file=OWN, t={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.deliver()
    replicated_file.publisher.execute(*statements.split(";"), "delete from t where id = '3'")
    replicated_file.deliver()

    replicated_file.require_equal("t")
    (validated,) = replicated_file.replication.validate(PUBLICATION, checksum=True)
    assert validated.result == "passed"
    rows = replicated_file.subscriber.execute("select own from shown")
    assert rows == [("own",), ("own",)]
    kept = replicated_file.subscriber.execute("select name from sqlite_schema where name in ('written', 'own_index')")
    assert len(kept) == 2
    assert len(replicated_file.subscriber.execute("select id from log")) >= 3
