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
