"""Merge's triggers run nothing that a merged table's owner defines with more rights than the owner has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.servers.hostile_owners import HostileOwner, hostile_owner
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.api import MergeReplication


@pytest.fixture
def owner(each_server: EmbeddedServer) -> Iterator[HostileOwner]:
    """The owner of a table with an additive column, which a superuser has published."""
    with hostile_owner(each_server) as made:
        made.run("create table app.t (id int primary key, note text, qty int)", "insert into app.t values (1, 'a', 1)")
        for command in (
            "add-publication m",
            "add-article m app.t --resolver additive:qty --column-tracking",
        ):
            ended = rowtide("merge", *command.split(), "--db", made.url)
            assert ended.code == 0, ended
        yield made


def test_altered_columns_of_a_merged_table_run_nothing(owner: HostileOwner) -> None:
    owner.define_casts("app.span", "as implicit")
    owner.run(
        "create function app.of_span(app.span) returns uuid language plpgsql immutable "
        "as $$ begin perform app.spring(); return pg_catalog.gen_random_uuid(); end $$",
        "create cast (app.span as uuid) with function app.of_span as assignment",
    )
    (triggers,) = zip(
        *owner.session.execute(
            "select tgname from pg_trigger where tgrelid = 'app.t'::regclass and tgname like '%rowguid%'"
        ).fetchall(),
        strict=True,
    )
    owner.try_to(
        "alter table app.t alter column qty type app.span using app.span(1, 2)",
        "update app.t set note = 'b'",
        *(f'drop trigger "{name}" on app.t' for name in triggers),
        "alter table app.t alter column rowguid drop default",
        "alter table app.t alter column rowguid type app.span using app.span(1, 2)",
        "update app.t set note = 'c'",
        "insert into app.t values (2, 'd', null, '[3,4)')",
        "truncate app.t",
        "delete from app.t",
    )
    types = owner.session.execute(
        "select count(*) from pg_attribute where attrelid = 'app.t'::regclass and atttypid = 'app.span'::regtype"
    ).fetchone()

    assert types == (2,)
    assert owner.sprung() == 0


def test_a_merged_table_with_types_of_the_session_is_logged(owner: HostileOwner) -> None:
    owner.run(
        *(
            f"create domain pg_temp.{name} as pg_catalog.{name} check (app.spring() is null or true)"
            for name in ("text", "uuid", "int8", "bool")
        ),
        "update app.t set qty = 5",
        "insert into app.t values (2, 'b', 2)",
        "delete from app.t where id = 1",
        "truncate app.t",
    )

    assert owner.sprung() == 0


def test_a_node_of_an_earlier_build_gets_functions_of_this_one(owner: HostileOwner) -> None:
    of_merge = "from pg_proc where pronamespace = 'rowtide_merge'::regnamespace"
    read = f"select proname, prosrc, proacl::text {of_merge} order by 1"
    with psycopg.connect(owner.url, autocommit=True) as admin:
        before = admin.execute(read.encode()).fetchall()
        triggers = f"select oid::regprocedure::text {of_merge} and prorettype = 'trigger'::regtype"
        names = admin.execute(triggers.encode()).fetchall()
        for (name,) in names:
            admin.execute(
                f"create or replace function {name} returns trigger language plpgsql security definer "
                "as 'begin return null; end'".encode()
            )
            admin.execute(f"grant execute on function {name} to public".encode())
        admin.execute("comment on schema rowtide_merge is 'rowtide merge 0'")
        ended = rowtide("merge", "status", "--db", owner.url)
        assert ended.code == 0, ended
        ended = rowtide("merge", "add-publication", "n", "--db", owner.url)
        assert ended.code == 0, ended

        assert admin.execute(read.encode()).fetchall() == before


def test_what_a_cascade_reaches_is_read_without_the_owners_code(owner: HostileOwner, tmp_path: Path) -> None:
    spring = "language plpgsql immutable as $$ begin perform app.spring(); return"
    owner.run(
        "create table app.p (id int primary key, v text)",
        "create table app.c (id int primary key, p int references app.p on delete cascade, v text)",
        "create table app.own (p int references app.p on delete cascade, c int references app.c on delete cascade)",
        f"create function app.of_text(text) returns int {spring} 1; end $$",
        "create index on app.own (p) where app.of_text('x') = 1",
        "insert into app.p values (1, 'a')",
        "insert into app.c values (1, 1, 'a')",
        "insert into app.own values (1, 1)",
    )
    device = f"sqlite:///{tmp_path / 'device.db'}"
    merge = MergeReplication(owner.url)
    merge.add_publication("n")
    merge.add_article("n", "app.p")
    merge.add_article("n", "app.c")
    merge.add_subscription("n", device)
    owner.run("insert into app.c values (2, 1, 'new')")
    with closing(sqlite3.connect(tmp_path / "device.db", isolation_level=None)) as program:
        program.execute("pragma foreign_keys = on")
        program.execute("delete from p")
        merge.sync("n", device)
        assert program.execute("select id from c order by id").fetchall() == [(1,), (2,)]
        program.execute("delete from p")
        merge.sync("n", device)

    assert owner.session.execute("select count(*) from app.c").fetchone() == (0,)
    assert {each.article for each in merge.list_conflicts()} == {"p", "c", "app.own"}
    assert owner.sprung() == 0
