"""`rowtide replication`, as a user types it."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile, declare

ORDERS = "create table orders (id int primary key, qty int, note text)"


def test_a_table_is_published_subscribed_to_and_delivered(replicated: ReplicatedDatabase) -> None:
    url, subscriber = replicated.publisher.url, replicated.subscriber.url
    replicated.publisher.execute(ORDERS)
    replicated.publisher.enable()

    def replication(*arguments: str) -> str:
        ended = rowtide("replication", *arguments, "--db", url)
        assert ended.code == 0, ended
        return ended.errors + ended.output

    assert replication("add-publication", "shop") == "Added: publication shop.\n"
    added = replication("add-article", "shop", "orders", "--columns", "id,qty", "--update-command", "mcall")
    assert added == "Added: orders is published in shop.\n"
    replicated.publisher.execute("insert into orders values (1, 1, 'a')")
    added = replication("add-subscription", "shop", "--subscriber", subscriber)
    assert added == "Added; `rowtide replication run` copies its rows and delivers.\n"
    replicated.publisher.execute("insert into orders values (2, 1, 'b')", "update orders set qty = 2 where id = 2")
    delivered = rowtide_process("replication", "run", "--once", "--db", url)

    assert delivered.code == 0, delivered
    assert f"1 of 1 chunks (0 MB) copied to {subscriber} in " in delivered.errors
    assert replicated.subscriber.execute("select * from orders order by id") == [(1, 1), (2, 2)]
    again = rowtide_process("replication", "run", "--once", "--db", url)
    assert again.code == 0, again
    listed = json.loads(replication("status", "--format", "jsonl"))
    assert (listed["publication"], listed["subscriber"], listed["articles"]) == ("shop", subscriber, 1)
    assert listed["undelivered_rows"] == 0
    scripts = replication("script-procedures", "shop")
    assert 'create or replace procedure "rowtide_subscriber"."sp_MSupd_publicorders"(c1 integer' in scripts
    replication("drop-subscription", "shop", "--subscriber", subscriber)
    from_lsn = ("--sync-type", "from-lsn", "--lsn", str(replicated.publisher.manifest().state.position))
    replication("add-subscription", "shop", "--subscriber", subscriber, *from_lsn)
    replication("drop-subscription", "shop", "--subscriber", subscriber)
    replication("drop-article", "shop", "orders")
    replication("drop-publication", "shop")


@pytest.mark.exhaustive
def test_a_file_is_subscribed_delivered_to_and_dropped(replicated_file: ReplicatedFile) -> None:
    url, subscriber = replicated_file.publisher.url, replicated_file.subscriber.url
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))

    def replication(*arguments: str) -> str:
        ended = rowtide("replication", *arguments, "--db", url)
        assert ended.code == 0, ended
        return ended.errors + ended.output

    has_tables = ("--sync-type", "replication-support-only")
    replication("add-subscription", "shop", "--subscriber", subscriber, *has_tables)
    replicated_file.publisher.execute("insert into orders values (1, 1, 'a')", "update orders set qty = 2")
    delivered = rowtide_process("replication", "run", "--once", "--db", url)

    assert delivered.code == 0, delivered
    assert f"2 commands of 2 transactions delivered to {subscriber} " in delivered.errors
    assert replicated_file.subscriber.execute("select * from orders") == [(1, 2, "a")]
    listed = json.loads(replication("status", "--format", "jsonl"))
    assert (listed["subscriber"], listed["undelivered_rows"]) == (subscriber, 0)
    scripts = replication("script-procedures", "shop", "--subscriber", subscriber)
    assert "create table if not exists MSreplication_subscriptions (" in scripts
    assert "create or replace procedure" not in scripts
    replicated_file.subscriber.path.unlink()
    gone = rowtide("replication", "drop-subscription", "shop", "--subscriber", subscriber, "--db", url)
    gone.require_error(7172)
    replication("drop-subscription", "shop", "--subscriber", subscriber, "--ignore-subscriber")
    assert replication("status", "--format", "jsonl") == ""


def test_subscriber_of_an_unknown_database_kind_is_refused(replicated: ReplicatedDatabase) -> None:
    words = ("add-subscription", "shop", "--subscriber", "oracle://host/name", "--db", replicated.publisher.url)
    ended = rowtide("replication", *words)

    assert 'no support for databases of the kind "oracle"' in ended.require_error(1021)


def test_call_format_unavailable_for_an_operation_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    words = ("add-article", "shop", "t", "--insert-command", "SCALL")
    ended = rowtide("replication", *words, "--db", replicated.publisher.url)

    assert "Use one of CALL, SQL, NONE" in ended.require_error(7101)


def test_a_run_in_a_database_that_is_not_enabled_says_so(replicated: ReplicatedDatabase) -> None:
    rowtide("replication", "run", "--once", "--db", replicated.publisher.url).require_error(14013)


@pytest.mark.exhaustive
def test_subscription_pauses_and_resumes_and_names_its_failure(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    url, subscriber = replicated.publisher.url, replicated.subscriber.url
    replicated.publisher.execute("insert into orders values (1, 1, 'a')")
    assert rowtide("replication", "pause", "shop", "--db", url).errors == "Paused.\n"
    run = ("replication", "run", "--once", "--db", url)
    assert rowtide_process(*run).code == 0
    assert replicated.subscriber.execute("table orders") == []
    assert rowtide("replication", "resume", "shop", "--subscriber", subscriber, "--db", url).errors == "Resumed.\n"
    replicated.subscriber.execute("insert into orders values (1, 0, 'there')")
    failed = rowtide_process(*run)

    assert failed.code == 1
    (told,) = failed.errors.splitlines()
    assert told.startswith(f"shop to {subscriber}: RT-7114: ")
    assert told.endswith(" It has stopped.")


def test_dry_run_prints_the_article_statements_and_runs_none(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table items (id int primary key, name text)")
    options = ("shop", "items", "--dry-run", "--db", replicated.publisher.url)
    identity = "select relreplident::text from pg_class where relname = 'items'"
    planned = rowtide("replication", "add-article", *options)
    assert 'alter table "public"."items" replica identity full;' in planned.output.splitlines()
    assert 'insert into distribution."msarticles"' in planned.output.lower()
    assert replicated.publisher.execute(identity) == [("d",)]

    replicated.publisher.execute(planned.output)
    assert replicated.publisher.execute(identity) == [("f",)]
    planned = rowtide("replication", "drop-article", *options)
    assert 'alter table "public"."items" replica identity default;' in planned.output.splitlines()
    assert replicated.publisher.execute(identity) == [("f",)]
