"""A change that is too large to be delivered suspends its article; the others go on."""

from __future__ import annotations

import psycopg

from builders.captured_databases import LoggedDatabase
from builders.command_lines import rowtide
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.batches import MAX_MESSAGE_BYTES

TOO_LONG = f"convert_to(repeat('x', {MAX_MESSAGE_BYTES // 2}), 'UTF8')"


def test_an_article_is_suspended_and_the_others_go_on(server: EmbeddedServer, logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, value bytea)", "create table other (id int primary key)")

    def run(*command: str) -> str:
        return rowtide("replication", *command, "--db", logged.url).errors

    with fresh_database(server) as subscriber:
        run("add-publication", "p", "--lake", str(logged.lake))
        run("add-article", "p", "item")
        run("add-article", "p", "other")
        run("add-subscription", "p", "--subscriber", subscriber)
        logged.execute("insert into item values (1)", "insert into other values (1)")
        run("run", "--once")
        with logged.transaction() as transaction:
            transaction.execute("insert into item values (2)")
            transaction.execute(f"insert into item values (3, {TOO_LONG})".encode())
            transaction.execute("insert into other values (2)")
        logged.execute("insert into item values (4)", "insert into other values (3)")
        told = run("run", "--once")
        assert "RT-7166: published table public.item is suspended from the transaction at LSN" in told
        logged.execute("insert into item values (5)", "insert into other values (4)")
        assert "RT-7166" not in run("run", "--once")
        assert "RT-7166" in rowtide("replication", "status", "--db", logged.url, "--format", "csv").output
        with psycopg.connect(subscriber) as session:
            assert session.execute("select id from item order by id").fetchall() == [(1,)]
            assert session.execute("select id from other order by id").fetchall() == [(1,), (2,), (3,), (4,)]
