"""Programs do not write to the tables of tracking and merge."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.merge.merged_databases import open_server_member
from rowtide.databases.sqlite.errors import FileFailed
from rowtide.databases.sqlite.guarding import WRITING
from rowtide.handle import connect
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT
from rowtide.tracking import ChangeTracking

OURS = (
    "select name from sqlite_schema where type = 'table' and (name like 'MS%' or name like 'sysm%' or name like '__s%')"
)
ITEM = "create table item (id integer primary key, name text)"
WRITES = {
    "insert": "insert into {table} default values",
    "update": "update {table} set {column} = {column}",
    "delete": "delete from {table}",
}


def refused(program: sqlite3.Connection, table: str) -> set[str]:
    """Return the writes that a table refuses, of which those that would change rows need some."""
    column = program.execute(f"pragma table_info({table})").fetchone()[1]
    found = set()
    for event, statement in WRITES.items():
        try:
            program.execute("savepoint try")
            program.execute(statement.format(table=f'"{table}"', column=f'"{column}"'))
        except sqlite3.IntegrityError as error:
            if "is rowtide's own" in str(error):
                found.add(event)
        finally:
            program.execute("rollback to try")
            program.execute("release try")
    return found


def test_files_refuse_writes_to_tables_of_ours(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("file") / "shop.db"
    with sqlite3.connect(path, isolation_level=None) as program:
        program.execute(ITEM)
        merge, tracking = connect(f"sqlite:///{path}").merge, ChangeTracking(program)
        merge.add_publication("shop")
        merge.add_article("shop", "item")
        tracking.enable_tracking("item")
        program.execute("insert into item (id, name) values (1, 'a'), (2, 'b')")
        program.execute("delete from item where id = 1")
        program.execute("update item set name = 'c'")
        tables = {name for (name,) in program.execute(OURS)} - {WRITING, AGENT}
        found = {table: refused(program, table) for table in tables}
        # Of a table without rows only an insert says anything.
        filled = {table for table in tables if program.execute(f'select 1 from "{table}" limit 1').fetchone()}
        inserted_by_triggers = {"MSmerge_log", "__sysOCSDeletedRows"}
        assert {"MSmerge_stored_contents", "sysmerge_stored_articles", "__sysClock"} <= tables
        assert filled >= {"sysmerge_stored_articles", "__sysClock", *inserted_by_triggers}
        for table in tables:
            # Notes of what a statement may displace are there while it runs.
            wanted = set() if table in {*inserted_by_triggers, "MSmerge_displaced"} else {"insert"}
            assert found[table] == wanted | ({"update", "delete"} if table in filled else set()), table
        # The agent, and tracking itself, continue.
        assert merge.make_generation() is not None
        with tracking.changes("item") as changes:
            assert len(list(changes)) == 1
        assert program.execute(f"select count(*) from {AGENT}").fetchone() == (0,)


def test_a_table_is_rebuilt_as_ever_while_it_is_merged(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("file") / "shop.db"
    with sqlite3.connect(path, isolation_level=None) as program:
        program.execute(ITEM)
        program.execute("create table other (id integer primary key)")
        merge = connect(f"sqlite:///{path}").merge
        merge.add_publication("shop")
        merge.add_article("shop", "item", where="name = host_name()")
        program.executescript(
            "begin; create table new (id integer primary key, name text, rowguid text, more text); "
            "insert into new select id, name, rowguid, null from item; drop table item; "
            "alter table new rename to item; alter table other rename to another; commit"
        )
        assert program.execute("select count(*) from MSmerge_contents").fetchone() == (0,)


@pytest.mark.live
def test_servers_give_applications_no_rights(make_role: Callable[[str], str], database: str) -> None:
    name = sql.Identifier(make_role("login")).as_string()
    merge = connect(database).merge
    with open_server_member(database) as hub:
        hub.execute(ITEM)
        merge.add_publication("shop")
        merge.add_article("shop", "item")
        hub.execute(f"grant all on item to {name}", f"set role {name}")
        hub.execute("insert into item (id, name) values (1, 'a')", "update item set name = 'b'")
        for table in ("MSmerge_contents", "MSmerge_stored_contents", "MSmerge_log"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                hub.execute(f'select * from rowtide_merge."{table}"')
        hub.execute("reset role")
        assert len(hub.execute('select * from rowtide_merge."MSmerge_contents"')) == 1


@pytest.mark.parametrize("first", ["tracking", "merge"])
def test_a_feature_that_ends_leaves_the_clock_to_the_other(tmp_path: Path, first: str) -> None:
    path, device = tmp_path / "hub.db", f"sqlite:///{tmp_path}/device.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as program:
        program.execute("create table item (id integer primary key, name text)")
        merge, tracking = connect(f"sqlite:///{path}").merge, ChangeTracking(program)
        merge.add_publication("shop")
        merge.add_article("shop", "item")
        merge.add_subscription("shop", device)
        tracking.enable_tracking("item")
        with tracking.changes(["item"]) as changes:
            pass
        if first == "tracking":
            tracking.disable_tracking("item")
        else:
            merge.drop_subscription("shop", device)
            merge.drop_publication("shop")
        program.execute("insert into item (id, name) values (1, 'a')")
        if first == "tracking":
            assert merge.sync("shop", device).download.total.inserts == 1
            merge.drop_subscription("shop", device)
            merge.drop_publication("shop")
        else:
            with tracking.changes(["item"], changes.anchor) as since:
                assert [change.operation for change in since] == ["insert"]
            tracking.disable_tracking("item")
        left = [
            str(name)
            for (name,) in program.execute("select name from sqlite_schema where name like 'MS%' or name like '%sys%'")
        ]
        # What tracking watched stays: the column, which merge had added, with its index.
        assert [name for name in left if not name.startswith("MSmerge_rowguid")] == []
        assert bool(left) == (first == "merge")


def test_metadata_that_a_program_dropped_are_no_refused_row(tmp_path: Path) -> None:
    path, device = tmp_path / "hub.db", f"sqlite:///{tmp_path}/device.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as program:
        program.execute("create table item (id integer primary key, name text)")
        merge = connect(f"sqlite:///{path}").merge
        merge.add_publication("shop")
        merge.add_article("shop", "item")
        merge.add_subscription("shop", device)
        program.execute("drop index MSmerge_contents_stamp")
        program.execute("insert into item (id, name) values (1, 'a')")
        with pytest.raises(FileFailed, match=r"RT-1124: .*hub.db .* no such index: MSmerge_contents_stamp"):
            merge.sync("shop", device)
