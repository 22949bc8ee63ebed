"""Every way in which an application writes: what of it reaches the log store.

All is written first and read together; each test looks at tables of its own, on both servers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from fixtures.servers import fresh_database
from rowtide.cdc.errors.enabling import InstanceNameTaken, TableNotCapturable
from rowtide.core.operations import Operation
from rowtide.log.store.segments import read_segment

INSERT, UPDATE, DELETE = "insert", "update", "delete"
TABLES = {
    "nested": "id int primary key",
    "prepared": "id int primary key, name text",
    "copied": "id int primary key, name text",
    "bulk": "id int primary key",
    "upserted": "id int primary key, name text",
    "merged": "id int primary key, name text",
    "rekeyed": "id int primary key, name text",
    "keyless": "id int, name text",
    "parent": "id int primary key",
    "cascaded": "id int primary key, parent int references parent on delete cascade on update cascade",
    "orphaned": "id int primary key, parent int references parent on delete set null",
    "audited": "id int primary key, name text",
    "audit": "entry text",
    "computed": "id int primary key, price int, twice int generated always as (price * 2) stored",
    '"Camel"': '"Id" int primary key, "id" text, "größe €" text, "select" text, "a.b""c" text',
    "camel": "id int primary key",
    "widest": ", ".join(f"c{n} int" for n in range(1, 1601)),
    "secretive": "id int primary key, name text, secret text, secret_document text",
}
SECRET = "5f0e6c1b-hidden-9d27"


@dataclass(frozen=True)
class Written:
    """The database, and what reached its log store: operation and row images of each table, in commit order."""

    logged: LoggedDatabase
    changes: dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module", params=["server", "server_16"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The module's tables, after everything that the tests look at."""
    with (
        fresh_database(request.getfixturevalue(request.param)) as url,
        psycopg.connect(url, autocommit=True) as session,
    ):
        logged = LoggedDatabase(url, tmp_path_factory.mktemp("written") / "lake", session)
        logged.execute(*(f"create table {name} ({columns})" for name, columns in TABLES.items()))
        logged.execute("alter table secretive alter secret_document set storage external")
        logged.enable(*(name for name in TABLES if name not in ("camel", "secretive")))
        logged.cdc.enable_table("camel", capture_instance="lower")
        logged.cdc.enable_table("secretive", columns=("id", "name"))
        for write in (
            write_nested,
            write_prepared,
            write_rows,
            write_keys,
            write_side_effects,
            write_odd,
            write_secret,
        ):
            write(logged)
        logged.read_log()
        yield Written(logged, changes_by_table(logged))


def write_nested(logged: LoggedDatabase) -> None:
    with logged.transaction() as session:
        session.execute("insert into nested values (1)")
        session.execute("savepoint a")
        session.execute("insert into nested values (2)")
        session.execute("savepoint b")
        session.execute("insert into nested values (3)")
        session.execute("release b")
        session.execute("rollback to a")
        session.execute("insert into nested values (4)")
        session.execute("savepoint c")
        session.execute("update nested set id = 5 where id = 4")
        session.execute("release c")
    logged.execute(
        "do $$ begin insert into nested values (6); "
        "begin insert into nested values (7); raise exception 'no'; exception when others then null; end; end $$"
    )


def write_prepared(logged: LoggedDatabase) -> None:
    with psycopg.connect(logged.url, autocommit=True) as session:
        for name in ("kept", "dropped"):
            session.execute("begin")
            session.execute(f"insert into prepared values ({len(name)}, '{name}')")
            session.execute(f"prepare transaction '{name}'")
        session.execute("insert into prepared values (0, 'between')")
        session.execute("commit prepared 'kept'")
        session.execute("rollback prepared 'dropped'")


def write_rows(logged: LoggedDatabase) -> None:
    with logged.session.cursor().copy("copy copied from stdin") as copy:
        copy.write("1\ta\n2\t\\N\n3\ttab\\tand\\\\\n")
    logged.execute(
        "insert into bulk select generate_series(1, 5000)",
        "insert into upserted values (1, 'a'), (2, 'b')",
        "insert into upserted values (2, 'B'), (3, 'c') on conflict (id) do update set name = excluded.name",
        "insert into upserted values (1, 'A'), (4, 'd') on conflict do nothing",
        "insert into merged values (1, 'a'), (2, 'b')",
        "merge into merged m using (values (1, 'A'), (2, null), (3, 'c')) s (id, name) on m.id = s.id "
        "when matched and s.name is null then delete when matched then update set name = s.name "
        "when not matched then insert values (s.id, s.name)",
    )


def write_keys(logged: LoggedDatabase) -> None:
    logged.execute(
        "insert into rekeyed values (1, 'a'), (2, 'b')",
        "update rekeyed set id = id + 10",
        "insert into keyless values (1, 'a'), (1, 'a')",
        "update keyless set name = 'b'",
        "delete from keyless",
    )


def write_side_effects(logged: LoggedDatabase) -> None:
    logged.execute(
        "create function put_in_capitals() returns trigger language plpgsql as "
        "$$ begin new.name := upper(new.name); return new; end $$",
        "create function write_audit() returns trigger language plpgsql as "
        "$$ begin insert into audit values (tg_op || ' ' || new.name); return null; end $$",
        "create trigger a before insert or update on audited for each row execute function put_in_capitals()",
        "create trigger b after insert or update on audited for each row execute function write_audit()",
        "insert into audited values (1, 'x')",
        "update audited set name = 'y'",
        "insert into parent values (1), (2)",
        "insert into cascaded values (10, 1), (20, 2)",
        "insert into orphaned values (10, 2)",
        "update parent set id = 3 where id = 1",
        "delete from parent where id = 2",
        "delete from parent where id = 3",
    )


def write_odd(logged: LoggedDatabase) -> None:
    ones = ", ".join("1" for _ in range(1600))
    logged.execute(
        "insert into computed (id, price) values (1, 21)",
        "update computed set price = 4",
        """insert into "Camel" values (1, 'lower', 'ü', 'word', 'odd')""",
        "insert into camel values (2)",
        f"insert into widest values ({ones})",
        "update widest set c1600 = 2, c1 = null",
        "select pg_logical_emit_message(true, 'shop', 'wörd'), pg_logical_emit_message(false, 'shop', 'beside')",
    )


def write_secret(logged: LoggedDatabase) -> None:
    logged.execute(
        f"insert into secretive values (1, 'a', '{SECRET}', repeat('{SECRET}', 1000))",
        f"update secretive set secret = '{SECRET}+'",
        "update secretive set name = 'b'",
        "update secretive set id = 2",
        "delete from secretive",
    )


def changes_by_table(logged: LoggedDatabase) -> dict[str, list[tuple[Any, ...]]]:
    versions = logged.manifest().state.tables
    found = defaultdict(list)
    for row in logged.records():
        operation = Operation(row["operation"]).name.lower()
        found[versions[row["table_id"]].shape.name].append((operation, row["before"], row["after"]))
    return found


@pytest.mark.exhaustive
def test_what_a_savepoint_took_back_is_not_there(written: Written) -> None:
    assert written.changes["nested"] == [
        (INSERT, None, ["1"]),
        (INSERT, None, ["4"]),
        (UPDATE, ["4"], ["5"]),
        (INSERT, None, ["6"]),
    ]


@pytest.mark.exhaustive
def test_a_prepared_transaction_is_there_when_it_commits(written: Written) -> None:
    assert [after for _, _, after in written.changes["prepared"]] == [["0", "between"], ["4", "kept"]]


def test_rows_of_copy_and_of_insert_select_are_inserts(written: Written) -> None:
    assert written.changes["copied"] == [
        (INSERT, None, ["1", "a"]),
        (INSERT, None, ["2", None]),
        (INSERT, None, ["3", "tab\tand\\"]),
    ]
    assert written.changes["bulk"] == [(INSERT, None, [str(number)]) for number in range(1, 5001)]


def test_on_conflict_is_an_insert_or_an_update_or_nothing(written: Written) -> None:
    assert written.changes["upserted"][2:] == [
        (UPDATE, ["2", "b"], ["2", "B"]),
        (INSERT, None, ["3", "c"]),
        (INSERT, None, ["4", "d"]),
    ]


def test_merge_is_what_it_did(written: Written) -> None:
    assert sorted(written.changes["merged"][2:]) == [
        (DELETE, ["2", "b"], None),
        (INSERT, None, ["3", "c"]),
        (UPDATE, ["1", "a"], ["1", "A"]),
    ]


def test_updates_of_the_key_and_without_one_have_both_rows(written: Written) -> None:
    assert written.changes["rekeyed"][2:] == [(UPDATE, ["1", "a"], ["11", "a"]), (UPDATE, ["2", "b"], ["12", "b"])]
    assert written.changes["keyless"][2:] == [(UPDATE, ["1", "a"], ["1", "b"])] * 2 + [(DELETE, ["1", "b"], None)] * 2


def test_what_foreign_keys_do_is_a_change_of_the_other_table(written: Written) -> None:
    assert written.changes["cascaded"][2:] == [
        (UPDATE, ["10", "1"], ["10", "3"]),
        (DELETE, ["20", "2"], None),
        (DELETE, ["10", "3"], None),
    ]
    assert written.changes["orphaned"][1:] == [(UPDATE, ["10", "2"], ["10", None])]


def test_rows_changed_and_rows_written_by_triggers_are_captured(written: Written) -> None:
    assert [after for _, _, after in written.changes["audited"]] == [["1", "X"], ["1", "Y"]]
    assert [after for _, _, after in written.changes["audit"]] == [["INSERT X"], ["UPDATE Y"]]


def test_a_generated_column_is_left_out(written: Written) -> None:
    assert written.changes["computed"] == [(INSERT, None, ["1", "21"]), (UPDATE, ["1", "21"], ["1", "4"])]


def test_names_that_differ_only_in_case_are_two_names(written: Written) -> None:
    assert written.changes["Camel"] == [(INSERT, None, ["1", "lower", "ü", "word", "odd"])]
    assert written.changes["camel"] == [(INSERT, None, ["2"])]
    with pytest.raises(InstanceNameTaken, match="public_camel"):
        written.logged.cdc.enable_table("camel")


def test_a_table_has_up_to_1600_columns(written: Written) -> None:
    ones = ["1"] * 1600
    assert written.changes["widest"] == [(INSERT, None, ones), (UPDATE, ones, [None, *ones[2:], "2"])]


def test_messages_of_the_application_are_not_read(written: Written) -> None:
    store, state = written.logged.store(), written.logged.manifest().state
    rows = [row for segment in state.segments for row in read_segment(store, segment.path).to_pylist()]
    payloads = [row["payload"] for row in rows if row["operation"] == Operation.MESSAGE]
    assert {json.loads(payload)["kind"] for payload in payloads} == {"enable"}


def test_unneeded_column_never_reaches_the_log_store(written: Written) -> None:
    assert [after for _, _, after in written.changes["secretive"]] == [
        *(["1", name] for name in "aab"),
        ["2", "b"],
        None,
    ]
    log_store = Path(written.logged.cdc.get_source().log_store)
    store = written.logged.store()
    segments = [segment.path for segment in written.logged.manifest().state.segments]
    assert all(SECRET not in str(read_segment(store, path).to_pylist()) for path in segments)
    assert all(SECRET.encode() not in file.read_bytes() for file in log_store.rglob("*") if file.is_file())


@pytest.mark.parametrize("kind", ["unlogged", "temporary"])
def test_a_table_whose_rows_are_not_logged_is_refused(written: Written, kind: str) -> None:
    written.logged.execute(f"create {kind} table {kind}_item (id int primary key)")
    ((schema,),) = written.logged.execute(
        f"select relnamespace::regnamespace::text from pg_class where oid = '{kind}_item'::regclass"
    )
    with pytest.raises(TableNotCapturable, match=f"RT-4103: .*{kind}_item cannot be captured: it is {kind}"):
        written.logged.cdc.enable_table(f"{schema}.{kind}_item")
